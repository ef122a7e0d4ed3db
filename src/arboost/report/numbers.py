"""Numbers as the page holds them: rounded for size where a picture needs no more, exact where a reader checks."""

import math
from typing import Any

import numpy as np

NO_VALUE = "\u2013"


def rounded(value: float, digits: int = 5) -> float | int | None:
    """A number of so many significant digits, whole ones as integers; None for NaN and infinities."""
    value = float(value)
    if not math.isfinite(value):
        return None
    value = float(f"{value:.{digits}g}")
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def rounded_list(values: Any, digits: int = 5) -> list[float | int | None]:
    """The same for every value of an array of one dimension."""
    return [rounded(value, digits) for value in np.asarray(values, np.float64).ravel().tolist()]


def exact(value: float) -> float | int | None:
    """A float32 by the shortest decimal that means it."""
    return rounded(float(str(np.float32(value))), 9)


def words(value: Any, digits: int = 5) -> str:
    """A number for readers: 1,234,567, 0.83125, 1.2e-07; digits before the point are all there."""
    if value is None:
        return NO_VALUE
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    value = float(value)
    if not math.isfinite(value):
        return NO_VALUE if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if abs(value) < 1e15 and (value.is_integer() or abs(value) >= 10**digits):
        return f"{round(value):,}"
    text = f"{value:.{digits}g}"
    return text if "e" in text or abs(value) < 1000 else f"{float(text):,}".removesuffix(".0")


def thinned(n: int, limit: int) -> np.ndarray:
    """At most `limit` of the indices 0 .. n - 1, evenly spaced, both ends among them."""
    if n <= limit:
        return np.arange(n)
    return np.unique(np.rint(np.linspace(0, n - 1, limit)).astype(np.int64))
