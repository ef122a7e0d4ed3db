"""Sparse matrices whose arrays lie, through every door: refused by name, or read as what they say; never a crash.

Each batch of cases runs in a process of its own, so that a crash is seen and names its case. The referee reads a
matrix entry by entry in plain Python.
"""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import arboost
from arboost import compat
from arboost.runtime.errors import XGBoostError

N_ROWS, N_COLUMNS = 12, 6
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
WRONG = (-1, -7, 0, 1, 3, 5, 6, 11, 12, 40, 2**31 - 1, -(2**31))
WIDE = (2**31, 2**40, -(2**40), 2**63 - 1)


class Batches(arboost.DataIter):
    """The matrix as the second of two batches."""

    def __init__(self, matrix):
        super().__init__()
        self.parts = [scipy.sparse.csr_matrix(good()), matrix]
        self.at = 0

    def reset(self):
        self.at = 0

    def next(self, input_data):
        if self.at == len(self.parts):
            return 0
        input_data(data=self.parts[self.at], label=np.arange(N_ROWS))
        self.at += 1
        return 1


def good() -> np.ndarray:
    rng = np.random.default_rng(5)
    return (rng.random((N_ROWS, N_COLUMNS)) < 0.5) * rng.integers(1, 9, (N_ROWS, N_COLUMNS)).astype(np.float32)


def trained() -> arboost.Booster:
    X, y = good(), np.arange(N_ROWS)
    return arboost.train({"max_depth": 2, "nthread": 1}, arboost.DMatrix(scipy.sparse.csr_matrix(X), y), 3)


BOOSTER_OF_PROCESS: list[arboost.Booster] = []
MODEL_OF_PROCESS: list[arboost.XGBRegressor] = []


def booster() -> arboost.Booster:
    if not BOOSTER_OF_PROCESS:
        BOOSTER_OF_PROCESS.append(trained())
    return BOOSTER_OF_PROCESS[0]


def estimator() -> arboost.XGBRegressor:
    if not MODEL_OF_PROCESS:
        MODEL_OF_PROCESS.append(
            arboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(scipy.sparse.csr_matrix(good()), np.arange(N_ROWS))
        )
    return MODEL_OF_PROCESS[0]


def use(door: int, matrix) -> np.ndarray | None:
    """Take the matrix in by one of the doors; the table that was read, where the door shows it."""
    if door == 0:
        return arboost.DMatrix(matrix).get_data().toarray()
    if door == 1:
        arboost.QuantileDMatrix(matrix, np.arange(N_ROWS), nthread=1)
    elif door == 2:
        arboost.QuantileDMatrix(Batches(matrix), nthread=1)
    elif door == 3:
        booster().inplace_predict(matrix)
    elif door == 4:
        estimator().predict(matrix)
    elif door == 5:
        arboost.XGBRegressor(n_estimators=1, n_jobs=1).fit(matrix, np.arange(N_ROWS))
    elif door == 6:
        return arboost.DMatrix(matrix).slice(np.arange(N_ROWS)).get_data().toarray()
    elif door == 7:
        booster().predict(arboost.DMatrix(matrix), pred_contribs=True)
    elif door == 8:
        return compat.concat([matrix]).toarray()
    else:
        arboost.train({"booster": "gblinear", "nthread": 1}, arboost.DMatrix(matrix, np.arange(N_ROWS)), 1)
    return None


N_DOORS = 10


def lie(matrix, rng: np.random.Generator) -> None:
    """Change one array of a matrix."""
    names = {
        "csr": ("indptr", "indices"), "csc": ("indptr", "indices"), "bsr": ("indptr", "indices"), "coo": ("row", "col"),
    }.get(matrix.format)  # fmt: skip
    if matrix.format == "dia":
        matrix.offsets = np.array(rng.choice([*WRONG, *WIDE], len(matrix.offsets)))
        return
    if matrix.format == "dok":
        matrix._dict[int(rng.choice(WRONG)), int(rng.choice(WRONG))] = 3.0
        return
    if matrix.format == "lil":
        row = rng.integers(N_ROWS)
        matrix.rows[row] = [*matrix.rows[row], int(rng.choice(WRONG))]
        if rng.random() < 0.5:
            matrix.data[row] = [*matrix.data[row], 3.0]
        return
    name = names[rng.integers(2)]
    array = getattr(matrix, name).copy()
    kind = rng.integers(10)
    if kind < 5:
        array[rng.integers(len(array))] = rng.choice(WRONG)
    elif kind == 5:
        array = array.astype(rng.choice(["i8", "u8", ">i4", "f4", "O", "?"]))
    elif kind == 6:
        array = array.astype(np.int64)
        array[rng.integers(len(array))] = rng.choice(WIDE)
    elif kind == 7:
        array = array[: rng.integers(1, len(array) + 1)] if rng.random() < 0.5 else np.append(array, array)
    elif kind == 8:
        matrix.data = matrix.data[: rng.integers(1, len(matrix.data) + 1)]
    else:
        array = rng.permutation(array)
    setattr(matrix, name, array)


def said(matrix) -> np.ndarray | None:
    """The table that the arrays describe, read entry by entry; None if they describe none."""
    if matrix.format not in ("csr", "csc"):
        return None
    table = np.zeros((N_ROWS, N_COLUMNS), np.float64)
    ptr, indices, data = (np.asarray(x) for x in (matrix.indptr, matrix.indices, matrix.data))
    n_lines, n_places = table.shape if matrix.format == "csr" else table.shape[::-1]
    if any(x.dtype.kind not in "iu" for x in (ptr, indices)) or len(ptr) != n_lines + 1 or len(indices) != len(data):
        return None
    ptr, indices = [int(i) for i in ptr], [int(i) for i in indices]
    if ptr[0] != 0 or any(not 0 <= a <= b <= len(indices) for a, b in itertools.pairwise(ptr)):
        return None
    for line in range(n_lines):
        for entry in range(ptr[line], ptr[line + 1]):
            if not 0 <= indices[entry] < n_places:
                return None
            at = (line, indices[entry]) if matrix.format == "csr" else (indices[entry], line)
            table[at] += data[entry]
    return table


def try_case(seed: int) -> None:
    """One matrix, one or two lies, one door."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(len(FORMATS)) if seed % 2 else seed // 2 % 2  # half of them CSR or CSC
    matrix = scipy.sparse.csr_matrix(good()).asformat(FORMATS[kind])
    for _ in range(rng.integers(1, 3)):
        lie(matrix, rng)
    expected = said(matrix)
    door = int(rng.integers(N_DOORS))
    print(seed, matrix.format, door, flush=True)
    try:
        found = use(door, matrix)
    except XGBoostError as error:
        assert "sparse" in str(error), error
        assert expected is None, f"case {seed}: refused a sound matrix: {error}"
    else:
        if matrix.format in ("csr", "csc"):
            assert expected is not None, f"case {seed}: accepted"
            assert found is None or np.array_equal(found, expected), f"case {seed}: read as something else"


@pytest.mark.parametrize("batch", range(2))
def test_arrays_that_lie(batch):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    n = int(os.environ.get("ARBOOST_FUZZ_CASES", "400"))
    command = [sys.executable, "-W", "ignore", str(Path(__file__)), str(batch * n), str(batch * n + n)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"last case: {done.stdout.splitlines()[-1:]}\n{done.stderr[-3000:]}"


if __name__ == "__main__":
    for case in range(int(sys.argv[1]), int(sys.argv[2])):
        try_case(case)
