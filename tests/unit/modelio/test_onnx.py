"""ONNX models: valid, run by onnxruntime, the same answers as a slow walk through the trees."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from arboost.losses import LOSSES
from arboost.matrix.categories import Categories
from arboost.modelio.ensemble import LINKS, Ensemble
from arboost.modelio.files import load_bytes
from arboost.modelio.onnx import to_onnx
from arboost.params.resolve import resolve
from arboost.runtime.errors import XGBoostError
from arboost.tree.model import NO_PARENT, Tree
from naive_modelio import find_leaf, gbtree_cases

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

F32 = np.float32


def run(model, X):
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": np.asarray(X, F32)})[0]


def leaf(weight: float, n_features: int = 2) -> Tree:
    one = np.full(1, -1, np.int32)
    zero = np.zeros(1, F32)
    parent = np.full(1, NO_PARENT, np.int32)
    return Tree(one, one, parent, one * 0, np.full(1, weight, F32), np.zeros(1, np.uint8), zero, zero, zero, n_features)


def stump(feature: int, threshold: float, default_left: int, categories=()) -> Tree:
    """Left gives -1, right +1."""
    values = np.array([threshold, -1.0, 1.0], F32)
    ints = [np.array(v, np.int32) for v in ([1, -1, -1], [2, -1, -1], [NO_PARENT, 0, 0], [feature, 0, 0])]
    zero = np.zeros(3, F32)
    tree = Tree(*ints, values, np.array([default_left, 0, 0], np.uint8), zero, zero, zero, 2)
    if categories:
        tree.split_type = np.array([1, 0, 0], np.uint8)
        tree.categories, tree.categories_nodes = np.array(categories, np.int32), np.zeros(1, np.int32)
        tree.categories_segments, tree.categories_sizes = np.zeros(1, np.int64), np.array([len(categories)])
    return tree


def margins(trees, targets, base, X):
    """The slow way."""
    result = np.tile(np.asarray(base, F32), (len(X), 1))
    for tree, target in zip(trees, targets, strict=True):
        result[:, target] += [tree.threshold[find_leaf(tree, row)] for row in X]
    return result


@pytest.mark.parametrize("default_left", [0, 1])
@pytest.mark.parametrize("threshold", [0.1, -0.0, 1e-42, 3.4e38, np.inf, -np.inf])
def test_values_on_and_beside_a_threshold(threshold, default_left):
    t = F32(threshold)
    values = [t, np.nextafter(t, F32(np.inf)), np.nextafter(t, F32(-np.inf)), np.nan, np.inf, -np.inf, 0.0, -0.0]
    X = np.array([[0, v] for v in values], F32)
    tree = stump(1, threshold, default_left)
    assert (
        run(to_onnx(Ensemble([tree], [0], np.zeros(1), 2)), X).tolist() == margins([tree], [0], [0], X)[:, 0].tolist()
    )


@pytest.mark.parametrize("default_left", [0, 1])
@pytest.mark.parametrize("categories", [[0], [3], [0, 1, 2, 3], [2, 5, 31, 32, 33], [*range(0, 150, 3)], [7, 16777215]])
def test_membership(categories, default_left):
    values = [*range(160), np.nan, -1, 16777215, 1e9, np.inf, -np.inf, 3.5, 2.999, -0.5]
    X = np.array([[v, 0] for v in values], F32)
    tree = stump(0, np.nan, default_left, categories)
    found = run(to_onnx(Ensemble([tree], [0], np.zeros(1), 2)), X)
    chosen = [default_left == 0 if np.isnan(v) else v >= 0 and v < 2**24 and int(v) in categories for v in values]
    assert found.tolist() == np.where(chosen, 1.0, -1.0).tolist()


@pytest.mark.parametrize("trees", [[], [leaf(2.0)], [leaf(2.0), leaf(-0.5)], [leaf(1.0), stump(0, 0.5, 1), leaf(0.25)]])
def test_trees_that_are_one_leaf(trees):
    X = np.array([[0, 0], [1, 1], [np.nan, np.nan]], F32)
    for n_outputs in (1, 3):
        targets = [n_outputs - 1] * len(trees)
        base = np.arange(n_outputs, dtype=F32)
        found = run(to_onnx(Ensemble(trees, targets, base, 2)), X)
        np.testing.assert_array_equal(found.reshape(3, -1), margins(trees, targets, base, X))


@pytest.mark.parametrize("name", [*sorted(LOSSES), "reg:quantileerror in order"])
def test_the_output_function_of_every_loss(name):
    n = 3 if name.startswith("multi:") else 2
    name, _, in_order = name.partition(" ")
    params = {"objective": name, **({"num_class": 3} if n == 3 else {})}
    params |= {f"{kind}_alpha": [0.2, 0.7] for kind in ("quantile", "expectile") if kind in name}
    params |= {"quantile_alpha": [0.7, 0.2], "quantile_crossing": "forbid"} if in_order else {}
    loss = LOSSES[name].from_params(resolve(params).learner)
    trees = [stump(0, 0.5, 1), stump(1, 0.0, 0), stump(0, 2.0, 0)]
    targets, base = [0, 1, n - 1], np.linspace(-1.1, 0.7, n).astype(F32)
    X = np.random.default_rng(0).normal(size=(40, 2)).astype(F32)
    expected = loss.transform(margins(trees, targets, base, X))
    found = run(to_onnx(Ensemble(trees, targets, base, 2, loss)), X)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-6, atol=1e-7)


def test_links_are_known_names_of_xgboost():
    later = {"survival:aft", "survival:cox"}
    assert set(LINKS) - later <= set(LOSSES)


CATEGORICAL = load_bytes(gbtree_cases()["categorical_sets"].raw("ubj"))


@settings(max_examples=40)
@given(hnp.arrays(F32, (5, 4), elements=st.floats(width=32) | st.integers(-2, 12).map(float)))
def test_any_row(X):
    X[np.abs(X[:, 0]) >= 2**24, 0] = np.nan  # the slow walk knows valid codes only
    X[X[:, 0] < 0, 0] = -1
    model = to_onnx(Ensemble(CATEGORICAL.trees, CATEGORICAL.tree_info, np.zeros(1), 4))
    expected = margins(CATEGORICAL.trees, CATEGORICAL.tree_info, [0], X)[:, 0]
    np.testing.assert_allclose(run(model, X), expected, rtol=1e-6, atol=1e-6)


def test_the_form_of_a_model(tmp_path):
    categories = Categories([np.array(["b", "a"], object), None])
    ensemble = Ensemble([stump(0, 0.5, 1)], [0], np.zeros(1), 2, None, ["a", "ü"], ["c", "q"], categories)
    model = to_onnx(ensemble, tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    (given,), (made,) = model.graph.input, model.graph.output
    assert (given.name, made.name) == ("X", "prediction")
    assert given.type.tensor_type.shape.dim[1].dim_value == 2
    facts = {p.key: json.loads(p.value) for p in model.metadata_props}
    assert facts == {"feature_names": ["a", "ü"], "feature_types": ["c", "q"], "categories": [["b", "a"], None]}
    assert onnx.load(tmp_path / "m.onnx") == model


def test_a_feature_cannot_be_both_categorical_and_numerical():
    with pytest.raises(XGBoostError, match="Feature 0 has categorical and numerical splits"):
        to_onnx(Ensemble([stump(0, 0.5, 1), stump(0, np.nan, 1, [2])], [0, 0], np.zeros(1), 2))


def test_onnx_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="pip install onnx"):
        to_onnx(Ensemble([], [], np.zeros(1), 2))
