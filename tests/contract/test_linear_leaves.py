"""Linear leaves keep the promises: the same bytes however work is cut, and a file that is the model."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import arboost
from arboost.matrix import adapt
from arboost.matrix.store import PageCache
from arboost.modelio import json_text
from arboost.modelio.files import load_bytes
from arboost.modelio.json_model import from_dict
from arboost.runtime.errors import ModelFileError
from boosting_cases import make_features, make_label
from naive_linear import values_of

X = make_features(700, missing=0.1)
Y = make_label("reg:squarederror", X)
KINDS = {
    "regression": {},
    "lossguide": {"grow_policy": "lossguide", "max_leaves": 13, "max_depth": 0, "subsample": 0.6},
    "symmetric": {"grow_policy": "symmetric", "sampling_method": "goss"},
    "forest": {"num_parallel_tree": 2, "subsample": 0.5, "tree_method": "approx"},
    "exact": {"tree_method": "exact", "gamma": 0.1},
    "poisson": {"objective": "count:poisson"},
    "classes": {"objective": "multi:softprob", "num_class": 4, "colsample_bynode": 0.5},
}


def train(params, data=None, rounds=4, **options):
    y = make_label(params.get("objective", "reg:squarederror"), X)
    common = {"linear_leaves": True, "linear_lambda": 1.0, "max_depth": 4, "nthread": 1}
    return arboost.train(common | params, arboost.DMatrix(X, y) if data is None else data, rounds, **options)


def stump():
    """A file whose one tree has a term in both leaves, as a document."""
    booster = train({"max_depth": 1}, arboost.DMatrix(X, np.nan_to_num(X[:, 0])), 1)
    return json_text.decode(bytes(booster.save_raw("json")))


def raw(params, data=None, **options):
    return bytes(train(params, data, **options).save_raw())


@pytest.mark.parametrize("chunk_rows", [100, 500])  # of 700: fewer than a sample has, and more
@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_chunks(kind, chunk_rows, monkeypatch):
    expected = raw(KINDS[kind])
    assert b"linear_leaves" in expected
    monkeypatch.setattr("arboost.tree.linear_leaves._PIECE_GRAIN", 7)
    monkeypatch.setattr("arboost.predict.forest._ROW_GRAIN", 7)
    monkeypatch.setattr("arboost.predict.forest._SMALL_WORK", 7)
    monkeypatch.setattr(adapt, "CHUNK_VALUES", chunk_rows * X.shape[1])
    y = make_label(KINDS[kind].get("objective", "reg:squarederror"), X)
    for n_threads in (1, 2, 3, 5):
        data = arboost.DMatrix(X.astype(np.float64), y)  # converted chunk by chunk
        assert raw(KINDS[kind] | {"nthread": n_threads}, data) == expected


def test_sparse_rows_and_pages(tmp_path):
    whole = np.nan_to_num(X)
    stored = sp.csr_matrix((whole.ravel(), np.tile(np.arange(6), len(X)), np.arange(0, X.size + 1, 6)), X.shape)
    expected = raw({}, arboost.DMatrix(whole, Y))
    assert raw({}, arboost.DMatrix(stored, Y)) == expected
    data = arboost.DMatrix(whole, Y)
    data.keep_on_disk(PageCache(tmp_path, 2000, page_bytes=1000))
    assert raw({}, data) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_kept_margins_are_predictions_of_the_file(kind):
    y = make_label(KINDS[kind].get("objective", "reg:squarederror"), X)
    data, other = arboost.DMatrix(X, y), arboost.DMatrix(X[::3], y[::3])
    booster = train(KINDS[kind], data, evals=[(data, "train"), (other, "other")], verbose_eval=False)
    for format in ("json", "ubj"):
        file = booster.save_raw(format)
        again = arboost.Booster(model_file=file)
        assert again.save_raw(format) == file
        for matrix, rows in ((data, X), (other, X[::3])):
            margin = booster._learner.margins(matrix)
            for model in (again, pickle.loads(pickle.dumps(booster)), booster.copy()):
                found = model.predict(arboost.DMatrix(rows), output_margin=True)
                np.testing.assert_array_equal(found.reshape(margin.shape), margin)
        np.testing.assert_array_equal(again.inplace_predict(X), booster.predict(data))


def test_rounds_in_one_go_or_two_sliced_and_joined():
    whole = train({}, rounds=6)
    half = train({}, rounds=3)
    data = arboost.DMatrix(X, Y)
    assert bytes(train({}, data, 3, xgb_model=half).save_raw()) == bytes(whole.save_raw())
    assert bytes(whole[:3].save_raw()) == bytes(half.save_raw())
    joined = arboost.Booster.concat([whole[:2], whole[2:]])
    np.testing.assert_array_equal(joined.predict(data), whole.predict(data))
    mixed = train({"linear_leaves": False}, data, 2, xgb_model=half)
    again = arboost.Booster(model_file=mixed.save_raw())
    np.testing.assert_array_equal(again.predict(data), mixed._learner.margins(data)[:, 0])
    assert b"linear_leaves" not in bytes(mixed[3:].save_raw())


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_add_up(kind):
    booster, data = train(KINDS[kind]), arboost.DMatrix(X[:50])
    margin = booster.predict(data, output_margin=True)
    for approximate in (False, True):
        parts = booster.predict(data, pred_contribs=True, approx_contribs=approximate)
        np.testing.assert_allclose(parts.sum(axis=-1), margin, atol=2e-5)
        pairs = booster.predict(data, pred_interactions=True, approx_contribs=approximate)
        np.testing.assert_allclose(pairs.sum(axis=-1), parts, atol=2e-5)
        np.testing.assert_allclose(pairs, pairs.swapaxes(-1, -2), atol=1e-6)


def test_contributions_of_one_leaf_are_its_terms():
    """Of a stump, what a term adds belongs to its feature, whatever the constants do."""
    booster = train({"max_depth": 1, "lambda": 0}, rounds=1)
    (tree,) = booster._learner.model.trees
    data = arboost.DMatrix(X)
    parts = booster.predict(data, pred_contribs=True)
    mean = (tree.threshold[1:] * tree.cover[1:]).sum() / tree.cover[0]
    np.testing.assert_allclose(parts[:, tree.feature[0]], values_of(tree, X) - mean, atol=1e-5)


def test_dumps_show_the_terms():
    booster = train({"max_depth": 1}, rounds=1)
    (tree,) = booster._learner.model.trees
    term = tree.terms[0].item()
    text, dot = booster.get_dump()[0], booster.get_dump(dump_format="dot")[0]
    shown = f"{term[2]:.9g}*(f{term[1]}[{term[4]:.9g},{term[5]:.9g}]-{term[3]:.9g})"
    assert shown in text
    assert shown in dot
    leaf = json.loads(booster.get_dump(dump_format="json")[0])["children"][0]
    names = ("feature", "weight", "mean", "low", "high")
    assert [leaf["linear"][0][name] for name in names] == [f"f{term[1]}", *(float(f"{v:.9g}") for v in term[2:])]


HOSTILE = [
    ("node", [0, 1], "which is no leaf"),
    ("node", [2, 1], "order of their leaves"),
    ("node", [1, 9], "which is no leaf"),
    ("node", [1, -1], "which is no leaf"),
    ("node", [1], "2 entries where node has 1"),
    ("feature", [0, 6], "outside 0..5"),
    ("feature", [-1, 0], "outside 0..5"),
    ("feature", [0.5, 1.0], "expected integers"),
    ("weight", ["x", 1.0], "expected numbers"),
    ("weight", [1e39, 1.0], "finite"),
    ("mean", [1.0], "1 entries where node has 2"),
    ("low", [1e9, 0.0], "low above its high"),
    ("high", None, "found null"),
]


@pytest.mark.parametrize(("field", "value", "words"), HOSTILE)
def test_hostile_files_are_refused(field, value, words):
    document = stump()
    tree = document["learner"]["gradient_booster"]["gradient_booster"]["model"]["trees"][0]
    assert tree["linear_leaves"]["node"] == [1, 2]
    tree["linear_leaves"][field] = value
    with pytest.raises(ModelFileError, match=words) as caught:
        from_dict(document)
    assert "trees[0].linear_leaves" in str(caught.value)


def test_two_terms_of_one_feature_are_refused():
    document = stump()
    terms = document["learner"]["gradient_booster"]["gradient_booster"]["model"]["trees"][0]["linear_leaves"]
    terms["node"] = [1, 1]
    with pytest.raises(ModelFileError, match="two terms of one feature"):
        from_dict(document)


def test_linear_leaves_must_be_announced():
    """A file that XGBoost would read as one of constants is none."""
    document = json_text.decode(bytes(train({}, rounds=1).save_raw("json")))
    booster = document["learner"]["gradient_booster"]
    assert booster["name"] == "arboost_linear_leaves"
    document["learner"]["gradient_booster"] = booster["gradient_booster"]
    with pytest.raises(ModelFileError, match="arboost_linear_leaves"):
        from_dict(document)


def test_xgboost_refuses_the_file():
    xgboost = pytest.importorskip("xgboost")
    for format in ("json", "ubj"):
        with pytest.raises(xgboost.core.XGBoostError, match="arboost_linear_leaves"):
            xgboost.Booster(model_file=bytearray(train({}).save_raw(format)))


def test_the_file_is_not_for_dart():
    saved = load_bytes(bytes(train({}, rounds=1).save_raw()))
    saved.booster, saved.tree_weights = "dart", [1.0]
    with pytest.raises(ModelFileError, match=r"dart.*linear"):
        arboost.modelio.schema.check_model(saved)
