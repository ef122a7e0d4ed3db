"""The same bytes whether the rows lie on one page, two or seven, for every kind of tree that is grown on pages."""

import pytest

import arboost
import pages
from arboost.matrix.page import BinnedPage
from page_kinds import COMMON, KINDS, X, Y


def train(params, fields, n_threads=2):
    fields = {"label": Y, **fields}
    if "label_lower_bound" in fields:
        del fields["label"]
    matrix = arboost.DMatrix(X, **fields)
    result = {}
    options = {"evals": [(matrix, "train")], "evals_result": result, "verbose_eval": False}
    model = arboost.train({**COMMON, **params, "nthread": n_threads}, matrix, 4, **options)
    return bytes(model.save_raw()), result


@pytest.fixture
def split_into(monkeypatch):
    """Let every matrix lie on several pages: the only thing that changes."""
    seen = []

    def split_into(bounds):
        binned = arboost.DMatrix.binned

        def in_pages(self, ctx, max_bin, enable_bundle=False, keep_sparse=False):
            found = pages.split_page(binned(self, ctx, max_bin, False, False), bounds)
            seen.append(len(found))
            return found

        monkeypatch.setattr(arboost.DMatrix, "pages", in_pages)
        return seen

    return split_into


@pytest.mark.parametrize("kind", KINDS)
def test_one_page_two_and_seven(kind, split_into):
    expected = train(*KINDS[kind])
    for bounds in ([0, 1234], [0, 1, 64, 700, 1500, 2200, 2999]):
        seen = split_into(bounds)
        for n_threads in (1, 3):
            assert train(*KINDS[kind], n_threads) == expected, (bounds, n_threads)
        assert set(seen) == {len(bounds)}
        seen.clear()


def test_a_page_without_rows(split_into):
    expected = train(*KINDS["regression"])
    split_into([0, 0, 900, 900])
    assert train(*KINDS["regression"]) == expected


def test_pages_are_read_once_a_level(split_into, monkeypatch):
    """Splitting the rows of a level and summing the next one are one reading."""
    split_into([0, 1000])
    reads = []

    class Watched(list):
        def __iter__(self):
            reads.append(1)
            return super().__iter__()

    in_pages = arboost.DMatrix.pages
    monkeypatch.setattr(arboost.DMatrix, "pages", lambda *args, **kwargs: Watched(in_pages(*args, **kwargs)))
    arboost.train({"max_depth": 3}, arboost.DMatrix(X, Y), 1)
    growing = len(reads)
    reads.clear()
    arboost.train({"max_depth": 3}, arboost.DMatrix(X, Y), 2)
    assert len(reads) - growing == 4  # the root, and three levels of splits


def test_pages_know_where_they_begin():
    page = arboost.DMatrix(X, Y).binned(pages.Context(), 256)
    assert isinstance(page, BinnedPage)
    assert page.first_row == 0
    assert [p.first_row for p in pages.split_page(page, [0, 7])] == [0, 7]
