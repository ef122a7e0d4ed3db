"""Every invariant of a model file, broken one at a time."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost.modelio.files import load_bytes
from arboost.modelio.schema import DELETED, SavedModel, check_model, check_tree
from arboost.runtime.errors import ModelFileError
from arboost.tree.model import NO_PARENT, Tree
from naive_modelio import find_leaf, gbtree_cases


def load(name: str) -> SavedModel:
    return load_bytes(gbtree_cases()[name].raw("ubj"))


def make_tree(left: list[int], right: list[int]) -> Tree:
    """A tree of one feature with these children; parents follow."""
    n = len(left)
    parent = np.full(n, NO_PARENT, np.int32)
    for node, children in enumerate(zip(left, right, strict=True)):
        for child in children:
            if 0 <= child < n:
                parent[child] = node
    zeros = np.zeros(n, np.float32)
    return Tree(
        left=np.array(left, np.int32),
        right=np.array(right, np.int32),
        parent=parent,
        feature=np.zeros(n, np.int32),
        threshold=zeros.copy(),
        default_left=np.zeros(n, np.uint8),
        gain=zeros.copy(),
        cover=zeros.copy(),
        base_weight=zeros.copy(),
        n_features=1,
    )


def test_counts():
    model = load("multiclass")
    assert model.n_groups == 4 and model.n_rounds == 4
    assert load("two_targets").n_groups == 2
    assert load("regression").n_groups == 1
    assert load("no_rounds").n_rounds == 0


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("binary", {"booster": "forest"}, "gradient_booster.name: the booster 'forest'"),
        ("binary", {"booster": "dart"}, "weight_drop: 0 weights for"),
        ("binary", {"tree_weights": [1.0]}, "weight_drop: 1 weights for 0 trees"),
        ("binary", {"booster": "gblinear"}, "model.weights: linear weights are for gblinear alone"),
        ("binary", {"booster": "gblinear", "linear_weights": np.zeros(3, np.float32)}, "has no trees"),
        ("binary", {"n_features": 0}, "num_feature"),
        ("binary", {"n_features": 2**31}, "num_feature"),
        ("binary", {"n_classes": -1}, "num_class"),
        ("binary", {"n_targets": 0}, "num_target"),
        ("multiclass", {"n_targets": 2}, "num_target"),
        ("multiclass", {"n_classes": 3}, "num_class"),
        ("binary", {"n_classes": 3}, "iteration_indptr"),
        ("binary", {"n_targets": 10**9}, "iteration_indptr"),
        ("no_rounds", {"n_targets": 10**9}, "outputs in a model without trees"),
        ("binary", {"base_score": ()}, "base_score"),
        ("binary", {"base_score": (0.5, 0.5)}, "base_score"),
        ("binary", {"base_score": (float("nan"),)}, "base_score"),
        ("binary", {"feature_names": ["a"]}, "feature_names"),
        ("binary", {"feature_types": ["q"] * 5}, "feature_types"),
        ("binary", {"num_parallel_tree": 0}, "num_parallel_tree"),
        ("binary", {"tree_info": [0]}, "tree_info"),
        ("binary", {"tree_info": [0, 0, 0, 1]}, "tree_info"),
        ("binary", {"tree_info": [0, -1, 0, 0]}, "tree_info"),
        ("multiclass", {"tree_info": [0, 1, 2, 2] * 4}, "tree_info"),
        ("binary", {"iteration_ptr": []}, "iteration_indptr"),
        ("binary", {"iteration_ptr": [0, 2, 2, 4]}, "iteration_indptr"),
        ("binary", {"iteration_ptr": [0, 3, 2, 4]}, "iteration_indptr"),
        ("binary", {"iteration_ptr": [1, 2, 4]}, "iteration_indptr"),
        ("binary", {"iteration_ptr": [0, 2, 5]}, "iteration_indptr"),
        ("multiclass", {"iteration_ptr": [0, 3, 16]}, "iteration_indptr"),
    ],
)
def test_a_broken_model_is_refused_by_field(name, changes, field):
    model = load(name)
    check_model(model)
    for key, value in changes.items():
        setattr(model, key, value)
    with pytest.raises(ModelFileError, match=field):
        check_model(model)


@pytest.mark.parametrize(
    ("array", "node", "value", "field"),
    [
        ("left", 0, -1, "right_children"),
        ("left", 0, 0, "left_children"),
        ("left", 0, -7, "left_children"),
        ("right", 0, 10**6, "right_children"),
        ("right", 0, 1, "left_children: node 1 is the child of 2 nodes"),
        ("parent", 1, 2, "parents"),
        ("parent", 0, 0, "parents"),
        ("feature", 0, 4, "split_indices"),
        ("feature", 0, -1, "split_indices"),
        ("feature", 0, DELETED, "split_indices"),
        ("feature", -1, 99, "split_indices"),
        ("threshold", 0, np.nan, "split_conditions"),
        ("threshold", -1, np.nan, "split_conditions"),
        ("threshold", -1, np.inf, "split_conditions"),
        ("default_left", 2, 2, "default_left"),
    ],
)
def test_a_broken_node_is_refused_by_field(array, node, value, field):
    model = load("binary")
    getattr(model.trees[3], array)[node] = value
    with pytest.raises(ModelFileError, match=rf"learner\.gradient_booster\.model\.trees\[3\]\.{field}"):
        check_model(model)


@pytest.mark.parametrize(
    ("array", "change", "field"),
    [
        ("split_type", lambda a: np.where(a == 1, 2, a), "split_type"),
        ("split_type", np.ones_like, "categories_nodes"),
        ("categories_nodes", lambda a: a[::-1], "categories_nodes"),
        ("categories_nodes", lambda a: a[:-1], "categories_nodes"),
        ("categories_sizes", lambda a: a[:-1], "categories_sizes"),
        ("categories_sizes", lambda a: a * 0, "categories_sizes"),
        ("categories_sizes", lambda a: a + 10**15, "categories_sizes"),
        ("categories_segments", lambda a: a + 1, "categories_segments"),
        ("categories", lambda a: a[:-1], "categories"),
        ("categories", lambda a: a - 1000, "categories"),
        ("categories", lambda a: a + 2**24, "categories"),
        ("categories", lambda a: a[::-1].copy(), "categories"),
    ],
)
def test_broken_categories_are_refused_by_field(array, change, field):
    tree = copy.deepcopy(load("categorical_sets").trees[0])
    assert len(tree.categories_nodes) > 1 and max(tree.categories_sizes) > 1
    check_tree(tree, 4)
    setattr(tree, array, change(getattr(tree, array)))
    with pytest.raises(ModelFileError, match=field):
        check_tree(tree, 4)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda cats: cats["enc"].pop(), "enc"),
        (lambda cats: cats["sorted_idx"].pop(), "sorted_idx"),
        (lambda cats: cats["sorted_idx"].__setitem__(0, 3), "sorted_idx"),
        (lambda cats: cats["feature_segments"].__setitem__(1, 3), "feature_segments"),
        (lambda cats: cats["feature_segments"].pop(), "feature_segments"),
        (lambda cats: cats["enc"][0]["offsets"].__setitem__(1, 99), r"enc\[0\]\.offsets"),
        (lambda cats: cats["enc"][0]["offsets"].clear(), r"enc\[0\]\.offsets"),
        (lambda cats: cats["enc"][2]["values"].pop(), "feature_segments"),
    ],
)
def test_a_broken_category_container_is_refused_by_field(change, field):
    model = load("frame")
    assert model.cats is not None and len(model.cats["enc"]) == 4
    change(model.cats)
    with pytest.raises(ModelFileError, match=rf"cats\.{field}"):
        check_model(model)


def test_wrong_lengths_are_refused_by_field():
    names = {
        "right": "right_children",
        "parent": "parents",
        "feature": "split_indices",
        "threshold": "split_conditions",
        "default_left": "default_left",
        "gain": "loss_changes",
        "cover": "sum_hessian",
        "base_weight": "base_weights",
    }
    for array, field in names.items():
        tree = make_tree([1, -1, -1], [2, -1, -1])
        setattr(tree, array, getattr(tree, array)[:-1])
        with pytest.raises(ModelFileError, match=f"t.{field}: 2 entries for 3 nodes"):
            check_tree(tree, 1, "t")
    with pytest.raises(ModelFileError, match="without nodes"):
        check_tree(make_tree([], []), 1)
    with pytest.raises(ModelFileError, match=r"tree_param\.num_feature"):
        check_tree(make_tree([-1], [-1]), 0)


def test_cycles_are_refused():
    # 1 and 2 are each other's children, with a leaf each; no way leads there from the root, which is a leaf
    with pytest.raises(ModelFileError, match="cannot be reached"):
        check_tree(make_tree([-1, 2, 1, -1, -1], [-1, 3, 4, -1, -1]), 1)
    with pytest.raises(ModelFileError, match="is the child of"):
        check_tree(make_tree([1, 2, 1, -1, -1], [4, 3, 3, -1, -1]), 1)


def test_children_may_come_before_their_parents():
    tree = make_tree([2, -1, 3, -1, -1], [1, -1, 4, -1, -1])
    tree.left[0], tree.right[0] = 4, 1
    tree = make_tree([4, -1, -1, -1, 2], [1, -1, -1, -1, 3])
    check_tree(tree, 1)


def test_deleted_nodes_may_hang_in_the_air_but_not_be_linked():
    tree = make_tree([1, -1, -1, -1, -1], [2, -1, -1, -1, -1])
    tree.parent[3:] = 1
    with pytest.raises(ModelFileError, match="node 3 is the child of 0 nodes"):
        check_tree(tree, 1)
    tree.feature[3:] = DELETED
    check_tree(tree, 1)
    tree.parent[3] = 77
    with pytest.raises(ModelFileError, match="parents: node 3"):
        check_tree(tree, 1)
    tree = make_tree([-1], [-1])
    tree.feature[0] = DELETED
    with pytest.raises(ModelFileError, match="the root is marked"):
        check_tree(tree, 1)


@given(st.data())
def test_any_links_are_refused_or_walkable(data):
    n = data.draw(st.integers(1, 9))
    link = st.integers(-1, n)
    left = data.draw(st.lists(link, min_size=n, max_size=n))
    right = [data.draw(link) if child != -1 or data.draw(st.booleans()) else -1 for child in left]
    tree = make_tree(left, right)
    try:
        check_tree(tree, 1)
    except ModelFileError:
        return
    for _ in range(10):
        tree.default_left[:] = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
        find_leaf(tree, np.array([np.nan]))


@given(st.integers(0, 40), st.randoms(use_true_random=False))
def test_every_tree_in_any_order_is_accepted(n_splits, random):
    left, right, leaves = [-1], [-1], [0]
    for _ in range(n_splits):
        node = leaves.pop(random.randrange(len(leaves)))
        left[node], right[node] = len(left), len(left) + 1
        leaves += [len(left), len(left) + 1]
        left += [-1, -1]
        right += [-1, -1]
    order = [0, *random.sample(range(1, len(left)), len(left) - 1)]
    new_left, new_right = [-1] * len(left), [-1] * len(left)
    for node, place in enumerate(order):
        if left[node] != -1:
            new_left[place], new_right[place] = order[left[node]], order[right[node]]
    check_tree(make_tree(new_left, new_right), 1)
