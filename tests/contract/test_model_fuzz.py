"""Thousands of damaged model files: each is refused with ModelFileError, or is a sound model.

A model that loads must satisfy every invariant, be walkable in as many steps as it has nodes, and be written and read
again to the same bytes. Any other exception, a NumPy warning or an endless loop fails the test.
"""

import contextlib
import copy
import random
import struct
import tracemalloc
import warnings

import numpy as np
import pytest

import arboost
from arboost.modelio import json_text, ubjson
from arboost.modelio.dump import dump_tree
from arboost.modelio.files import load_bytes, save_bytes
from arboost.modelio.json_model import from_dict
from arboost.modelio.schema import SavedModel, check_model
from arboost.modelio.statistics import unpack_statistics
from arboost.runtime.errors import ModelFileError
from naive_modelio import find_leaf, gbtree_cases, other_cases

NAMES = ["regression", "forest", "categorical_sets", "frame", "early_stopped", "pruned", "unbiased_rank", "vector_leaf"]
NAMES += ["linear_leaves", "statistics"]
NUMBERS = [0, 1, -1, 2, 127, 128, 255, 2**15, 2**24, 2**31 - 1, 2**31, -(2**31), 2**63, 10**30, 0.5, -0.0, 1e300]
NUMBERS += [float("nan"), float("inf"), -float("inf")]
VALUES = [None, True, False, "", "x", "3", "-1", "9" * 30, "[1E0]", "NaN", [], {}, [[]], {"a": 1}, ["a"], "\ud800"]


def first_rounds(name: str, format: str) -> bytes:
    """A small file: the first round of a model."""
    if name in ("linear_leaves", "statistics"):
        return own_model(name, format)
    case = other_cases()[name] if name == "vector_leaf" else gbtree_cases()[name]
    return bytes(case.booster[:1].save_raw(format))


def own_model(name: str, format: str) -> bytes:
    """A file of ours that XGBoost has no counterpart of."""
    X = np.random.default_rng(3).normal(size=(200, 3)).astype(np.float32)
    params = {"linear_leaves": True, "linear_lambda": 0, "max_depth": 2, "nthread": 1}
    data = arboost.DMatrix(X, np.sin(2 * X[:, 0]))
    if name == "statistics":
        pandas = pytest.importorskip("pandas")
        codes = np.arange(200) % 7
        frame = pandas.DataFrame({"x": X[:, 0], "c": pandas.Categorical([f"c{code}" for code in codes])})
        data = arboost.DMatrix(frame, np.sin(codes), enable_categorical=True)
        params = {"cat_strategy": "ordered_ts", "max_depth": 2, "nthread": 1}
    return bytes(arboost.train(params, data, 1).save_raw(format))


def check_sound(model: SavedModel) -> None:
    """A model that was accepted can be walked, printed, written and read again."""
    check_model(model)
    rng = np.random.default_rng(0)
    for tree in model.trees:
        used = tree.feature[tree.left != -1]
        row = np.zeros(int(used.max(initial=0)) + 1, np.float32)
        for _ in range(3):
            row[:] = rng.choice([np.nan, -1e30, 0, 1, 2, 5, 1e30], len(row))
            find_leaf(tree, row)
        dump_tree(tree, with_stats=True)
    for format in ("json", "ubj"):
        data = save_bytes(model, format)
        assert save_bytes(load_bytes(data), format) == data
    if model.statistics is not None:
        with contextlib.suppress(ModelFileError):  # a Booster knows how many of them it can use
            unpack_statistics(model.statistics)


def try_file(data: bytes) -> bool:
    """True if the bytes load; anything but ModelFileError is raised."""
    try:
        model = load_bytes(data)
    except ModelFileError as error:
        assert len(str(error)) < 600
        return False
    check_sound(model)
    return True


def damage(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """One random injury."""
    buffer = bytearray(data)
    place = rng.randrange(len(buffer))
    length = min(rng.choice([1, 2, 4, 8, 64, 1000]), len(buffer) - place)
    kind = rng.randrange(8)
    if kind == 0:
        buffer[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        buffer[place] = rng.choice(b'\0\1\x7f\x80\xff[]{}$#LlidSUTFZN"\\,:0123456789-+eE.')
    elif kind == 2:
        del buffer[place:]
    elif kind == 3:
        del buffer[place : place + length]
    elif kind == 4:
        buffer[place:place] = rng.randbytes(length)
    elif kind == 5:
        buffer[place:place] = buffer[place : place + length]
    elif kind == 6:
        start = rng.randrange(len(other))
        buffer[place : place + length] = other[start : start + length]
    else:
        buffer[place : place + 8] = struct.pack(">q", rng.choice([0, 1, -1, 2**31, 2**60, 2**63 - 1]))
    return bytes(buffer)


@pytest.mark.parametrize("format", ["json", "ubj"])
def test_damaged_bytes(format):
    rng = random.Random(14)
    originals = [first_rounds(name, format) for name in NAMES]
    accepted = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2000):
            data = rng.choice(originals)
            for _ in range(rng.choice([1, 1, 1, 2, 5])):
                data = damage(data, rng.choice(originals), rng) or b"{"
            accepted += try_file(data)
    assert 20 < accepted < 1500  # some injuries only change a number


@pytest.mark.parametrize("format", ["json", "ubj"])
def test_every_truncation_of_a_file(format):
    data = first_rounds("regression", format)
    assert not any(try_file(data[:end]) for end in range(len(data)))


def places(value, path=()) -> list[tuple]:
    """Paths of all values in a document; of long arrays a few entries only."""
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))[:6]
    else:
        children = []
    return [path, *(deeper for key, child in children for deeper in places(child, (*path, key)))]


