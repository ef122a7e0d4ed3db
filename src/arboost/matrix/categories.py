"""The categories of a data set or a model: what the codes 0, 1, 2, ... of a categorical feature stand for.

Data may have categories of any type. A model keeps those that XGBoost's files can hold, integers and strings
(`Categories.stored`): whole floats become integers, everything else its text. `recode` gives data the codes of a model.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from arboost.runtime.errors import XGBoostError

MAX_CATEGORIES = 1 << 24  # codes travel as float32, exact only below 2^24
_SHOWN = 10  # names listed in a message


class Categories:
    """Category values of every feature, in the order of their codes.

    Parameters
    ----------
    values
        One entry per feature: None if it is numerical, else a 1-d array of integers, floats or (dtype object) strings.
    names
        Names of the features, for `to_arrow`.
    """

    def __init__(self, values: Sequence[np.ndarray | None], names: Sequence[str] | None = None):
        self.values = list(values)
        self.names = None if names is None else list(names)
        self._arrow: list[tuple[str, Any]] | None = None
        self._codes: dict[int, dict[Any, int]] = {}

    @cached_property
    def digest(self) -> str:
        """The same for the same categories in the same order."""
        values = [None if values is None else values.tolist() for values in self.values]
        return hashlib.sha256(repr(values).encode()).hexdigest()

    def empty(self) -> bool:
        """Whether no feature has categories."""
        return all(values is None for values in self.values)

    def to_arrow(self) -> list[tuple[str, Any]]:
        """(feature name, pyarrow array of its categories or None) of every feature."""
        if self._arrow is None:
            raise ValueError("The `export_to_arrow` option of the `get_categories` method is required.")
        return list(self._arrow)

    def set_arrow(self, arrays: list[tuple[str, Any]]) -> None:
        """What `to_arrow` answers."""
        self._arrow = arrays

    def same_as(self, other: "Categories") -> bool:
        """Whether all codes mean the same."""
        return len(self.values) == len(other.values) and all(map(_same, self.values, other.values))

    def stored(self) -> "Categories":
        """As a model keeps them: int64 or narrower integers, uint8, strings."""
        return Categories([None if v is None else _storable(v) for v in self.values], self.names)

    def select(self, order: Sequence[int]) -> "Categories":
        """The features in another order."""
        names = None if self.names is None else [self.names[f] for f in order]
        return Categories([self.values[f] for f in order], names)

    def codes_of(self, feature: int) -> dict[Any, int]:
        """Code of every category value of a categorical feature."""
        if feature not in self._codes:
            values = self.values[feature]
            assert values is not None
            items = list(zip(values.tolist(), range(len(values)), strict=True))
            self._codes[feature] = dict(reversed(items))  # of equal values the first counts
        return self._codes[feature]

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values, "names": self.names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class Coded(Protocol):
    """Data whose categorical features hold codes: see `adapt.RawData`."""

    categories: Categories | None
    feature_names: list[str] | None

    def with_codes(self, tables: list[np.ndarray | None], categories: Categories) -> Any:
        """The same data with every code c of feature f replaced by tables[f][c]; None leaves a feature as it is."""

    def used_codes(self, feature: int, n_codes: int) -> np.ndarray:
        """(n_codes,) bool: which codes occur in the data."""


def recode(raw: Any, wanted: Categories | None, unseen: str = "missing") -> Any:
    """The data with the codes of `wanted`, such as a model's categories.

    Parameters
    ----------
    raw
        `RawData`. Data without categories is returned as it is: its codes are taken to be the wanted ones.
    wanted
        Categories as stored in a model; None leaves the data as it is.
    unseen
        What becomes of a category that is not among the wanted: "missing", or "error" if it occurs in any row.
    """
    if raw.categories is None or wanted is None or wanted.empty():
        return raw
    return apply_tables(raw, code_tables(raw.categories, wanted, raw.feature_names), wanted, unseen)


def apply_tables(raw: Coded, tables: list[np.ndarray | None], wanted: Categories, unseen: str) -> Any:
    """The data with its codes replaced; refuses categories without a wanted code if `unseen` is "error"."""
    if all(table is None for table in tables):
        return raw
    if unseen == "error":
        for f, table in enumerate(tables):
            if table is not None and np.isnan(table).any():
                _refuse_unseen(raw, f, table)
    return raw.with_codes(tables, wanted)


def code_tables(have: Categories, wanted: Categories, names: Sequence[str] | None = None) -> list[np.ndarray | None]:
    """For every feature, float32 wanted code of every code, NaN for unseen ones; None where nothing changes."""
    return [_code_table(have, wanted, f, names) for f in range(len(have.values))]


def _code_table(have: Categories, wanted: Categories, f: int, names: Sequence[str] | None) -> np.ndarray | None:
    given, kept = have.values[f], wanted.values[f]
    if (given is None or not len(given)) and (kept is None or not len(kept)):
        return None
    if given is None or kept is None or not _comparable(given, kept):
        raise XGBoostError(
            f"Invalid new DataFrame input for the feature {names[f] if names else f}: The data type doesn't match the "
            f"one used in the training dataset ({_kind(given)} now, {_kind(kept)} in training). Both should be either "
            "numeric or categorical. For a categorical feature, the index type must match between the training and "
            "test set: convert the column first."
        )
    if _same(given, kept):
        return None
    code_of = wanted.codes_of(f)
    found = [code_of.get(value, np.nan) for value in _as_kept(given, kept).tolist()]
    table = np.array(found, np.float32)
    return None if np.array_equal(table, np.arange(len(table))) else table


def _refuse_unseen(raw: Coded, f: int, table: np.ndarray) -> None:
    assert raw.categories is not None
    values = raw.categories.values[f]
    assert values is not None
    found = values[np.isnan(table) & raw.used_codes(f, len(table))].tolist()
    if found:
        name = raw.feature_names[f] if raw.feature_names else f
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise XGBoostError(
            f"Found a category not in the training set for the column {name}: {found[:_SHOWN]}{more}. Set "
            "unseen_category='missing' to treat such values as missing."
        )


def as_category_values(values: Any, name: str) -> np.ndarray:
    """Category values of one feature from any 1-d array: integers and floats stay, everything else becomes text."""
    array = np.asarray(values)
    if array.ndim != 1:  # such as tuples
        array = np.empty(len(values), object)
        array[:] = list(values)
    if len(array) > MAX_CATEGORIES:
        raise XGBoostError(f"The column {name} has {len(array)} categories, at most {MAX_CATEGORIES} are supported.")
    if array.dtype.kind in "iuf":
        return array
    items = array.tolist() if array.dtype.kind != "M" else array.astype("M8[us]").tolist()  # whatever its unit
    if items and all(type(item) is int for item in items):
        return np.array(items)
    texts = np.array([item if isinstance(item, str) else str(item) for item in items], object)
    if len(set(texts.tolist())) < len(texts):
        raise XGBoostError(f"Two categories of the column {name} read the same as text: convert them to strings.")
    return texts


def _same(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    if a is b or a is None or b is None:
        return a is b
    return len(a) == len(b) and _family(a) == _family(b) and bool((a == b).all())


def _family(values: np.ndarray) -> str:
    """i (integers), f (floats) or O (strings)."""
    return "i" if values.dtype.kind in "iu" else values.dtype.kind


def _kind(values: np.ndarray | None) -> str:
    if values is None:
        return "numeric"
    return "categories of " + {"i": "integers", "f": "floats", "O": "strings"}[_family(values)]


def _comparable(given: np.ndarray, kept: np.ndarray) -> bool:
    """Whether the values can mean the same; an empty list of categories has no type."""
    families = _family(given), _family(kept)
    if not len(given) or not len(kept) or "O" not in families or families == ("O", "O"):
        return True
    return families == ("f", "O") and all(map(_is_number, kept.tolist()))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_kept(given: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Values in the form in which a model keeps its own; 2.0 finds 2 as it is."""
    return _texts(given) if (_family(given), _family(kept)) == ("f", "O") else given


def _texts(values: np.ndarray) -> np.ndarray:
    return np.array([repr(value) for value in values.astype(np.float64).tolist()], object)


def _storable(values: np.ndarray) -> np.ndarray:
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "f":
        whole = bool((np.isfinite(values) & (values == np.rint(values)) & (abs(values) < 2.0**53)).all())
        return values.astype(np.int64) if whole else _texts(values)
    if kind == "u" and size > 1:  # XGBoost's files have no wider unsigned integers
        if int(values.max(initial=0)) > np.iinfo(np.int64).max:
            raise XGBoostError("Integer categories must fit 64 bits with sign: convert them to strings.")
        return values.astype(np.int64)
    return values
