"""SciPy's sparse matrices, checked before SciPy or a kernel follows an index: both trust what the arrays say.

`read_sparse` is the one door. What comes out has ascending offsets, column indices inside of the table and no cell
twice. It goes by the arrays alone, not by the flags (`has_canonical_format`) that SciPy may have kept from before a
user changed them.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from arboost.kernels.ops import compressed
from arboost.matrix.lent import plain_view
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import check_room

MAX_FEATURES = int(np.iinfo(np.int32).max)  # numbers of features are int32
_FAULTS = (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError)


class CSR(NamedTuple):
    """The arrays of a CSR matrix."""

    shape: tuple[int, int]
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    format: str = "csr"  # SciPy's word


def read_sparse(matrix: Any) -> CSR:
    """Any SciPy sparse matrix, or `CSR`, as a sound CSR matrix, without a copy if it is one already.

    A cell stored in two parts is their sum, as everywhere in SciPy.
    """
    n_rows, n_columns = shape = tuple(matrix.shape)
    if n_columns > MAX_FEATURES:
        raise XGBoostError(f"The sparse matrix has {n_columns} columns; at most {MAX_FEATURES} are possible.")
    if matrix.format in ("csc", "coo", "dia"):  # others hold something for every row already
        check_room(8 * n_rows, f"A sparse matrix of {n_rows} rows", "Is its shape right?")
    try:
        whole = matrix if matrix.format == "csr" else _sound_twin(matrix).tocsr()
        indptr, indices, is_ordered = _check_lines(whole, "row", n_rows, n_columns)
        data = _entries(whole, indices, int(indptr[-1]))
    except _FAULTS as error:
        if isinstance(error, XGBoostError):
            raise
        raise XGBoostError(f"The sparse matrix (format {matrix.format}) cannot be read: {error}") from error
    found = CSR(shape, indptr, indices[: len(data)], data)
    return found if is_ordered else _without_duplicates(found)


def check_indices(indices: Any, n_places: int, what: str, ascending: bool = False) -> None:
    """Refuses numbers of places outside of 0 .. n_places - 1, and, where they must ascend, others that do not."""
    array = _integers(indices, what)
    ptr = np.array([0, len(array)], np.int64)
    faults = compressed.check_lines(ptr, _unsigned(array), n_places, 0, 1)
    if faults & compressed.BAD_INDEX:
        wrong = array[(array < 0) | (array >= n_places)]
        raise XGBoostError(f"The sparse data has {what} outside of 0..{n_places - 1}: {wrong[0]}.")
    if ascending and faults & compressed.UNORDERED:
        raise XGBoostError(f"The {what} of the sparse data do not ascend.")


def _check_lines(matrix: Any, line: str, n_lines: int, n_places: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Offsets (int64) and indices of rows (CSR) or columns (CSC), and whether the indices ascend in every line."""
    place = "column" if line == "row" else "row"
    indptr = _integers(matrix.indptr, f"{line} offsets (indptr)").astype(np.int64, copy=False)
    indices = _integers(matrix.indices, f"{place} indices")
    if len(indptr) != n_lines + 1:
        raise XGBoostError(
            f"The sparse matrix has {len(indptr)} {line} offsets (indptr); {n_lines} {line}s need {n_lines + 1}."
        )
    faults = compressed.check_lines(plain_view(indptr), _unsigned(indices), n_places, 0, n_lines)
    if faults & compressed.BAD_POINTER or indptr[0] != 0:
        raise XGBoostError(
            f"The {line} offsets (indptr) of the sparse matrix do not rise from 0 to the number of its entries, "
            f"{len(indices)}."
        )
    if faults & compressed.BAD_INDEX:
        used = indices[: indptr[-1]]
        wrong = used[(used < 0) | (used >= n_places)]
        raise XGBoostError(f"The sparse matrix has {place} indices outside of 0..{n_places - 1}: {wrong[0]}.")
    return indptr, indices, not faults & compressed.UNORDERED


def _integers(values: Any, what: str) -> np.ndarray:
    """An array of int32 or int64 that a kernel can read."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise XGBoostError(
            f"The {what} of the sparse matrix must be one row of integers, got dtype {array.dtype} and shape "
            f"{array.shape}."
        )
    wanted = np.int32 if array.dtype.itemsize < 4 or array.dtype == np.int32 else np.int64
    return np.require(array, wanted, ["C_CONTIGUOUS", "ALIGNED"])


def _unsigned(indices: np.ndarray) -> np.ndarray:
    """The same bits unsigned: a negative index becomes a huge one."""
    return plain_view(indices).view(np.uint32 if indices.itemsize == 4 else np.uint64)


def _entries(matrix: Any, indices: np.ndarray, n_entries: int) -> np.ndarray:
    data = np.asarray(matrix.data)
    if data.shape[:1] != indices.shape:
        raise XGBoostError(f"The sparse matrix has {len(indices)} indices for data of shape {data.shape}.")
    return data[:n_entries]


def _sound_twin(matrix: Any) -> Any:
    """The matrix made anew, without a copy where there need be none, from arrays that SciPy may follow.

    Formats that have none of their own here (DOK) are read by Python code, which checks what it does.
    """
    kind, (n_rows, n_columns) = matrix.format, matrix.shape
    if kind == "csc":
        indptr, indices, _ = _check_lines(matrix, "column", n_columns, n_rows)
        data = _entries(matrix, indices, int(indptr[-1]))
        return scipy.sparse.csc_matrix((data, *_alike(indices[: len(data)], indptr)), matrix.shape, copy=False)
    if kind == "coo":
        check_indices(matrix.row, n_rows, "row indices")
        check_indices(matrix.col, n_columns, "column indices")
        return scipy.sparse.coo_matrix((matrix.data, (matrix.row, matrix.col)), matrix.shape, copy=False)
    if kind == "bsr":
        height, width = np.asarray(matrix.data).shape[1:]
        if height < 1 or width < 1 or n_rows % height or n_columns % width:
            raise XGBoostError(f"Blocks of {height} x {width} do not fill a sparse matrix of {n_rows} x {n_columns}.")
        indptr, indices, _ = _check_lines(matrix, "row", n_rows // height, n_columns // width)
        blocks = _entries(matrix, indices, int(indptr[-1]))
        return scipy.sparse.bsr_matrix((blocks, *_alike(indices[: len(blocks)], indptr)), matrix.shape, copy=False)
    if kind == "dia":
        return scipy.sparse.dia_matrix((matrix.data, matrix.offsets), matrix.shape, copy=False)
    if kind == "lil":
        lengths = [[len(part) for part in parts] for parts in (matrix.rows, matrix.data)]
        if lengths[0] != lengths[1] or len(lengths[0]) != n_rows:
            raise XGBoostError(
                "The sparse matrix (format lil) has lists of indices and of values that differ in length."
            )
    return matrix


def _alike(indices: np.ndarray, indptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices and offsets of one dtype, or SciPy would look through and convert both."""
    fits = indptr[-1] <= np.iinfo(indices.dtype).max
    return indices, indptr.astype(indices.dtype, copy=False) if fits else indptr


def _without_duplicates(found: CSR) -> CSR:
    """Columns ascending in every row, each once."""
    indices, indptr = _alike(found.indices, found.indptr)
    matrix = scipy.sparse.csr_matrix((found.data, indices, indptr), found.shape, copy=True)
    matrix.sum_duplicates()
    return CSR(found.shape, matrix.indptr.astype(np.int64, copy=False), matrix.indices, matrix.data)
