"""Linear leaves in model files: our extension. XGBoost refuses such a file by the name of its booster.

    "gradient_booster": {"name": "arboost_linear_leaves", "gradient_booster": {the booster as ever}}

A tree with linear leaves has one field more: columns of its terms, in the order of nodes (`kernels/dtypes.py`).
"""

from typing import Any, Protocol

import numpy as np

from arboost.kernels.dtypes import LINEAR_TERM
from arboost.modelio.schema import fail
from arboost.tree.model import Tree

LINEAR_BOOSTER = "arboost_linear_leaves"  # "name" around a booster whose trees have linear leaves
FIELD = "linear_leaves"


class Fields(Protocol):
    """An object of a file that checks what it gives."""

    def __contains__(self, key: str) -> bool: ...

    def child(self, key: str) -> "Fields": ...

    def path(self, key: str) -> str: ...

    def ints(self, key: str, dtype: Any) -> np.ndarray: ...

    def floats(self, key: str) -> np.ndarray: ...


def read_terms(tree: Fields) -> np.ndarray:
    """LINEAR_TERM records of a tree in a file, none if it has no such field; `schema.check_tree` judges them."""
    if FIELD not in tree:
        return np.zeros(0, LINEAR_TERM)
    fields = tree.child(FIELD)
    columns = {}
    for name in LINEAR_TERM.names or ():
        is_number = LINEAR_TERM[name].kind == "i"
        columns[name] = fields.ints(name, np.int32) if is_number else fields.floats(name)
    terms = np.zeros(len(columns["node"]), LINEAR_TERM)
    for name, values in columns.items():
        if len(values) != len(terms):
            fail(fields.path(name), f"{len(values)} entries where node has {len(terms)}")
        terms[name] = values
    return terms


def write_terms(tree: Tree) -> dict[str, Any]:
    """The field of a tree with linear leaves; nothing for others."""
    if not tree.is_linear:
        return {}
    return {FIELD: {name: np.ascontiguousarray(tree.terms[name]) for name in sorted(LINEAR_TERM.names or ())}}


def check_announced(trees: list[Tree], announced: bool, path: str) -> None:
    """Refuse linear leaves in a booster that plain XGBoost would take for one of constants."""
    if not announced and any(tree.is_linear for tree in trees):
        fail(path, f"linear leaves in a booster that is not inside one named {LINEAR_BOOSTER!r}")
