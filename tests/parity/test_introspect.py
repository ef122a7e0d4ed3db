"""The same model file loaded in arboost and in XGBoost says the same about itself."""

import numpy as np
import pytest
import xgboost as xgb

import arboost
from arboost.losses import LOSSES
from naive_modelio import gbtree_cases

pandas = pytest.importorskip("pandas")

KINDS = ("weight", "gain", "cover", "total_gain", "total_cover")
CASES = sorted(name for name in gbtree_cases() if name != "unbiased_rank" or "rank:ndcg" in LOSSES)


def pair(name):
    """Our booster and XGBoost's, both loaded from one file."""
    raw = gbtree_cases()[name].raw("ubj")
    return arboost.Booster(model_file=raw), xgb.Booster(model_file=bytearray(raw))


@pytest.fixture(scope="module")
def large():
    """Twelve features, long float32 sums, trained here and loaded there."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 12))
    data = arboost.DMatrix(X, X[:, 0] * X[:, 1] + X[:, 10] + rng.normal(size=len(X)))
    ours = arboost.train({"max_depth": 6, "nthread": 1}, data, 25)
    return ours, xgb.Booster(model_file=ours.save_raw())


@pytest.mark.parametrize("name", CASES)
def test_importance(name):
    ours, theirs = pair(name)
    for kind in KINDS:
        scores = theirs.get_score(importance_type=kind)
        assert ours.get_score(importance_type=kind) == scores
        assert list(ours.get_score(importance_type=kind)) == list(scores)
    assert ours.get_fscore() == theirs.get_fscore()


@pytest.mark.parametrize("kind", KINDS)
def test_importance_of_a_large_model_to_the_last_bit(large, kind):
    ours, theirs = large
    scores = ours.get_score(importance_type=kind)
    assert scores == theirs.get_score(importance_type=kind)
    assert list(scores) == [f"f{i}" for i in range(12)]


def test_unknown_importance(large):
    for booster in large:
        with pytest.raises(ValueError, match="Unknown feature importance type, expected one of"):
            booster.get_score(importance_type="shap")


# XGBoost cannot tabulate indicators (a type of `early_stopped`) and infinite thresholds (`huge_values`).
@pytest.mark.parametrize("name", sorted(set(CASES) - {"early_stopped", "huge_values"}))
def test_table_of_nodes(name):
    ours, theirs = pair(name)
    pandas.testing.assert_frame_equal(ours.trees_to_dataframe(), theirs.trees_to_dataframe(), check_exact=True)


def test_table_of_a_large_model(large):
    ours, theirs = large
    pandas.testing.assert_frame_equal(ours.trees_to_dataframe(), theirs.trees_to_dataframe(), check_exact=True)


@pytest.mark.parametrize("bins", [None, 1, 3, 1000, 0])
def test_split_values(large, bins):
    ours, theirs = large
    for feature in ("f0", "f1", "f10", "absent"):
        frames = [b.get_split_value_histogram(feature, bins=bins) for b in (ours, theirs)]
        pandas.testing.assert_frame_equal(*frames, check_exact=True)
        arrays = [b.get_split_value_histogram(feature, bins=bins, as_pandas=False) for b in (ours, theirs)]
        assert isinstance(arrays[0], np.ndarray)
        np.testing.assert_array_equal(*arrays)


def test_split_values_of_categories_are_refused():
    for booster in pair("frame"):
        with pytest.raises(ValueError, match="doesn't support categorical split"):
            booster.get_split_value_histogram("animal")
        assert len(booster.get_split_value_histogram("x"))


@pytest.fixture
def feature_map(tmp_path):
    path = tmp_path / "features.txt"
    path.write_text("0 red float\n1 green int\n2 blue q\n3 alpha q\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["regression", "forest", "multiclass"])
def test_names_from_a_feature_map(name, feature_map):
    ours, theirs = pair(name)
    for kind in KINDS:
        assert ours.get_score(feature_map, kind) == theirs.get_score(feature_map, kind)
    pandas.testing.assert_frame_equal(ours.trees_to_dataframe(feature_map), theirs.trees_to_dataframe(feature_map))
    histograms = [b.get_split_value_histogram("green", feature_map) for b in (ours, theirs)]
    pandas.testing.assert_frame_equal(*histograms)
    for format in ("text", "json", "dot"):
        assert ours.get_dump(feature_map, True, format) == theirs.get_dump(feature_map, True, format)


@pytest.mark.parametrize("name", ["frame", "forest", "early_stopped", "no_rounds"])
@pytest.mark.parametrize("format", ["text", "json", "dot"])
def test_dump_files(name, format, tmp_path):
    texts = []
    for who, booster in zip(("ours", "theirs"), pair(name), strict=True):
        booster.dump_model(tmp_path / who, with_stats=True, dump_format=format)
        texts.append((tmp_path / who).read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
