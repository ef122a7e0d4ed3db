"""The model document: types and fields that `from_dict` refuses, and what `to_dict` writes."""

import copy

import numpy as np
import pytest

from arboost.modelio.files import load_bytes, save_bytes
from arboost.modelio.json_model import from_dict, to_dict
from arboost.modelio.schema import FORMAT_VERSION, SavedModel
from arboost.runtime.errors import ModelFileError
from arboost.tree.model import NO_PARENT, Tree
from naive_modelio import as_version_1, gbtree_cases


def stump(weight: float = 0.5) -> Tree:
    """One split, as the engine hands it over: no categorical arrays."""
    return Tree(
        left=np.array([1, -1, -1], np.int32),
        right=np.array([2, -1, -1], np.int32),
        parent=np.array([NO_PARENT, 0, 0], np.int32),
        feature=np.array([1, 0, 0], np.int32),
        threshold=np.array([0.25, -weight, weight], np.float32),
        default_left=np.array([1, 0, 0], np.uint8),
        gain=np.array([3, 0, 0], np.float32),
        cover=np.array([10, 4, 6], np.float32),
        base_weight=np.array([0, -weight, weight], np.float32),
        n_features=2,
    )


def squared_error(**fields) -> SavedModel:
    objective = {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}
    fields = {"trees": [stump()], "tree_info": [0], "iteration_ptr": [0, 1], **fields}
    return SavedModel(n_features=2, objective=objective, base_score=(0.5,), **fields)


def at(doc: dict, path: str) -> tuple[dict | list, str | int]:
    """The container that holds a path such as learner.gradient_booster.model.trees.0.id, and the last key."""
    *keys, last = path.replace("MODEL", "learner.gradient_booster.model").split(".")
    for key in keys:
        doc = doc[int(key)] if isinstance(doc, list) else doc[key]
    return doc, int(last) if isinstance(doc, list) else last


REQUIRED = [
    "learner",
    "learner.gradient_booster",
    "learner.gradient_booster.name",
    "MODEL",
    "MODEL.gbtree_model_param",
    "MODEL.gbtree_model_param.num_trees",
    "MODEL.tree_info",
    "MODEL.trees",
    "MODEL.trees.0.tree_param",
    "MODEL.trees.0.tree_param.num_nodes",
    "MODEL.trees.0.tree_param.num_feature",
    "MODEL.trees.0.left_children",
    "MODEL.trees.0.right_children",
    "MODEL.trees.0.parents",
    "MODEL.trees.0.split_indices",
    "MODEL.trees.0.split_conditions",
    "MODEL.trees.0.default_left",
    "MODEL.trees.0.loss_changes",
    "MODEL.trees.0.sum_hessian",
    "MODEL.trees.0.base_weights",
    "learner.learner_model_param",
    "learner.learner_model_param.base_score",
    "learner.learner_model_param.num_feature",
    "learner.objective",
    "learner.objective.name",
]
OPTIONAL = [
    "version",
    "learner.attributes",
    "learner.feature_names",
    "learner.feature_types",
    "learner.learner_model_param.boost_from_average",
    "learner.learner_model_param.num_target",
    "learner.learner_model_param.num_class",
    "MODEL.cats",
    "MODEL.iteration_indptr",
    "MODEL.gbtree_model_param.num_parallel_tree",
    "MODEL.trees.0.id",
    "MODEL.trees.0.split_type",
    "MODEL.trees.0.categories",
    "MODEL.trees.0.tree_param.num_deleted",
    "MODEL.trees.0.tree_param.size_leaf_vector",
]


def dotted(path: str) -> str:
    """A path as errors print it."""
    return path.replace("MODEL", "learner.gradient_booster.model").replace(".0.", "[0].")


@pytest.mark.parametrize("path", REQUIRED)
def test_a_missing_field_is_named(path):
    doc = gbtree_cases()["regression"].doc()
    container, key = at(doc, path)
    del container[key]
    with pytest.raises(ModelFileError) as caught:
        from_dict(doc)
    assert str(caught.value).startswith(f"{dotted(path)}: the field is missing")


