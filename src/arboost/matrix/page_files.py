"""Files that hold the pages of a matrix, one in each folder, as long as the process that wrote them needs them.

A file loses its name as soon as it is open, so its room on disk is free again when the process ends, however it ends.
Where a name cannot be taken from an open file (some network folders; on Windows the system deletes it when it is
closed), the file is locked while its process lives: whoever uses the folder next removes files that nobody locks.
What is written are pieces; every piece has a checksum that is looked at whenever it is read.
"""

import contextlib
import os
import secrets
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from arboost.kernels.ops import paging
from arboost.runtime.errors import XGBoostError

SUFFIX = ".arboost-pages"
PIECE = np.dtype([("offset", np.int64), ("stored", np.int64), ("size", np.int64), ("checksum", np.uint64)])
"""Where a piece lies in its file, its bytes there (fewer than `size`: compressed), its bytes, and their checksum."""


class Place(NamedTuple):
    """Where page files go: a folder, and what their names begin with."""

    folder: Path
    stem: str


def places_of(cache_prefix: Any) -> list[Place]:
    """The places that `cache_prefix` names: a prefix of paths, a folder, or a list of these; None: temporary files.

    Raises
    ------
    XGBoostError
        It is no path, or a folder is not there.
    """
    if cache_prefix is None or cache_prefix == "":
        cache_prefix = _temporary_folder()
    given = cache_prefix if isinstance(cache_prefix, (list, tuple)) else [cache_prefix]
    if not given:
        raise XGBoostError("`cache_prefix` is an empty list: name at least one folder for the pages.")
    return [_place_of(prefix) for prefix in given]


def _temporary_folder() -> str:
    """Where large temporary files go: the user's own choice, or /var/tmp, which is on disk; /tmp is often in memory."""
    is_chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return tempfile.gettempdir() if is_chosen or not os.access("/var/tmp", os.W_OK) else "/var/tmp"


def _place_of(prefix: Any) -> Place:
    if not isinstance(prefix, (str, os.PathLike)):
        raise XGBoostError(f"`cache_prefix` must be a path or a list of paths, got {prefix!r}.")
    text = os.fsdecode(prefix)
    path = Path(text)
    place = Place(path, "") if text.endswith(("/", os.sep)) or path.is_dir() else Place(path.parent, path.name)
    if not place.folder.is_dir():
        raise XGBoostError(f"The folder for pages is not there: {place.folder} (`cache_prefix` is {text!r}).")
    return place


