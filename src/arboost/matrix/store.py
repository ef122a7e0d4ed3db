"""The bins of a matrix on pages that lie on disk, or in memory as far as they are allowed to, read ahead of their use.

    | page 0 | page 1 | page 2 | page 3 | ...
      in use   being read ahead

Pages go to the folders in turn. Of a page that is read, only what will be looked at comes from disk: its words, and the
columns that are asked for. Whatever is read is checked: a page is what was written, or an error.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

import numpy as np

from arboost.kernels.ops import paging
from arboost.matrix.adapt import DenseData, RawData, take_rows
from arboost.matrix.codec import Codec, find_codec
from arboost.matrix.cuts import Cuts
from arboost.matrix.page import BinnedPage, PageBinner
from arboost.matrix.page_files import PIECE, PageFile, checksums_of, places_of
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import available_bytes

PAGE_BYTES = (
    1 << 24
)  # of a page: it stays in cache from reading to use, and is large beside what a change of pages costs
MIN_PAGE_BYTES = 1 << 20
N_AHEAD = 2  # pages that are read while one is in use
_RUN_BYTES = 1 << 20  # read at a time: the checksum is taken while they are in cache
_GATHER_GRAIN = 1 << 14
_ROW_ALIGN = 64  # rows of a page are a multiple of it


@dataclass(frozen=True)
class PageCache:
    """Where the pages of a matrix lie, and how much memory they may take.

    Parameters
    ----------
    cache_prefix
        What the names of page files begin with, path and all; a folder; or a list of these, which share the pages.
        None: the folder for temporary files.
    memory_budget
        Bytes of pages in memory: those being read; of what is left, one half for pages that never go to disk, the other
        for rows that are sampled for a tree. None: all go to disk, and a sample may take a quarter of the free memory.
    page_bytes
        Of a page, at least. None: PAGE_BYTES, or less where the budget is small.
    compress
        Whether what shrinks by much is written compressed, if the package lz4 is installed.
    """

    cache_prefix: Any = None
    memory_budget: int | None = None
    page_bytes: int | None = None
    compress: bool = True

    def rows_of_page(self, row_bytes: int) -> int:
        """Rows that a page has, of so many bytes each; its columns begin at whole words."""
        n_bytes = self.page_bytes or PAGE_BYTES
        if not self.page_bytes and self.memory_budget is not None:
            n_bytes = max(MIN_PAGE_BYTES, min(n_bytes, self.memory_budget // 8))
        return -(-n_bytes // max(1, row_bytes * _ROW_ALIGN)) * _ROW_ALIGN

    def held_bytes(self, page_bytes: int) -> int:
        """Bytes of pages that may stay in memory, beside those that are read ahead."""
        return 0 if self.memory_budget is None else max(0, self.memory_budget - (N_AHEAD + 1) * page_bytes) // 2

    def sample_bytes(self, page_bytes: int) -> int:
        """Bytes that the rows of a sample may take in memory."""
        if self.memory_budget is not None:
            return self.held_bytes(page_bytes)
        return (available_bytes() or 0) // 4


class _Stored(NamedTuple):
    """A page on disk."""

    n_rows: int
    file: PageFile
    words: np.ndarray  # PIECE records: some rows each
    columns: np.ndarray  # PIECE records: one column each


class _Reading(NamedTuple):
    """A page that is being read."""

    room: "_Room"  # the memory it is read into
    page: "Future[BinnedPage]"


class _Room:
    """Memory for a page, used again and again."""

    def __init__(self, head: BinnedPage, page_rows: int):
        self._head = head
        self._words = np.zeros(page_rows * head.n_words, np.uint64)  # bytes that pad a row stay 0
        self._columns = np.empty(page_rows * head.n_columns, head.bin_dtype)

    def page(self, n_rows: int, first_row: int) -> BinnedPage:
        """A page of n_rows in this memory."""
        n_words, n_columns = self._head.n_words, self._head.n_columns
        words = self._words[: n_rows * n_words].reshape(n_rows, n_words)
        columns = self._columns[: n_rows * n_columns].reshape(n_columns, n_rows)
        return replace(self._head, words=words, columns=columns, first_row=first_row)


class StoredPages(Sequence[BinnedPage]):
    """Pages of bins, read when they are asked for; made by `store_pages`.

    Parameters
    ----------
    head
        A page without rows that is like all others in everything else.
    page_rows
        Rows of every page but the last.
    cache
        Where they lie.
    """

    def __init__(self, head: BinnedPage, page_rows: int, cache: PageCache):
        self.head, self.page_rows = head, page_rows
        self.n_rows = 0
        self._files = [PageFile(place) for place in places_of(cache.cache_prefix)]
        self._codec = find_codec() if cache.compress else None
        self._pages: list[_Stored | BinnedPage] = []
        self._n_stored = 0
        self._cache, self._page_bytes = cache, page_rows * row_bytes(head)
        self._held_bytes = cache.held_bytes(self._page_bytes)
        self._rooms: deque[_Room] = deque(maxlen=N_AHEAD + 1)  # that nobody uses now
        self._threads: tuple[int, ThreadPoolExecutor] | None = None  # of this process

    # ---- what bins in memory have, too ----

    @property
    def cuts(self) -> Cuts:
        return self.head.cuts

    @property
    def n_features(self) -> int:
        return self.head.n_features

    def chunks(self, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """(first_row, float32 values): see `BinnedPage.chunks`."""
        for page in self.visit(columns=()):
            for first, values in page.chunks(rows):
                yield page.first_row + first, values

    def take(self, rows: np.ndarray) -> DenseData:
        """The given rows as data of their own, with the values of `chunks`."""
        return DenseData(take_rows(self.chunks(), rows, self.n_features))

    # ---- pages ----

    @property
    def disk_bytes(self) -> int:
        """Bytes on disk."""
        stored = [page for page in self._pages if isinstance(page, _Stored)]
        return sum(int(page.words["stored"].sum() + page.columns["stored"].sum()) for page in stored)

    def __len__(self) -> int:
        return len(self._pages)

    @overload
    def __getitem__(self, index: int) -> BinnedPage: ...
    @overload
    def __getitem__(self, index: slice) -> list[BinnedPage]: ...
    def __getitem__(self, index: int | slice) -> BinnedPage | list[BinnedPage]:
        """A page for good, in memory of its own unless it is in memory anyway."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        self._check_open()
        number = range(len(self))[index]
        kept = self._pages[number]
        if isinstance(kept, BinnedPage):
            return kept
        return self._read(number, _Room(self.head, kept.n_rows), range(self.head.n_columns), True)

    def __iter__(self) -> Iterator[BinnedPage]:
        return self.visit()

    def visit(self, columns: Iterable[int] | None = None, words: bool = True) -> Iterator[BinnedPage]:
        """All pages in order, each of them good until the next one is asked for.

        Parameters
        ----------
        columns
            The columns that will be looked at, ascending; None: all. Others hold anything.
        words
            Whether the words will be.
        """
        self._check_open()
        wanted = range(self.head.n_columns) if columns is None else list(columns)
        numbers, ahead = iter(range(len(self))), deque[_Reading | BinnedPage]()
        try:
            for _ in range(len(self)):
                while len(ahead) <= N_AHEAD and (number := next(numbers, None)) is not None:
                    ahead.append(self._begin(number, wanted, words))
                first = ahead[0]
                yield first if isinstance(first, BinnedPage) else first.page.result()
                self._give_back(ahead.popleft())
        finally:
            for reading in ahead:
                self._give_back(reading)

    def can_gather(self, n_rows: int, more_bytes: int) -> bool:
        """Whether so many rows, with `more_bytes` each beside their bins, may be in memory together."""
        return n_rows * (row_bytes(self.head) + more_bytes) <= self._cache.sample_bytes(self._page_bytes)

    def gather(self, ctx: Context, rows: np.ndarray) -> BinnedPage:
        """The given rows, ascending, on one page in memory."""
        words = np.empty((len(rows), self.head.n_words), np.uint64)
        for page in self.visit(columns=()):
            a, b = np.searchsorted(rows, [page.first_row, page.first_row + page.n_rows])
            args = (page.words, rows[a:b], page.first_row, words[a:b])
            ctx.run_ranges(b - a, _GATHER_GRAIN, paging.gather_rows, *args)
        columns = np.empty((self.head.n_columns, len(rows)), self.head.bin_dtype)
        ctx.run_ranges(len(rows), _GATHER_GRAIN, paging.copy_to_columns, words.view(columns.dtype), columns)
        return replace(self.head, words=words, columns=columns)

    def append(self, page: BinnedPage) -> None:
        """Take one more page; its memory may be used for others afterwards."""
        if page.nbytes <= self._held_bytes:
            self._held_bytes -= page.nbytes
            words, columns = page.words.copy(), page.columns.copy()
            self._pages.append(replace(page, words=words, columns=columns, first_row=self.n_rows))
        else:
            file = self._files[self._n_stored % len(self._files)]
            self._pages.append(_store(file, page, self._codec))
            self._n_stored += 1
        self.n_rows += page.n_rows

    def close(self) -> None:
        """Give disk and memory back; nothing can be read any more."""
        for file in self._files:
            file.close()
        self._pages, self._threads = [], None
        self._rooms.clear()

    def _check_open(self) -> None:
        if not all(file.is_open for file in self._files):
            raise XGBoostError("The pages of this matrix are gone: it was closed.")

    def _begin(self, number: int, columns: Sequence[int], words: bool) -> _Reading | BinnedPage:
        """Have a page read by another thread, if it is not in memory."""
        kept = self._pages[number]
        if isinstance(kept, BinnedPage):
            return kept
        try:
            room = self._rooms.pop()
        except IndexError:  # all are in use
            room = _Room(self.head, self.page_rows)
        return _Reading(room, self._readers().submit(self._read, number, room, columns, words))

    def _give_back(self, reading: _Reading | BinnedPage) -> None:
        """Keep the room for the next page, once nobody reads into it."""
        if isinstance(reading, _Reading):
            if not reading.page.cancel():
                wait([reading.page])
            self._rooms.append(reading.room)

    def _readers(self) -> ThreadPoolExecutor:
        """The threads that read; a forked child has its own."""
        kept = self._threads
        if kept is None or kept[0] != os.getpid():
            kept = self._threads = (os.getpid(), ThreadPoolExecutor(N_AHEAD, "arboost-pages"))
        return kept[1]

    def _read(self, number: int, room: _Room, columns: Sequence[int], words: bool) -> BinnedPage:
        """Read what is wanted of a page."""
        stored = self._pages[number]
        assert isinstance(stored, _Stored)
        page = room.page(stored.n_rows, number * self.page_rows)
        if words:
            data, at = _bytes_of(page.words), 0
            for i, size in enumerate(stored.words["size"].tolist()):
                self._read_pieces(stored.file, stored.words[i : i + 1], data[at : at + size])
                at += size
        data, width = _bytes_of(page.columns), stored.n_rows * page.bin_dtype.itemsize
        for first, last in _runs(columns, max(1, _RUN_BYTES // max(1, width))):
            self._read_pieces(stored.file, stored.columns[first:last], data[first * width : last * width])
        return page

    def _read_pieces(self, file: PageFile, pieces: np.ndarray, out: np.ndarray) -> None:
        """Read pieces that lie one after the other, on disk and in `out`."""
        n_stored = int(pieces["stored"].sum())
        data = out if n_stored == len(out) else np.empty(n_stored, np.uint8)
        file.read(int(pieces["offset"][0]), data)
        file.check(pieces, data)
        if data is not out:
            assert self._codec is not None
            at = start = 0
            for stored, size in zip(pieces["stored"].tolist(), pieces["size"].tolist(), strict=True):
                piece = data[at : at + stored]
                out[start : start + size] = piece if stored == size else self._codec.decompress(piece, size)
                at, start = at + stored, start + size


def store_pages(ctx: Context, raw: RawData, cuts: Cuts, cache: PageCache) -> StoredPages:
    """Bins of all rows of `raw`, read once, on pages.

    Parameters
    ----------
    ctx
        Threads and communicator: all workers have bins of the same type.
    raw
        The data, read chunk by chunk.
    cuts
        Where bins begin and end.
    cache
        Where pages go.
    """
    binner = PageBinner(ctx, raw, cuts)
    page_rows = max(1, min(raw.n_rows, cache.rows_of_page(row_bytes(binner.head))))
    pages = StoredPages(binner.head, page_rows, cache)
    try:
        with ThreadPoolExecutor(1, "arboost-pages") as thread:
            _fill_pages(raw, binner, pages, thread)
    except BaseException:
        pages.close()
        raise
    return pages


def _fill_pages(raw: RawData, binner: PageBinner, pages: StoredPages, thread: ThreadPoolExecutor) -> None:
    """Bin all rows; a page is written by a thread while the next one is filled."""
    rooms = [_Room(pages.head, pages.page_rows) for _ in range(2)]
    writing: Future | None = None
    page, n_filled = rooms[0].page(min(pages.page_rows, raw.n_rows), 0), 0
    for _, values in raw.chunks():
        while len(values):
            n = min(len(values), page.n_rows - n_filled)
            binner.fill(values[:n], page, n_filled)
            values, n_filled = values[n:], n_filled + n
            if n_filled == page.n_rows:
                if writing is not None:
                    writing.result()
                writing = thread.submit(pages.append, page)
                rooms.reverse()
                first_row = page.first_row + page.n_rows
                page, n_filled = rooms[0].page(min(pages.page_rows, raw.n_rows - first_row), first_row), 0
    if writing is not None:
        writing.result()
    else:  # there are no rows
        pages.append(page)


def row_bytes(page: BinnedPage) -> int:
    """Bytes of a row in both layouts."""
    return 8 * page.n_words + page.bin_dtype.itemsize * page.n_columns


# ---- pages of any kind ----


def visit(
    pages: Sequence[BinnedPage], columns: Iterable[int] | None = None, words: bool = True
) -> Iterable[BinnedPage]:
    """The pages in order, with at least the words and columns that are wanted: see `StoredPages.visit`."""
    return pages.visit(columns, words) if isinstance(pages, StoredPages) else pages


def head_of(pages: Sequence[BinnedPage]) -> BinnedPage:
    """A page that stands for all in everything but rows."""
    return pages.head if isinstance(pages, StoredPages) else pages[0]


def count_rows(pages: Sequence[BinnedPage]) -> int:
    """Rows of all pages."""
    return pages.n_rows if isinstance(pages, StoredPages) else sum(page.n_rows for page in pages)


# ---- pieces ----


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def _store(file: PageFile, page: BinnedPage, codec: Codec | None) -> _Stored:
    """Write a page."""
    words, columns = _bytes_of(page.words), _bytes_of(page.columns)
    piece_bytes = 8 * page.n_words * max(1, _RUN_BYTES // (8 * max(1, page.n_words)))
    sizes = [min(piece_bytes, len(words) - at) for at in range(0, len(words), piece_bytes)]
    width = page.n_rows * page.bin_dtype.itemsize
    of_words, of_columns = _write(file, words, sizes, codec), _write(file, columns, [width] * page.n_columns, codec)
    return _Stored(page.n_rows, file, of_words, of_columns)


def _write(file: PageFile, data: np.ndarray, sizes: list[int], codec: Codec | None) -> np.ndarray:
    """Write pieces, which lie one after the other in `data`; their PIECE records."""
    pieces = np.zeros(len(sizes), PIECE)
    pieces["size"] = pieces["stored"] = sizes
    if codec is not None:
        ends = np.cumsum(sizes)
        packed = [codec.compress(data[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
        pieces["stored"] = [len(piece) for piece in packed]
        data = np.concatenate(packed) if packed else data
    pieces["checksum"] = checksums_of(data, pieces["stored"])
    pieces["offset"] = file.append(data) + np.cumsum(pieces["stored"]) - pieces["stored"]
    return pieces


def _runs(columns: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """(first, last + 1) of columns that follow each other, at most so many at a time."""
    first = last = -1
    for c in columns:
        if c != last or c - first >= most:
            if last > first:
                yield first, last
            first = c
        last = c + 1
    if last > first:
        yield first, last
