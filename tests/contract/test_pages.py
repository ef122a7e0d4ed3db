"""The same bytes whether the rows lie on one page, two or seven, for every kind of tree that is grown on pages."""

import numpy as np
import pytest

import arboost
import pages
from arboost.matrix.page import BinnedPage

N_ROWS = 3000
COMMON = {"max_depth": 5, "seed": 5}


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 5)).astype(np.float32)
    X[:, 1] = rng.integers(0, 40, N_ROWS)
    X[:, 2] = rng.integers(0, 3, N_ROWS)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + np.sin(np.nan_to_num(X[:, 1])) * np.nan_to_num(X[:, 2])
    return X, (y + 0.1 * rng.normal(size=N_ROWS)).astype(np.float32)


X, Y = table()
TYPES = ["q", "c", "c", "q", "q"]

KINDS = {
    "regression": ({}, {}),
    "binary": ({"objective": "binary:logistic"}, {"label": (Y > 0).astype(int)}),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, {"label": np.digitize(Y, [-1, 1])}),
    "lossguide": ({"grow_policy": "lossguide", "max_leaves": 25, "max_depth": 0}, {}),
    "deep": ({"max_depth": 0, "min_child_weight": 0}, {}),
    "symmetric": ({"grow_policy": "symmetric", "subsample": 0.7, "colsample_bynode": 0.8}, {}),
    "symmetric sets": (
        {"grow_policy": "symmetric", "max_cat_to_onehot": 1, "monotone_constraints": (1, 0, 0, 0, -1)},
        {"feature_types": TYPES, "enable_categorical": True},
    ),
    "rows in leaves": ({"min_data_in_leaf": 30, "objective": "reg:pseudohubererror"}, {}),
    "drawn candidates": ({"extra_trees": True, "subsample": 0.7}, {}),
    "smoothed": ({"path_smooth": 20, "objective": "binary:logistic"}, {"label": (Y > 0).astype(int)}),
    "goss": ({"sampling_method": "goss", "top_rate": 0.1, "other_rate": 0.2}, {}),
    "many bins": ({"max_bin": 900}, {}),
    "subsample": ({"subsample": 0.4}, {}),
    "gradient sample": ({"subsample": 0.4, "sampling_method": "gradient_based"}, {}),
    "columns": ({"colsample_bytree": 0.8, "colsample_bynode": 0.6}, {}),
    "monotone": ({"monotone_constraints": (1, 0, -1, 0, 0)}, {}),
    "interactions": ({"interaction_constraints": [[0, 1], [2, 3]]}, {}),
    "categories": ({}, {"feature_types": TYPES, "enable_categorical": True}),
    "sets": ({"max_cat_to_onehot": 1, "subsample": 0.7}, {"feature_types": TYPES, "enable_categorical": True}),
    "absolute error": ({"objective": "reg:absoluteerror"}, {}),
    "quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}, {}),
    "vectors": ({"multi_strategy": "multi_output_tree"}, {"label": np.stack([Y, -Y, Y**2], axis=1)}),
    "weights": ({}, {"weight": np.linspace(0, 2, N_ROWS)}),
    "dart": ({"booster": "dart", "rate_drop": 0.4}, {}),
    "forest": ({"num_parallel_tree": 2, "subsample": 0.5}, {}),
    "ranking": ({"objective": "rank:ndcg"}, {"label": np.digitize(Y, [-1, 0, 1]), "qid": np.arange(N_ROWS) // 20}),
    "survival": ({"objective": "survival:aft"}, {"label_lower_bound": np.exp(Y), "label_upper_bound": np.exp(Y) + 1}),
}


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
