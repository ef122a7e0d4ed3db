"""Files of XGBoost read by us, and ours read by XGBoost, give the same model."""

import json

import numpy as np
import pytest
import xgboost as xgb

from arboost.modelio.files import load_bytes, save_bytes
from naive_modelio import as_version_1, find_leaves, gbtree_cases, other_cases, predict_margin

NAMES = sorted(gbtree_cases())
FORMATS = ["json", "ubj"]


def load_in_xgboost(data: bytearray) -> xgb.Booster:
    booster = xgb.Booster(model_file=data)
    booster.set_param({"nthread": 1})
    return booster


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("format", FORMATS)
def test_a_file_of_xgboost_is_written_again_byte_for_byte(name, format):
    raw = gbtree_cases()[name].raw(format)
    assert bytes(save_bytes(load_bytes(raw), format)) == raw


@pytest.mark.parametrize("name", NAMES)
def test_both_formats_hold_the_same_model(name):
    case = gbtree_cases()[name]
    from_json, from_ubj = load_bytes(case.raw("json")), load_bytes(case.raw("ubj"))
    assert all(a.equals(b) for a, b in zip(from_json.trees, from_ubj.trees, strict=True))
    from_json.trees = from_ubj.trees = []
    assert from_json == from_ubj


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("format", FORMATS)
def test_our_file_predicts_the_same_in_xgboost(name, format):
    case = gbtree_cases()[name]
    model = load_bytes(case.raw("ubj" if format == "json" else "json"))
    booster = load_in_xgboost(save_bytes(model, format))
    for kind in ({}, {"output_margin": True}, {"pred_leaf": True}, {"pred_contribs": True}):
        if name == "no_rounds" and "pred_leaf" in kind:
            continue
        assert np.array_equal(booster.predict(case.data, **kind), case.booster.predict(case.data, **kind)), kind
    assert booster.attributes() == case.booster.attributes()
    assert booster.feature_names == case.booster.feature_names
    assert booster.feature_types == case.booster.feature_types
    assert booster.get_dump(with_stats=True) == case.booster.get_dump(with_stats=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_loaded_trees_mean_what_xgboost_means(name):
    case = gbtree_cases()[name]
    model = load_bytes(case.raw("ubj"))
    if model.trees:
        leaves = case.booster.predict(case.data, pred_leaf=True, strict_shape=True).reshape(len(case.X), -1)
        # strict_shape orders leaves by round, output, parallel tree: the order of the trees
        assert np.array_equal(find_leaves(model, case.X), leaves)
    margin = case.booster.predict(case.data, output_margin=True, strict_shape=True)
    np.testing.assert_allclose(predict_margin(model, case.X), margin, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["regression", "binary", "poisson", "pruned"])
def test_a_file_of_version_1_loads_as_the_same_model(name):
    case = gbtree_cases()[name]
    old = load_bytes(json.dumps(as_version_1(case.doc()), indent=1).encode())
    assert old.version == (1, 0, 0)
    new = load_bytes(case.raw("json"))
    assert save_bytes(old, "ubj") == save_bytes(new, "ubj")  # and it is written in today's layout


@pytest.mark.parametrize("text", ["5E-1", "0.5", "[5E-1]", "[0.5]", " 0.5", "[ 0.5 ]"])
def test_base_score_of_every_version(text):
    doc = gbtree_cases()["binary"].doc()
    doc["learner"]["learner_model_param"]["base_score"] = text
    assert load_bytes(json.dumps(doc).encode()).base_score == (0.5,)


def test_nan_as_threshold_of_a_categorical_split_is_replaced():
    doc = gbtree_cases()["categorical_sets"].doc()
    tree = doc["learner"]["gradient_booster"]["model"]["trees"][0]
    node = tree["categories_nodes"][0]
    tree["split_conditions"][node] = float("nan")
    model = load_bytes(json.dumps(doc).encode())
    assert save_bytes(model, "json") == gbtree_cases()["categorical_sets"].raw("json")


def test_trees_are_ordered_by_their_ids():
    case = gbtree_cases()["multiclass"]
    doc = case.doc()
    doc["learner"]["gradient_booster"]["model"]["trees"].reverse()
    assert save_bytes(load_bytes(json.dumps(doc).encode()), "json") == case.raw("json")


def test_slices_of_a_booster():
    case = gbtree_cases()["forest"]
    raw = bytes(case.booster[1:2].save_raw("ubj"))
    model = load_bytes(raw)
    assert model.iteration_ptr == [0, 8] and model.num_parallel_tree == 2
    assert bytes(save_bytes(model, "ubj")) == raw


def test_pruned_nodes_keep_their_place():
    model = load_bytes(gbtree_cases()["pruned"].raw("json"))
    n_deleted = [int(np.sum(tree.feature == 2147483647)) for tree in model.trees]
    assert max(n_deleted) > 0


@pytest.mark.filterwarnings("ignore:.*manually specified the `updater`")
@pytest.mark.parametrize("gamma", [80.0, 150.0, 1e9])
def test_pruned_categorical_splits(gamma):
    """Pruning leaves split_type and categories on the nodes that it deletes, and on those that become leaves."""
    case = gbtree_cases()["frame"]
    params = {"process_type": "update", "updater": "prune", "gamma": gamma, "max_depth": 3, "nthread": 1}
    booster = xgb.train(params, case.data, 2, xgb_model=case.booster)
    raw = bytes(booster.save_raw("ubj"))
    model = load_bytes(raw)
    assert any(np.any(tree.split_type[tree.feature == 2147483647]) for tree in model.trees)
    assert bytes(save_bytes(model, "ubj")) == raw
    leaves = booster.predict(case.data, pred_leaf=True)
    assert np.array_equal(find_leaves(model, case.X), leaves)


@pytest.mark.parametrize("name", ["dart", "gblinear", "vector_leaf"])
@pytest.mark.parametrize("format", FORMATS)
def test_other_boosters_are_written_as_they_were_read(name, format):
    raw = bytes(other_cases()[name].raw(format))
    assert bytes(save_bytes(load_bytes(raw), format)) == raw


@pytest.mark.parametrize("format", FORMATS)
def test_every_float_is_printed_as_xgboost_prints_it(format):
    """Random bit patterns, powers of two and ten and their neighbours, as statistics of one wide tree."""
    rng = np.random.default_rng(12)
    n_leaves = 10_001
    bits = rng.integers(0, 2**32, 6 * n_leaves, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ladder = np.concatenate([2.0 ** np.arange(-149, 128), 10.0 ** np.arange(-45, 39)]).astype(np.float32)
    ladder = np.concatenate(
        [ladder, np.nextafter(ladder, np.float32(0)), np.nextafter(ladder, np.float32(1e38)), -ladder]
    )
    values = np.concatenate([ladder, [np.float32(-0.0)], bits[np.isfinite(bits)]])
    model = load_bytes(gbtree_cases()["single_leaf"].raw("ubj"))
    tree = model.trees[0]
    n_nodes = 2 * n_leaves - 1
    inner = np.arange(n_leaves - 1, dtype=np.int32)
    tree.left = np.full(n_nodes, -1, np.int32)
    tree.right = tree.left.copy()
    tree.left[inner], tree.right[inner] = 2 * inner + 1, 2 * inner + 2
    tree.parent = ((np.arange(n_nodes) - 1) // 2).astype(np.int32)
    tree.parent[0] = 2147483647
    tree.feature = np.zeros(n_nodes, np.int32)
    tree.default_left = np.zeros(n_nodes, np.uint8)
    tree.threshold, tree.gain, tree.cover = np.ascontiguousarray(values[: 3 * n_nodes].reshape(3, n_nodes))
    tree.base_weight = tree.cover
    ours = save_bytes(model, format)
    assert load_in_xgboost(ours).save_raw("json") == save_bytes(model, "json")
    assert load_bytes(ours).trees[0].equals(tree)
