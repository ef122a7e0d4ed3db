"""Pages on disk are the pages that were written, whatever is asked of them and however they are packed."""

import numpy as np
import pytest

import pages as by_hand
from arboost.matrix import codec, store
from arboost.matrix.adapt import DenseData
from arboost.matrix.cuts import make_cuts
from arboost.matrix.page import make_binned
from arboost.matrix.page_files import checksums_of
from arboost.matrix.store import PageCache, StoredPages, _runs, count_rows, head_of, store_pages, visit
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

CTX = Context(n_threads=2)


def table(n_rows=1000, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    X[:, 0] = 7  # shrinks to nothing
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def stored(tmp_path, X=None, max_bin=256, **options):
    raw = DenseData(table() if X is None else X)
    cuts = make_cuts(CTX, raw, None, max_bin)
    options = {"page_bytes": 128 * 14, "cache_prefix": tmp_path} | options
    return store_pages(CTX, raw, cuts, PageCache(**options)), make_binned(CTX, raw, cuts)


def joined(found):
    return np.concatenate([page.words.copy() for page in found])


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("max_bin", [16, 256, 999])
def test_what_is_written_is_read(tmp_path, compress, max_bin):
    pages, whole = stored(tmp_path, max_bin=max_bin, compress=compress)
    assert len(pages) == (8 if max_bin <= 256 else 16)
    assert (pages.n_rows, pages.n_features) == (1000, 6)
    at = 0
    for page in pages:
        assert page.first_row == at
        np.testing.assert_array_equal(page.words, whole.words[at : at + page.n_rows])
        np.testing.assert_array_equal(page.columns, whole.columns[:, at : at + page.n_rows])
        at += page.n_rows
    assert at == 1000
    for mine, theirs in zip(pages.chunks(), whole.chunks(pages.page_rows), strict=True):
        assert mine[0] == theirs[0]
        np.testing.assert_array_equal(mine[1], theirs[1])
    rows = np.array([999, 0, 130, 130])
    np.testing.assert_array_equal(pages.take(rows).array, whole.take(rows).array)


def test_checksums_of_pieces_of_any_size_and_place():
    data = np.random.default_rng(1).integers(0, 256, 1000).astype(np.uint8)
    sizes = [0, 8, 64, 13, 1, 800, 7]
    expected = checksums_of(data, sizes)
    shifted = np.concatenate([[0, 0, 0], data]).astype(np.uint8)[3:]
    assert checksums_of(shifted, sizes).tolist() == expected.tolist()
    assert checksums_of(data[8:72], [64]).tolist() == [expected[2]]
    for i in (8, 80, 85, 86, 892):
        changed = data.copy()
        changed[i] ^= 1
        assert (checksums_of(changed, sizes) != expected).sum() == 1


def test_only_what_is_asked_for(tmp_path):
    pages, whole = stored(tmp_path)
    n_rows = pages.page_rows
    for columns in ([], [2], [0, 1, 5], range(6)):
        for page in pages.visit(columns, words=False):
            if page.n_rows == n_rows:
                expected = whole.columns[:, page.first_row : page.first_row + n_rows]
                np.testing.assert_array_equal(page.columns[list(columns)], expected[list(columns)])
    np.testing.assert_array_equal(joined(pages.visit((), True)), whole.words)


def test_a_page_for_good(tmp_path):
    pages, whole = stored(tmp_path)
    first, last = pages[0], pages[-1]
    joined(pages)
    np.testing.assert_array_equal(first.words, whole.words[:128])
    np.testing.assert_array_equal(last.columns, whole.columns[:, -104:])
    assert [page.first_row for page in pages[2:4]] == [256, 384]
    with pytest.raises(IndexError):
        _ = pages[8]


def test_rows_in_memory(tmp_path):
    pages, whole = stored(tmp_path)
    rows = np.array([0, 5, 127, 128, 700, 999], np.int32)
    picked = pages.gather(CTX, rows)
    np.testing.assert_array_equal(picked.words, whole.words[rows])
    np.testing.assert_array_equal(picked.columns, whole.columns[:, rows])


def test_few_pages_are_in_memory_at_a_time(tmp_path):
    pages, _ = stored(tmp_path, page_bytes=64 * 14)
    assert len(pages) == 16
    for _ in range(3):
        memory = {page.words.ctypes.data for page in pages}
        assert len(memory) <= store.N_AHEAD + 1


def test_pages_within_the_budget_stay_in_memory(tmp_path):
    page_bytes = 128 * 14
    budget = 3 * page_bytes + 2 * 5 * page_bytes  # one half of the rest is for samples
    pages, whole = stored(tmp_path, memory_budget=budget, compress=False)
    assert pages.disk_bytes == 14 * 1000 - 5 * page_bytes
    np.testing.assert_array_equal(joined(pages), whole.words)
    assert pages.can_gather(640, 0)
    assert not pages.can_gather(641, 0)


def test_folders_take_turns(tmp_path):
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    pages, whole = stored(tmp_path, cache_prefix=folders)
    assert [page.file.folder.name for page in pages._pages] == list("abcabcab")
    np.testing.assert_array_equal(joined(pages), whole.words)


def test_what_shrinks_is_compressed(tmp_path):
    pytest.importorskip("lz4")
    X = table(20_000)
    plain, _ = stored(tmp_path, X, page_bytes=1 << 20, compress=False)
    packed, whole = stored(tmp_path, X, page_bytes=1 << 20)
    assert plain.disk_bytes == 14 * len(X)
    columns = packed._pages[0].columns
    assert columns["stored"][0] < 0.6 * columns["size"][0]
    assert (columns["stored"] == columns["size"])[1:].all(), "as good as random"
    np.testing.assert_array_equal(packed[0].columns, whole.columns)


def test_without_the_package_nothing_is_compressed(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "lz4", None)
    monkeypatch.setitem(__import__("sys").modules, "lz4.block", None)
    assert codec.find_codec() is None
    pages, whole = stored(tmp_path, np.zeros((500, 3), np.float32))
    assert pages.disk_bytes == 11 * 500
    np.testing.assert_array_equal(joined(pages), whole.words)


def test_no_rows(tmp_path):
    pages, _ = stored(tmp_path, np.zeros((0, 3), np.float32))
    assert [page.n_rows for page in pages] == [0]
    assert list(pages.chunks()) == []


def test_visits_that_end_early_and_visits_side_by_side(tmp_path):
    pages, whole = stored(tmp_path)
    for _ in pages:
        break
    visiting = iter(pages)
    next(visiting)
    visiting.close()
    np.testing.assert_array_equal(joined(pages), whole.words)
    for mine, theirs in zip(pages.visit(), pages.visit(), strict=True):
        assert mine.words is not theirs.words
        np.testing.assert_array_equal(mine.words, theirs.words)


def test_threads_end_with_their_pages(tmp_path):
    pages, _ = stored(tmp_path)
    joined(pages)
    (_, readers) = pages._threads
    threads = list(readers._threads)
    assert threads
    del pages, readers
    for thread in threads:
        thread.join()


def test_closed(tmp_path):
    pages, _ = stored(tmp_path)
    pages.close()
    for read in (lambda: list(pages), lambda: pages[0]):
        with pytest.raises(XGBoostError, match="closed"):
            read()


def test_pages_of_any_kind():
    page = by_hand.make_page(by_hand.make_bins(np.random.default_rng(0), 30, [4, 9]), [4, 9])
    parts = by_hand.split_page(page, [0, 10])
    assert visit(parts) is parts
    assert head_of(parts) is parts[0]
    assert count_rows(parts) == 30


def test_heads(tmp_path):
    pages, whole = stored(tmp_path)
    assert isinstance(pages, StoredPages)
    assert head_of(pages).n_rows == 0
    assert head_of(pages).cuts.digest == whole.cuts.digest
    assert count_rows(pages) == 1000


@pytest.mark.parametrize(
    ("columns", "most", "expected"),
    [
        ([], 3, []),
        ([4], 3, [(4, 5)]),
        ([0, 1, 2, 3, 4], 2, [(0, 2), (2, 4), (4, 5)]),
        ([0, 2, 3, 7, 8, 9], 9, [(0, 1), (2, 4), (7, 10)]),
    ],
)
def test_runs_of_columns(columns, most, expected):
    assert list(_runs(columns, most)) == expected


def test_sizes_of_pages():
    assert PageCache().rows_of_page(64) == store.PAGE_BYTES // 64
    assert PageCache(page_bytes=1).rows_of_page(1000) == 64
    assert PageCache(page_bytes=641).rows_of_page(10) == 128
    assert PageCache(memory_budget=16 << 20).rows_of_page(64) == (2 << 20) // 64
    assert PageCache(memory_budget=0).rows_of_page(64) == store.MIN_PAGE_BYTES // 64
    assert PageCache(memory_budget=100).held_bytes(10) == 35
    assert PageCache(memory_budget=10).held_bytes(10) == 0
    assert PageCache().held_bytes(10) == 0