@pytest.mark.parametrize("path", OPTIONAL)
def test_fields_that_older_versions_lack(path):
    case = gbtree_cases()["regression"]
    doc = case.doc()
    container, key = at(doc, path)
    del container[key]
    assert save_bytes(from_dict(doc), "json") == case.raw("json")


@pytest.mark.parametrize("path", REQUIRED + OPTIONAL)
def test_a_wrong_type_is_refused_or_harmless(path):
    original = gbtree_cases()["regression"].doc()
    for value in (None, 3.5, "x", [], {}, [[]], ["x"], [None], [1.5], True, -1, [10**30], [10**400]):
        doc = copy.deepcopy(original)
        container, key = at(doc, path)
        container[key] = value
        try:
            model = from_dict(doc)
        except ModelFileError as error:
            assert str(error).startswith(("learner", "version")), str(error)
        else:  # an empty list of names, another objective, ...
            assert save_bytes(load_bytes(save_bytes(model, "json")), "ubj") == save_bytes(model, "ubj")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", [3, 2]),
        ("version", [3, 2, -1]),
        ("learner.attributes", {"a": 1}),
        ("learner.attributes", {"a": "\ud800"}),
        ("learner.attributes", {"\ud800": "a"}),
        ("learner.feature_names", ["a", "b", "c", 4]),
        ("learner.feature_names", ["a", "b", "c"]),
        ("learner.objective.name", 3),
        ("learner.objective.reg_loss_param", {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {}}}}}}}}}),
        ("learner.objective.reg_loss_param", [float("nan")]),
        ("learner.objective.reg_loss_param", None),
        ("learner.learner_model_param.num_feature", "4.0"),
        ("learner.learner_model_param.num_feature", "0x4"),
        ("learner.learner_model_param.num_feature", "٤"),
        ("learner.learner_model_param.num_feature", "99999999999"),
        ("learner.learner_model_param.num_feature", "9" * 10_000),
        ("learner.learner_model_param.num_feature", 4),
        ("learner.learner_model_param.base_score", "[]"),
        ("learner.learner_model_param.base_score", "[1, 2]"),
        ("learner.learner_model_param.base_score", "NaN"),
        ("learner.learner_model_param.base_score", "[Infinity]"),
        ("learner.learner_model_param.base_score", "1e60"),
        ("learner.learner_model_param.base_score", '{"a": 1}'),
        ("learner.learner_model_param.base_score", "[" * 100_000),
        ("learner.learner_model_param.base_score", "half"),
        ("learner.learner_model_param.base_score", 0.5),
        ("MODEL.gbtree_model_param.num_trees", "3"),
        ("MODEL.gbtree_model_param.num_trees", "2147483647"),
        ("MODEL.trees.0.id", 4),
        ("MODEL.trees.0.id", -1),
        ("MODEL.trees.0.tree_param.num_nodes", "1"),
        ("MODEL.trees.0.tree_param.num_nodes", "2147483647"),
        ("MODEL.trees.0.tree_param.num_deleted", "1"),
        ("MODEL.trees.0.tree_param.num_feature", "5"),
        ("MODEL.trees.0.tree_param.size_leaf_vector", "2"),
        ("MODEL.trees.0.split_type", [0, 0]),
        ("MODEL.trees.0.split_type", [1, 0]),
        ("MODEL.trees.0.split_type", [300] * 15),
        ("MODEL.trees.0.loss_changes.0", float("nan")),
        ("MODEL.trees.0.loss_changes.0", float("inf")),
        ("MODEL.trees.0.sum_hessian.0", 1e39),
        ("MODEL.trees.0.base_weights.0", -float("inf")),
        ("MODEL.trees.0.split_conditions.0", float("nan")),
        ("MODEL.trees.0.split_conditions.14", float("inf")),
        ("MODEL.trees.0.left_children.0", 1.0),
        ("MODEL.trees.0.left_children.0", 2**40),
        ("MODEL.trees.0.default_left.0", 256),
        ("MODEL.cats", {"enc": [{"type": 12, "values": [1]}], "feature_segments": [0, 1], "sorted_idx": [0]}),
        ("MODEL.cats", {"enc": [], "feature_segments": [0, 1], "sorted_idx": []}),
    ],
)
def test_a_bad_value_is_named(path, value):
    doc = gbtree_cases()["regression"].doc()
    container, key = at(doc, path)
    container[key] = value
    field = dotted(path).rsplit(".", 1)[0] if isinstance(key, int) else dotted(path).removesuffix(".num_nodes")
    with pytest.raises(ModelFileError) as caught:
        from_dict(doc)
    message = str(caught.value)
    expected = {
        "num_trees": "learner.gradient_booster.model.trees",
        "num_nodes": "learner.gradient_booster.model.trees[0]",
        "size_leaf_vector": "learner.gradient_booster.model.trees[0].base_weights",
    }
    assert message.startswith(expected.get(str(key), field)), message
    assert len(message) < 400


