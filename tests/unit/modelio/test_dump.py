"""Dumps equal XGBoost's `get_dump`, character for character."""

import json

import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

from arboost.modelio.dump import TreeView, dump_tree, dump_trees, read_feature_map, write_dump
from arboost.modelio.files import load_bytes, save_bytes
from arboost.runtime.errors import XGBoostError
from arboost.tree.model import NO_PARENT, Tree
from naive_modelio import gbtree_cases

LOOKS = {
    "condition_node_params": {"shape": "box", "style": "filled"},
    "leaf_node_params": {"shape": "circle"},
    "edge": {"yes_color": "green", "no_color": "#123456"},
    "graph_attrs": {"rankdir": "LR", "bgcolor": "white"},
}
FORMATS = [
    "text",
    "json",
    "dot",
    "text:{}",
    "dot:",
    "dot:{}",
    f"dot:{json.dumps(LOOKS)}",
    "dot:{'edge':{'yes_color':'red'}}",
]


def our_dump(booster: xgb.Booster, format: str, with_stats: bool) -> list[str]:
    model = load_bytes(booster.save_raw("ubj"))
    return [dump_tree(tree, model.feature_names, model.feature_types, format, with_stats) for tree in model.trees]


@pytest.mark.parametrize("name", sorted(set(gbtree_cases()) - {"huge_values"}))
@pytest.mark.parametrize("with_stats", [False, True])
def test_models(name, with_stats):
    booster = gbtree_cases()[name].booster
    for format in FORMATS:
        assert our_dump(booster, format, with_stats) == booster.get_dump("", with_stats, format), format


@pytest.fixture(scope="module")
def every_type() -> xgb.Booster:
    """A model that splits on features of all types, thresholds of all sizes."""
    rng = np.random.default_rng(13)
    n = 600
    columns = [rng.integers(0, 2, n), rng.integers(-20, 20, n), rng.normal(0, 1e-6, n), rng.integers(0, 7, n)]
    X = np.column_stack([*columns, rng.normal(0, 1e12, n), rng.integers(-3, 4, n) + 0.5]).astype(np.float32)
    y = X[:, 0] * 3 + X[:, 1] / 5 + np.sin(X[:, 3] * 5) + X[:, 4] / 1e12 + X[:, 2] * 1e6 + X[:, 5] / 3
    X[rng.random(X.shape) < 0.1] = np.nan
    types = ["i", "int", "q", "c", "float", "int"]
    data = xgb.DMatrix(X, y, feature_names=list("abcdef"), feature_types=types, enable_categorical=True)
    return xgb.train({"max_depth": 6, "max_cat_to_onehot": 1, "nthread": 1}, data, 4)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("with_stats", [False, True])
def test_every_feature_type(every_type, format, with_stats):
    theirs = every_type.get_dump("", with_stats, format)
    assert all(f'label="{name}' in "".join(theirs) for name in "abcdef") or not format.startswith("dot")
    assert our_dump(every_type, format, with_stats) == theirs


@pytest.mark.parametrize(
    "names", [None, ["ü", "日本 語", 'qu"ote', "back\\slash", "\x01\x1f\t\n\r\b\f", "\x7f\u2028😀"]]
)
def test_names(every_type, names):
    booster = every_type.copy()
    booster.feature_names = names
    for format in FORMATS:
        assert our_dump(booster, format, True) == booster.get_dump("", True, format), format
    for text in our_dump(booster, "json", True):
        json.loads(text)


FEATURE_MAP = '0\tfirst i\n1 b int\n2 c q\n3 d\tc\n4 e float\n5 ü"x\\ q\n'


@pytest.mark.parametrize(
    "text", [FEATURE_MAP, FEATURE_MAP.rstrip(), FEATURE_MAP.replace("\n", " "), FEATURE_MAP + "\n\n"]
)
def test_feature_maps(every_type, tmp_path, text):
    path = tmp_path / "map.txt"
    path.write_text(text, encoding="utf-8")
    names, types = read_feature_map(path, 6)
    model = load_bytes(every_type.save_raw("ubj"))
    for format in ("text", "json", "dot"):
        ours = [dump_tree(tree, names, types, format, True) for tree in model.trees]
        assert ours == every_type.get_dump(str(path), True, format)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0 a x\n", "unknown feature type 'x'"),
        ("1 a q\n", "in order; found '1 a q' for feature 0"),
        ("0 a q\n2 b q\n", "in order; found '2 b q' for feature 1"),
        ("0 a\n", "found '0 a' for feature 0"),
        ("x a q\n", "found 'x a q'"),
        ("0 a q\n1 b q\n", "has 2 features, the model 6"),
        ("0 \udce9 q\n", "not UTF-8"),
    ],
)
def test_bad_feature_maps(tmp_path, text, problem):
    path = tmp_path / "map.txt"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(XGBoostError, match=problem):
        read_feature_map(path, 6)


def test_empty_and_missing_feature_maps(tmp_path):
    path = tmp_path / "map.txt"
    path.write_text("\n")
    assert read_feature_map(path, 3) is None
    with pytest.raises(XGBoostError, match="No such file"):
        read_feature_map(tmp_path / "none", 3)


