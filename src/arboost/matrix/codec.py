"""How pieces of pages are compressed: by LZ4, of the optional package lz4, where that makes them much smaller.

Bins of values without repetition are as good as random and do not shrink. A piece that keeps more than _MAX_SHARE of
its size is written as it is: reading a byte from a fast disk takes less time than decompressing one.
"""

from typing import Any, Protocol

import numpy as np

_MAX_SHARE = 0.6


class Codec(Protocol):
    """What compresses and decompresses arrays of uint8."""

    def compress(self, data: np.ndarray) -> np.ndarray:
        """The bytes in fewer ones; as they are if that does not pay."""

    def decompress(self, stored: np.ndarray, size: int) -> np.ndarray:
        """The `size` bytes that were compressed."""


class _Lz4:
    """LZ4 by blocks; neither way holds the GIL."""

    def __init__(self, block: Any):
        self._block = block

    def compress(self, data: np.ndarray) -> np.ndarray:
        packed = self._block.compress(data, store_size=False)
        return np.frombuffer(packed, np.uint8) if len(packed) <= _MAX_SHARE * len(data) else data

    def decompress(self, stored: np.ndarray, size: int) -> np.ndarray:
        return np.frombuffer(self._block.decompress(stored, uncompressed_size=size), np.uint8)


def find_codec() -> Codec | None:
    """The codec, if its package is installed."""
    try:
        import lz4.block
    except ImportError:
        return None
    return _Lz4(lz4.block)
