"""The same table gives the same model, to the byte, however it comes: arrays, sparse, files, batches."""

import itertools
import os
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import arboost as xgb
from boosting_cases import make_features, make_label

X = make_features(600, missing=0.1)
Y = make_label("reg:squarederror", X)
W = np.random.default_rng(3).random(len(X)).astype(np.float32)
PARAMS = {"max_depth": 3, "max_bin": 16, "subsample": 0.8, "seed": 5, "nthread": 2}
NAMES = [f"f_{k}" for k in range(X.shape[1])]


class Batches(xgb.core.DataIter):
    def __init__(self, batches):
        super().__init__()
        self.batches, self.at = batches, 0

    def reset(self):
        self.at = 0

    def next(self, input_data):
        if self.at == len(self.batches):
            return False
        input_data(**self.batches[self.at])
        self.at += 1
        return True


def model(data, n_rounds=4):
    return xgb.train(PARAMS, data, n_rounds).save_raw()


@pytest.fixture(scope="module")
def expected():
    return model(xgb.DMatrix(X, Y, weight=W))


def as_records(array):
    return np.array([tuple(row) for row in array], [(name, "f4") for name in NAMES])


class HasArray:
    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class HasDlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def sparse(array, kind):
    """Every value that is not NaN stored, zeros too: what is absent is missing."""
    rows, columns = np.nonzero(~np.isnan(array))
    return scipy.sparse.coo_array((array[rows, columns], (rows, columns)), array.shape).asformat(kind)


KINDS = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "big-endian": lambda a: a.astype(">f8"),
    "columns first": np.asfortranarray,
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "read-only": read_only,
    "objects": lambda a: np.where(np.isnan(a), None, a.astype(object)),
    "list of lists": np.ndarray.tolist,
    "masked": lambda a: np.ma.masked_array(np.nan_to_num(a).astype(np.int16), np.isnan(a)),
    "__array__": HasArray,
    "DLPack": HasDlpack,
    "csr": lambda a: sparse(a, "csr"),
    "csc": lambda a: sparse(a, "csc"),
    "coo": lambda a: sparse(a, "coo"),
    "lil": lambda a: sparse(a, "lil"),
    "csr_matrix": lambda a: scipy.sparse.csr_matrix(sparse(a, "csr")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("matrix", [xgb.DMatrix, xgb.QuantileDMatrix])
def test_kinds_of_arrays(kind, matrix, expected):
    options = {"max_bin": 16} if matrix is xgb.QuantileDMatrix else {}
    assert model(matrix(KINDS[kind](X), Y, weight=W, **options)) == expected


def test_structured_arrays_are_frames():
    frame = pd.DataFrame(X, columns=NAMES)
    assert model(xgb.DMatrix(as_records(X), Y)) == model(xgb.DMatrix(frame, Y))


def test_a_missing_value_of_the_users(expected):
    assert model(xgb.DMatrix(np.nan_to_num(X, nan=-999.0), Y, weight=W, missing=-999)) == expected


@pytest.mark.parametrize("kind", ["float64", "masked", "csr", "DLPack"])
def test_prediction_from_other_kinds(kind):
    booster = xgb.train(PARAMS, xgb.DMatrix(X, Y), 4)
    wanted = booster.predict(xgb.DMatrix(X))
    np.testing.assert_array_equal(booster.predict(xgb.DMatrix(KINDS[kind](X))), wanted)
    np.testing.assert_array_equal(booster.inplace_predict(KINDS[kind](X)), wanted)


# ---- batches ----


def batches(edges, convert=lambda array, _: array):
    edges = [0, *edges, len(X)]
    return [
        {"data": convert(X[a:b], k), "label": Y[a:b], "weight": W[a:b]}
        for k, (a, b) in enumerate(itertools.pairwise(edges))
    ]


@pytest.mark.parametrize("matrix", [xgb.DMatrix, xgb.QuantileDMatrix])
@settings(max_examples=8)
@given(edges=st.lists(st.integers(0, len(X)), max_size=5).map(sorted))
def test_batches_give_the_model_of_the_whole(expected, matrix, edges):
    options = {"max_bin": 16} if matrix is xgb.QuantileDMatrix else {}
    assert model(matrix(Batches(batches(edges)), **options)) == expected


@pytest.mark.parametrize("matrix", [xgb.DMatrix, xgb.QuantileDMatrix])
def test_batches_of_every_kind(expected, matrix):
    kinds = list(KINDS.values())
    edges = np.linspace(0, len(X), len(kinds) + 1).astype(int)[1:-1].tolist()
    options = {"max_bin": 16} if matrix is xgb.QuantileDMatrix else {}
    assert model(matrix(Batches(batches(edges, lambda array, k: kinds[k](array))), **options)) == expected


def test_many_rows_in_batches():
    """Enough rows that values are counted, not sorted, and that batches do not fit one buffer."""
    rng = np.random.default_rng(0)
    many = rng.normal(size=(150_000, 20)).astype(np.float32)
    many[rng.random(many.shape) < 0.05] = np.nan
    label = np.nan_to_num(many[:, 0]) + rng.normal(size=len(many))
    params = {"max_depth": 3, "nthread": 2}
    whole = xgb.train(params, xgb.QuantileDMatrix(many, label), 2).save_raw()
    parts = [{"data": many[a : a + 70_000], "label": label[a : a + 70_000]} for a in range(0, 150_000, 70_000)]
    for matrix in (xgb.QuantileDMatrix, xgb.DMatrix):
        assert xgb.train(params, matrix(Batches(parts)), 2).save_raw() == whole


def test_frames_with_categories_in_batches():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "k": pd.Categorical(rng.choice(list("abcde"), 400))})
    label = frame["k"].cat.codes + rng.normal(size=400)
    whole = xgb.QuantileDMatrix(frame, label, enable_categorical=True, max_bin=16)
    parts = [{"data": frame[a : a + 150], "label": label[a : a + 150]} for a in range(0, 400, 150)]
    batched = xgb.QuantileDMatrix(Batches(parts), enable_categorical=True, max_bin=16)
    assert model(batched) == model(whole)