def chain(thresholds: np.ndarray) -> Tree:
    """A tree whose every split is followed by another one on its right, splitting on feature 0, 1, 2, ..."""
    n_splits = len(thresholds)
    n_nodes = 2 * n_splits + 1
    left, right = np.full(n_nodes, -1, np.int32), np.full(n_nodes, -1, np.int32)
    inner = np.concatenate([[0], 2 * np.arange(1, n_splits)]).astype(np.int32)
    left[inner], right[inner] = 2 * np.arange(n_splits) + 1, 2 * np.arange(n_splits) + 2
    parent = np.full(n_nodes, NO_PARENT, np.int32)
    parent[left[inner]] = parent[right[inner]] = inner
    feature = np.zeros(n_nodes, np.int32)
    feature[inner] = np.arange(n_splits)
    values = np.full(n_nodes, 0.5, np.float32)
    values[inner] = thresholds
    numbers = np.linspace(-1e9, 1e9, n_nodes).astype(np.float32)
    default_left = (np.arange(n_nodes) % 2).astype(np.uint8)
    return Tree(left, right, parent, feature, values, default_left, numbers, numbers[::-1].copy(), numbers, n_splits)


def both_dumps(thresholds: np.ndarray, kind: str, format: str) -> tuple[str, str]:
    tree = chain(np.asarray(thresholds, np.float32))
    model = load_bytes(gbtree_cases()["single_leaf"].raw("ubj"))
    model.trees, model.n_features, model.feature_types = [tree], tree.n_features, [kind] * tree.n_features
    theirs = xgb.Booster(model_file=save_bytes(model)).get_dump("", True, format)[0]
    return dump_tree(tree, None, model.feature_types, format, True), theirs


@settings(max_examples=30)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40))
def test_the_digits_of_numbers(thresholds):
    for format in ("text", "json"):
        ours, theirs = both_dumps(thresholds, "float", format)
        assert ours == theirs


@settings(max_examples=30)
@given(st.lists(st.floats(-(2.0**31) + 256, 2.0**31 - 256, width=32), min_size=1, max_size=40))
def test_thresholds_of_integer_features_are_rounded_up(thresholds):
    for format in ("text", "json"):
        ours, theirs = both_dumps(thresholds, "int", format)
        assert ours == theirs


def test_numbers_that_xgboost_prints_wrongly():
    assert "[f0<1000000000000]" not in dump_tree(chain(np.float32([1e12])), None, ["int"])
    assert f"[f0<{int(np.float32(1e12))}]" in dump_tree(chain(np.float32([1e12])), None, ["int"])
    assert "[f0<inf]" in dump_tree(chain(np.float32([np.inf])), None, ["int"])
    ours, theirs = both_dumps([np.inf], "float", "text")
    assert ours == theirs
    ours, theirs = both_dumps([np.inf], "float", "json")
    assert json.loads(ours)["split_condition"] == np.inf
    assert ours == theirs.replace("inf", "Infinity")


def test_deep_trees_do_not_exhaust_the_stack():
    tree = chain(np.arange(3000, dtype=np.float32))
    for format in ("text", "json", "dot"):
        assert dump_tree(tree, format=format).count("leaf") == 3001


def test_a_name_with_a_backslash_before_u_stays_json():
    text = dump_tree(chain(np.float32([1])), ["C:\\users"], format="json")
    assert json.loads(text)["split"] == "C:\\users"


def test_categorical_splits_need_no_types(every_type):
    model = load_bytes(every_type.save_raw("ubj"))
    assert ":{" in dump_tree(model.trees[0], model.feature_names)


def test_bad_arguments(every_type):
    model = load_bytes(every_type.save_raw("ubj"))
    tree, types = model.trees[0], model.feature_types
    for format in (
        "yaml",
        "",
        "dot:[]",
        "dot:x",
        'dot:{"a":3}',
        'dot:{"edge":{"yes_color":3}}',
        "dot:" + "[" * 100_000,
    ):
        with pytest.raises(XGBoostError, match=r"format|graphviz"):
            dump_tree(tree, format=format)
    with pytest.warns(UserWarning, match="not recognized: foo"):
        dump_tree(tree, format='dot:{"foo":{}}')
    with pytest.raises(XGBoostError, match="unknown feature type 'z'"):
        dump_tree(tree, None, ["z"] * 6)
    with pytest.raises(XGBoostError, match="categorical but the type of the feature is numerical"):
        dump_tree(tree, None, ["q" if kind == "c" else kind for kind in types])
    with pytest.raises(XGBoostError, match="numerical but the type of the feature is categorical"):
        dump_tree(tree, None, ["c"] * 6)
    with pytest.raises(XGBoostError, match="2 feature names"):
        dump_tree(tree, ["a", "b"])


def test_files_of_several_trees(every_type, tmp_path):
    model = load_bytes(every_type.save_raw("ubj"))
    for format in ("text", "json", "dot"):
        trees = dump_trees(model.trees, model.feature_names, model.feature_types, format, True)
        assert trees == every_type.get_dump("", True, format)
        write_dump(tmp_path / "ours", trees, format)
        every_type.dump_model(tmp_path / "theirs", with_stats=True, dump_format=format)
        assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_views_know_names_as_given_and_as_printed(every_type):
    view = TreeView(load_bytes(every_type.save_raw("ubj")).trees[0], ['a"'] * 6, None)
    assert view.feature_name(0) == 'a"'
    assert view.name(0) == 'a\\"'
