"""What models and matrices show of themselves in a notebook."""

import hashlib

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline

import arboost
from arboost import cards
from arboost.runtime.card import make_card
from report_cases import make_case

HOSTILE = "<script>alert('x')</script>&\"'"


def test_a_booster_shows_its_model():
    case = make_case("multiclass")
    model = case.model.copy()
    model.set_attr(best_iteration=4, best_score=0.25)
    card = model._repr_html_()
    digest = hashlib.sha256(model.save_raw()).hexdigest()
    assert cards.model_digest(model) == digest
    for text in ("Booster", "multi:softprob", ">6<", ">18<", "4 (score 0.25)", f"sha256 {digest[:16]}"):
        assert text in card
    model.set_attr(best_score=0.009924014173389294)
    assert "4 (score 0.00992401)" in model._repr_html_()


def test_a_booster_without_a_model_shows_its_parameters():
    card = arboost.Booster({"max_depth": 3})._repr_html_()
    assert "not trained yet" in card and "max_depth" in card


def test_linear_models_have_a_card():
    assert "gblinear" in make_case("gblinear").model._repr_html_()


@pytest.mark.parametrize("kind", [arboost.DMatrix, arboost.QuantileDMatrix])
def test_a_matrix_shows_its_size_and_what_it_has(kind):
    X = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])
    data = kind(X, [0, 1, 0, 3], weight=[1, 2, 3, 4], feature_names=["one", "two"], feature_types=["float", "c"])
    card = data._repr_html_()
    expected = (kind.__name__, "4 rows x 2 features", "12.50%", "one, two", "0 to 3", "weight", "1 of 2 features")
    for text in expected:
        assert text in card
    assert "3 columns" in arboost.DMatrix(X, np.ones((4, 3)))._repr_html_()
    assert "groups" in arboost.DMatrix(X, [0, 1, 0, 1], group=[2, 2])._repr_html_()
    assert "label" not in arboost.DMatrix(X)._repr_html_()


def test_a_matrix_without_rows_has_a_card():
    assert "0 rows" in arboost.DMatrix(np.zeros((0, 2)))._repr_html_()


def test_an_estimator_adds_its_card_to_scikit_learns_picture():
    case = make_case("binary")
    model = arboost.XGBClassifier(n_estimators=3)
    plain = model._repr_html_()
    assert "sk-container" in plain and "arboost-card" not in plain
    model.fit(case.data.get_data(), case.data.get_label())
    for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "sk-container" in shown and shown.count("arboost-card") == 1
        assert "XGBClassifier" in shown and "binary:logistic" in shown
    assert model._repr_mimebundle_()["text/plain"] == repr(model)
    assert "sk-container" in make_pipeline(model)._repr_html_()
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")


def test_cards_escape_names():
    model = make_case("regression").model.copy()
    model.feature_names = [HOSTILE, "b", "c", "d", "e"]
    model.set_attr(best_iteration=HOSTILE, best_score=HOSTILE)
    assert "<script" not in model._repr_html_()
    assert "&lt;script&gt;" in model._repr_html_()
    card = make_card(HOSTILE, HOSTILE, [(HOSTILE, HOSTILE * 100)])
    assert "<script" not in card and len(card) < 5000


def test_a_wide_matrix_has_a_short_card():
    data = arboost.DMatrix(np.zeros((2, 500)), feature_names=[f"feature number {i}" for i in range(500)])
    assert len(data._repr_html_()) < 3000
