"""Importance, split values and tables of small trees made by hand."""

import builtins
import importlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost import introspect
from arboost.runtime.errors import XGBoostError
from arboost.tree.model import NO_PARENT, Tree


def make_tree(splits: dict[int, tuple[int, float]], n_features: int = 3, default_left: int = 0) -> Tree:
    """A heap of inner nodes {node: (feature, threshold)}; every child that is no inner node is a leaf."""
    numbers = sorted({0, *splits, *(child for node in splits for child in (2 * node + 1, 2 * node + 2))})
    place = {number: i for i, number in enumerate(numbers)}
    n = len(numbers)
    left, right, parent = np.full((3, n), -1, np.int32)
    feature, threshold = np.zeros(n, np.int32), np.full(n, 0.25, np.float32)
    parent[0] = NO_PARENT
    for node, (f, value) in splits.items():
        i = place[node]
        left[i], right[i] = place[2 * node + 1], place[2 * node + 2]
        parent[left[i]] = parent[right[i]] = i
        feature[i], threshold[i] = f, value
    gain = np.where(left >= 0, 10.0 * (1 + np.arange(n)), 0).astype(np.float32)
    cover = (100.0 - np.arange(n)).astype(np.float32)
    default = np.full(n, default_left, np.uint8)
    return Tree(left, right, parent, feature, threshold, default, gain, cover, gain, n_features)


TREES = [make_tree({0: (2, 1.5), 1: (0, -3.0), 2: (2, 7.25)}), make_tree({0: (2, 1.5)}), make_tree({})]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("weight", [1, 3]),
        ("total_gain", [20, 10 + 30 + 10]),
        ("gain", [20, np.float32(50) / np.float32(3)]),
        ("total_cover", [99, 100 + 98 + 100]),
        ("cover", [99, np.float32(298) / np.float32(3)]),
    ],
)
def test_importance_by_hand(kind, expected):
    assert introspect.importance(TREES, None, kind) == dict(zip(["f0", "f2"], map(float, expected), strict=True))
    assert list(introspect.importance(TREES, ["a", "b", "c"], kind)) == ["a", "c"]


def test_a_model_without_splits_has_no_importance():
    assert introspect.importance([], None) == {}
    assert introspect.importance([make_tree({})], None) == {}


def test_unknown_importance_lists_the_known_ones():
    with pytest.raises(XGBoostError, match=r'expected one of: {"weight", .*got: shap'):
        introspect.importance(TREES, None, "shap")


thresholds = st.floats(-1e6, 1e6, width=32)


@given(
    st.dictionaries(st.integers(0, 2), st.tuples(st.integers(0, 2), thresholds)).map(lambda d: d and {0: (0, 0.0), **d})
)
def test_importance_and_histograms_count_every_split(splits):
    trees = [make_tree(splits)] * 2
    scores = introspect.importance(trees, None)
    assert sum(scores.values()) == 2 * len(splits)
    for f in range(3):
        for bins in (None, 1, 2):
            table = introspect.split_value_histogram(trees, None, None, f"f{f}", bins)
            assert table[:, 1].sum() == scores.get(f"f{f}", 0)
            assert (np.diff(table[:, 0]) > 0).all()


def test_histogram_by_hand():
    table = introspect.split_value_histogram(TREES, None, None, "f2")
    assert table.tolist() == [[1.5 + (7.25 - 1.5) / 2, 2.0], [7.25, 1.0]]
    assert introspect.split_value_histogram(TREES, None, None, "f1").shape == (0, 2)


def test_infinite_split_values_have_no_bin():
    trees = [make_tree({0: (0, np.inf), 1: (0, 2.0)})]
    assert introspect.split_value_histogram(trees, None, None, "f0").tolist() == [[2.5, 1.0]]


def test_table_of_indicators():
    pytest.importorskip("pandas")
    frame = introspect.trees_to_dataframe(TREES[:1], ["a", "b", "c"], ["q", "q", "i"])
    root = frame.iloc[0]
    assert (root.Feature, root.Yes, root.No, root.Missing) == ("c", "0-1", "0-2", "0-2")
    assert math.isnan(root.Split)
    assert frame.Split[1] == -3.0
    assert frame.Feature.tolist() == ["c", "a", "c", "Leaf", "Leaf", "Leaf", "Leaf"]


def test_names_stay_as_the_user_wrote_them():
    pytest.importorskip("pandas")
    frame = introspect.trees_to_dataframe(TREES[1:2], ["a", "b", 'quo"te\n'], None)
    assert frame.Feature[0] == 'quo"te\n'


@pytest.fixture
def without_pandas(monkeypatch):
    def find(name, *args):
        if name == "pandas":
            raise ImportError(name)
        return builtins.__import__(name)

    monkeypatch.setattr(importlib, "import_module", find)


def test_pandas_is_optional(without_pandas):
    table = introspect.split_value_histogram(TREES, None, None, "f2")
    assert introspect.as_frame(table) is table
    with pytest.raises(ImportError, match="pip install pandas"):
        introspect.trees_to_dataframe(TREES, None, None)