def alter(value, rng: random.Random):
    """Something else in the place of a value."""
    kind = rng.randrange(6)
    if isinstance(value, (list, np.ndarray)) and len(value) and kind < 4:
        items = list(value) if isinstance(value, list) else value.copy()
        place = rng.randrange(len(items))
        if kind == 0:
            return items[:-1] if rng.random() < 0.5 else items[1:]
        if kind == 1:
            items = list(items)
            items[place] = rng.choice(NUMBERS + VALUES)
            return items
        if kind == 2:
            order = rng.sample(range(len(items)), len(items))
            return [items[i] for i in order] if isinstance(items, list) else items[order]
        other = rng.randrange(len(items))
        items[place] = items[other]
        return items
    if isinstance(value, np.ndarray):
        return value.astype(rng.choice(["i1", "u1", "i2", "i4", "i8", "f4", "f8"]))
    if isinstance(value, str) and kind < 4:
        return rng.choice([value + "0", value[:-1], "-" + value, str(rng.choice(NUMBERS)), value * 2])
    if isinstance(value, int) and kind < 3:
        return value + rng.choice([-1, 1, 1000])
    return rng.choice(NUMBERS + VALUES)


def mutate(doc: dict, rng: random.Random) -> dict:
    """A copy of a document with one place deleted, replaced, altered or moved."""
    doc = copy.deepcopy(doc)
    path = rng.choice(places(doc)[1:])
    holder = doc
    for key in path[:-1]:
        holder = holder[key]
    kind = rng.randrange(8)
    if kind == 0:
        del holder[path[-1]]
    elif kind == 1:
        holder[path[-1]] = copy.deepcopy(holder[rng.choice(list(holder) if isinstance(holder, dict) else [0])])
    elif kind == 2 and isinstance(holder, dict):
        target = rng.choice(list(holder))
        holder[target] = holder.pop(path[-1])
    elif kind == 3 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[path[-1]]))
    else:
        holder[path[-1]] = alter(holder[path[-1]], rng)
    return doc


@pytest.mark.parametrize("format", ["json", "ubj"])
def test_mutated_documents(format):
    rng = random.Random(15)
    decode = json_text.decode if format == "json" else ubjson.decode
    originals = [decode(first_rounds(name, format)) for name in NAMES]
    accepted = 0
    for _ in range(800):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the mutation itself may cast NaN
            doc = mutate(rng.choice(originals), rng)
            if rng.random() < 0.2:
                doc = mutate(doc, rng)
            warnings.simplefilter("error")
            try:
                model = from_dict(doc)
            except ModelFileError as error:
                assert str(error).startswith(("learner", "version")), f"no field named: {error}"
                continue
            except json_text.DoubleRoundingError:
                continue
            check_sound(model)
        accepted += 1
    assert 40 < accepted < 600


@pytest.mark.parametrize(
    "data",
    [
        b'{"learner":' * 100_000,
        b'{"learner":{"gradient_booster":' + b"[" * 10**6,
        b'{"learner":"' + b"x" * 10**6,
        b"{i\x07learner" * 100_000,
        b"{i\x07learner[#L" + struct.pack(">q", 2**60),
        b"{i\x07learner[$L#L" + struct.pack(">q", 2**60),
        b"{i\x07learnerSL" + struct.pack(">q", 2**62),
        b"{#L" + struct.pack(">q", 2**62) + b"i\x07learnerZ",
        b"{i\x07learner" + b"[" * 10**6,
    ],
    ids=range(9),
)
def test_hostile_files_are_refused_at_once(data):
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError):
            load_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < 10**7 + 4 * len(data)
    finally:
        tracemalloc.stop()


def test_claims_that_the_file_does_not_keep():
    """Counts in strings allocate nothing, however large."""
    original = json_text.decode(first_rounds("forest", "json"))
    claims = [
        (("learner", "learner_model_param", "num_class"), "2147483647"),
        (("learner", "learner_model_param", "num_target"), "2147483647"),
        (("learner", "gradient_booster", "model", "gbtree_model_param", "num_trees"), "2147483647"),
        (("learner", "gradient_booster", "model", "trees", 0, "tree_param", "num_nodes"), "2147483647"),
        (("learner", "gradient_booster", "model", "trees", 0, "tree_param", "num_deleted"), "2147483647"),
        (("learner", "gradient_booster", "model", "trees", 0, "tree_param", "num_feature"), "2147483647"),
    ]
    tracemalloc.start()
    try:
        for path, value in claims:
            doc = copy.deepcopy(original)
            holder = doc
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
            with pytest.raises(ModelFileError):
                from_dict(doc)
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def test_long_chains_are_checked_in_linear_time():
    """A tree of 200,000 nodes in one line, children before parents, so that the shortcut does not apply."""
    model = load_bytes(gbtree_cases()["single_leaf"].raw("ubj"))
    tree = model.trees[0]
    n_splits = 100_000
    n_nodes = 2 * n_splits + 1
    inner = np.concatenate([[0], np.arange(n_splits - 1, 0, -1)]).astype(np.int32)
    tree.left = np.full(n_nodes, -1, np.int32)
    tree.right = tree.left.copy()
    tree.left[inner] = np.append(inner[1:], n_nodes - 1)
    tree.right[inner] = np.arange(n_splits, n_nodes - 1)
    tree.parent = np.full(n_nodes, 2147483647, np.int32)
    tree.parent[tree.left[inner]] = tree.parent[tree.right[inner]] = inner
    for name in ("feature", "threshold", "default_left", "gain", "cover", "base_weight"):
        setattr(tree, name, np.zeros(n_nodes, getattr(tree, name).dtype))
    data = save_bytes(model, "ubj")
    assert save_bytes(load_bytes(data), "ubj") == data
    assert find_leaf(tree, np.zeros(1)) == n_splits
