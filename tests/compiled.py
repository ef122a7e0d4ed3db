"""Compiled formulas, callable from Python: inside the package only kernels call them."""

from typing import Any

import numba


def entry(formula: Any) -> Any:
    """The same function compiled in the same way, with an entry for Python."""
    return numba.njit(nogil=True, error_model="numpy")(formula.py_func)