def test_evaluation_on_batches():
    train = xgb.QuantileDMatrix(Batches(batches([250])), max_bin=16)
    test = xgb.QuantileDMatrix(Batches(batches([100, 300])), ref=train, max_bin=16)
    plain = xgb.DMatrix(Batches(batches([100, 300])))
    history = {}
    booster = xgb.train(
        PARAMS, train, 3, evals=[(train, "a"), (test, "b"), (plain, "c")], evals_result=history, verbose_eval=False
    )
    assert history["a"] == history["b"] == history["c"]
    np.testing.assert_array_equal(booster.predict(plain), booster.predict(xgb.DMatrix(X)))


PEAK = """
    import resource, sys
    import numpy as np
    import arboost as xgb

    N_BATCHES, N_ROWS, N_FEATURES = 40, 25_000, 50

    class Made(xgb.core.DataIter):
        at = 0
        def reset(self):
            self.at = 0
        def next(self, input_data):
            if self.at == N_BATCHES:
                return False
            rng = np.random.default_rng(self.at)
            self.at += 1
            input_data(data=rng.random((N_ROWS, N_FEATURES), np.float32), label=rng.random(N_ROWS))
            return True

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

    N_BATCHES = 4
    xgb.train({"max_depth": 2}, xgb.QuantileDMatrix(Made()), 1)
    N_BATCHES = 40
    before = peak()
    xgb.QuantileDMatrix(Made())
    print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measures the resident set as Linux counts it")
def test_peak_memory_of_batches():
    """1M x 50: 191 MiB of raw values. The bins, by row and by column, are 99 MiB; one batch is 5."""
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PEAK)], capture_output=True, text=True, check=True, env=os.environ
    )
    assert int(ran.stdout) < 150


# ---- files ----


@pytest.mark.parametrize("matrix", [xgb.DMatrix, xgb.QuantileDMatrix])
def test_files_give_the_model_of_the_frame(matrix, tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    options = {"max_bin": 16} if matrix is xgb.QuantileDMatrix else {}
    wanted = model(matrix(X, Y, weight=W, feature_names=NAMES, **options))
    table = frame.assign(target=Y.astype(np.float64), w=W.astype(np.float64))
    table.to_csv(tmp_path / "t.csv", index=False)
    assert model(matrix(tmp_path / "t.csv", label="target", weight="w", **options)) == wanted
    pytest.importorskip("pyarrow")
    table.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    wanted = model(matrix(frame, Y, weight=W, **options))
    assert model(matrix(tmp_path / "t.parquet", label="target", weight="w", **options)) == wanted


def test_saved_data_gives_the_same_model(tmp_path, expected):
    for kind in ("float64", "csr", "masked"):
        xgb.DMatrix(KINDS[kind](X), Y, weight=W).save_binary(tmp_path / "x.buffer")
        assert model(xgb.DMatrix(tmp_path / "x.buffer")) == expected


def test_columns_of_a_file_are_found_by_name(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    booster = xgb.train(PARAMS, xgb.DMatrix(frame, Y), 4)
    wanted = booster.predict(xgb.DMatrix(frame))
    frame[NAMES[::-1]].to_csv(tmp_path / "t.csv", index=False)
    np.testing.assert_array_equal(booster.predict(xgb.DMatrix(tmp_path / "t.csv")), wanted)