class PageFile:
    """A file of pieces: one thread writes, then any number read.

    Parameters
    ----------
    place
        Where it goes. Files that a process left behind there are removed.
    """

    def __init__(self, place: Place):
        self.folder = place.folder
        remove_leftovers(place.folder)
        name = f"{place.stem or 'arboost'}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        path = place.folder / name
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        for option in (
            "O_CLOEXEC",
            "O_BINARY",
            "O_TEMPORARY",
        ):  # the last two are Windows': bytes, and gone when closed
            flags |= getattr(os, option, 0)
        try:
            self._handle = os.open(path, flags, 0o600)
        except OSError as error:
            raise XGBoostError(f"No page file can be made in {self.folder}: {error.strerror}.") from error
        _lock(self._handle)
        self.path: Path | None = None if _take_name(path) else path
        self._end = 0
        self._turn = threading.Lock()  # where a position belongs to the file, not to the call
        self._finalizer = weakref.finalize(self, _close, self._handle, self.path, os.getpid())

    @property
    def is_open(self) -> bool:
        return self._finalizer.alive

    def close(self) -> None:
        """Give the room on disk back; may be called again."""
        self._finalizer()

    def append(self, data: np.ndarray) -> int:
        """Write bytes (uint8) behind all others; returns where."""
        offset, view = self._end, data.data
        try:
            while view.nbytes:
                n = self._write_at(view, self._end)
                view, self._end = view[n:], self._end + n
        except OSError as error:
            raise XGBoostError(
                f"Pages cannot be written to {self.folder}: {error.strerror}, after {self._end / 2**20:.1f} MiB there. "
                "Give `cache_prefix` a folder with more room, or a list of folders."
            ) from error
        return offset

    def read(self, offset: int, out: np.ndarray) -> None:
        """Fill `out` (uint8) with the bytes from `offset` on."""
        view, at = out.data, offset
        try:
            while view.nbytes:
                n = self._read_at(view, at)
                if n == 0:
                    raise XGBoostError(
                        f"A page file in {self.folder} ends at byte {at}, {len(view)} bytes too early: it was cut off "
                        "after it was written. Make the matrix anew."
                    )
                view, at = view[n:], at + n
        except OSError as error:
            raise XGBoostError(f"Pages cannot be read from {self.folder}: {error.strerror}.") from error

    def check(self, pieces: np.ndarray, stored: np.ndarray) -> None:
        """Compare the bytes of consecutive pieces with their checksums."""
        if not np.array_equal(checksums_of(stored, pieces["stored"]), pieces["checksum"]):
            raise XGBoostError(
                f"A page read from {self.folder} is not what was written (its checksum is wrong): the disk or the "
                "memory is faulty, or something else wrote to the file. Make the matrix anew."
            )

    def _write_at(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "pwrite"):
            return os.pwrite(self._handle, view, offset)
        with self._turn:  # Windows
            os.lseek(self._handle, offset, os.SEEK_SET)
            return os.write(self._handle, view)

    def _read_at(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._handle, [view], offset)
        with self._turn:  # Windows
            os.lseek(self._handle, offset, os.SEEK_SET)
            data = os.read(self._handle, len(view))
        view[: len(data)] = data
        return len(data)


def checksums_of(data: np.ndarray, sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Checksums of pieces, uint64, that lie one after the other in `data` (uint8); last words are filled up with 0."""
    sizes = np.asarray(sizes, np.int64)
    n_words, sums = -(-sizes // 8), np.empty(len(sizes), np.uint64)
    if data.ctypes.data % 8 or (sizes % 8).any():
        data = _on_words(data, sizes, n_words)
    paging.checksums(data.view(np.uint64), np.append(0, np.cumsum(n_words)), sums, 0, len(sums))
    return sums


def _on_words(data: np.ndarray, sizes: np.ndarray, n_words: np.ndarray) -> np.ndarray:
    """The pieces, each beginning at a word: few are of such sizes, those of last pages and compressed ones."""
    whole = np.zeros(8 * int(n_words.sum()), np.uint8)
    at = to = 0
    for size, n in zip(sizes.tolist(), n_words.tolist(), strict=True):
        whole[to : to + size] = data[at : at + size]
        at, to = at + size, to + 8 * n
    return whole


def remove_leftovers(folder: Path) -> None:
    """Remove page files whose process is gone; others, and what cannot be looked at, stay."""
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):  # still open (Windows), somebody else's, or just removed
            handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                is_free = _lock(handle)
            finally:
                os.close(handle)
            if is_free:
                path.unlink()


def _lock(handle: int) -> bool:
    """Lock a file as long as it is open; False if somebody else has."""
    try:
        import fcntl
    except ImportError:  # Windows: a file that is open cannot be removed
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _take_name(path: Path) -> bool:
    """Whether the name of an open file could be taken away."""
    try:
        path.unlink()
    except FileNotFoundError:  # whoever looked for leftovers was faster
        return True
    except OSError:
        return False
    return True


def _close(handle: int, path: Path | None, pid: int) -> None:
    """Close a file, and remove it if it has a name; a forked child leaves its parent's alone."""
    with contextlib.suppress(OSError):
        os.close(handle)
    if path is not None and os.getpid() == pid:
        with contextlib.suppress(OSError):
            path.unlink()
