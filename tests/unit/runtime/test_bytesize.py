"""Numbers of bytes as users write and read them."""

import numpy as np
import pytest

from arboost.runtime.bytesize import in_words, parse_bytes
from arboost.runtime.errors import XGBoostError


@pytest.mark.parametrize(
    ("given", "n_bytes"),
    [
        (7, 7), (2.0, 2), (np.int64(5), 5), ("100", 100), ("3B", 3), ("1.5k", 1536), ("4GB", 4 * 10**9), (0, 0),
        ("4gib", 2**32), ("4G", 2**32), (" 512 MiB ", 2**29), (".5TB", 5 * 10**11), ("2PiB", 2**51),
    ],
)  # fmt: skip
def test_sizes(given, n_bytes):
    assert parse_bytes(given, "size") == n_bytes


@pytest.mark.parametrize(
    "given", ["", "x", "4XB", "GB", "-1", "1e9", -1, True, None, [1], float("nan"), 2**63, "9e9 GB"]
)
def test_what_is_no_size(given):
    with pytest.raises(XGBoostError, match="size is a number of bytes, or a text such as"):
        parse_bytes(given, "size")


def test_in_words():
    assert [in_words(n) for n in (1 << 20, 3 << 29, 700_000)] == ["1.0 MiB", "1.5 GiB", "0.7 MiB"]