def test_an_old_file_with_broken_rounds():
    doc = as_version_1(gbtree_cases()["regression"].doc())
    doc["learner"]["learner_model_param"]["num_class"] = "3"
    with pytest.raises(ModelFileError, match="4 trees do not make whole rounds of 3"):
        from_dict(doc)


def test_a_model_of_the_engine_round_trips():
    model = squared_error(attributes={"best_iteration": "0"}, feature_names=["ä", "b"], feature_types=["q", "int"])
    for format in ("json", "ubj"):
        data = save_bytes(model, format)
        again = load_bytes(data)
        assert save_bytes(again, format) == data
        assert again.trees[0].equals(model.trees[0])
        again.trees = model.trees
        assert again == model


def test_the_documents_of_both_formats_are_one():
    doc = to_dict(squared_error())
    assert doc["version"] == list(FORMAT_VERSION)
    tree = doc["learner"]["gradient_booster"]["model"]["trees"][0]
    dtypes = {name: str(value.dtype) for name, value in tree.items() if isinstance(value, np.ndarray)}
    assert dtypes == {
        "base_weights": "float32",
        "categories": "int32",
        "categories_nodes": "int32",
        "categories_segments": "int64",
        "categories_sizes": "int64",
        "default_left": "uint8",
        "left_children": "int32",
        "loss_changes": "float32",
        "parents": "int32",
        "right_children": "int32",
        "split_conditions": "float32",
        "split_indices": "int32",
        "split_type": "uint8",
        "sum_hessian": "float32",
    }
    assert tree["split_type"].tolist() == [0, 0, 0]
    assert from_dict(doc).trees[0].equals(stump())


def test_statistics_that_overflowed_are_written_as_finite_numbers():
    tree = stump()
    tree.gain = np.array([np.inf, 0, 0])
    tree.cover = np.array([1e300, -np.inf, 6])
    tree.base_weight = np.array([np.nan, 0, 0])
    again = load_bytes(save_bytes(squared_error(trees=[tree]), "ubj")).trees[0]
    top = float(np.finfo(np.float32).max)
    assert again.gain.tolist() == [top, 0, 0]
    assert again.cover.tolist() == [top, -top, 6]
    assert again.base_weight.tolist() == [0, 0, 0]


def test_what_could_not_be_read_is_not_written():
    for broken in (stump(np.nan), stump(np.inf)):
        with pytest.raises(ModelFileError, match=r"trees\[0\]\.split_conditions"):
            save_bytes(squared_error(trees=[broken]))
    for fields in ({"attributes": {"a": 1}}, {"attributes": {"a": "\udfff"}}, {"feature_names": ["a", "\udfff"]}):
        with pytest.raises(ModelFileError, match=r"learner\."):
            save_bytes(squared_error(**fields))
    with pytest.raises(ModelFileError, match="num_feature"):
        save_bytes(SavedModel(n_features=0, objective={"name": "reg:squarederror"}, base_score=(0.5,)))


def test_from_dict_leaves_the_document_alone():
    doc = gbtree_cases()["categorical_sets"].doc()
    before = copy.deepcopy(doc)
    from_dict(doc)
    assert doc == before
