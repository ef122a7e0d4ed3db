"""Numbers of bytes as users write and read them."""

import re
from typing import Any

from arboost.runtime.errors import XGBoostError

_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgtp]?)(i?b|)\s*", re.IGNORECASE)
_PREFIXES = " kmgtp"


class ByteSize(int):
    """The type of a parameter that is a number of bytes."""


def parse_bytes(value: Any, name: str) -> int:
    """A number of bytes from a number or a text such as "4GB" (powers of 1000), "4GiB" or "4G" (of 1024)."""
    if isinstance(value, str) and (found := _SIZE.fullmatch(value)):
        number, prefix, unit = found.groups()
        base = 1000 if unit.lower() == "b" else 1024
        value = float(number) * base ** _PREFIXES.index(prefix.lower() or " ")
    try:
        if isinstance(value, str | bool) or not 0 <= value < 2**63:
            raise ValueError
        return int(value)
    except (TypeError, ValueError):
        raise XGBoostError(
            f'{name} is a number of bytes, or a text such as "4GB" or "512MiB", got {value!r}.'
        ) from None


def in_words(n_bytes: int) -> str:
    """For messages."""
    return f"{n_bytes / 2**30:.1f} GiB" if n_bytes >= 2**29 else f"{n_bytes / 2**20:.1f} MiB"
