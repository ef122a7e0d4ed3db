"""Memory or disk, by the budget: what is chosen, what is said, and what is refused before it starts."""

import numpy as np
import pandas as pd
import pytest

import arboost as xgb
from arboost.matrix.iterator import BatchedData
from arboost.matrix.needs import bytes_needed
from arboost.matrix.room import Room
from arboost.matrix.store import PageCache, StoredPages
from arboost.runtime import memory
from arboost.runtime.errors import XGBoostError

SIZE = N_ROWS, N_FEATURES = 500_000, 6
LEAST = bytes_needed(*SIZE, cache=PageCache(memory_budget=0)).total
BINS = bytes_needed(*SIZE).total
ALL = BINS + 4 * N_ROWS * N_FEATURES
PARAMS = {"max_depth": 3, "nthread": 2}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 500, SIZE).astype(np.float32)
    return pd.DataFrame(X, columns=list("abcdef")).assign(y=X[:, 0] + rng.normal(size=N_ROWS))


@pytest.fixture(scope="module")
def parquet(table, tmp_path_factory):
    pytest.importorskip("pyarrow")
    path = tmp_path_factory.mktemp("table") / "t.parquet"
    table.to_parquet(path)
    return path


@pytest.fixture(scope="module")
def wanted(table):
    return xgb.train(PARAMS, xgb.DMatrix(table.drop(columns="y"), table["y"]), 2).save_raw()


class Parts(xgb.DataIter):
    def __init__(self, table):
        super().__init__()
        self.table, self.at = table, 0

    def reset(self):
        self.at = 0

    def next(self, input_data):
        part = self.table[self.at : self.at + 30_000]
        self.at += 30_000
        if len(part):
            input_data(data=part.drop(columns="y"), label=part["y"])
        return len(part) > 0


def place_of(data):
    """Where a trained matrix has its values and its bins."""
    values = "read anew" if isinstance(data.raw, BatchedData) else "memory"
    return values, "disk" if isinstance(data.pages(data._ctx, 256), StoredPages) else "memory"


# ---- choices ----


def test_what_is_needed_grows_with_what_is_kept():
    assert LEAST < BINS < ALL


@pytest.mark.parametrize(
    ("budget", "place", "said"),
    [
        (ALL, ("memory", "memory"), ""),
        (ALL - 1, ("read anew", "memory"), ""),
        (BINS, ("read anew", "memory"), ""),
        (BINS - 1, ("read anew", "disk"), f"memory_budget is {memory.in_words(BINS - 1)}: bins are kept on disk, in "),
        (
            LEAST,
            ("read anew", "disk"),
            f"training on 500,000 rows x 6 features takes {memory.in_words(BINS)} in memory",
        ),
    ],
)
def test_parquet_within_a_budget(parquet, wanted, budget, place, said, capsys):
    data = xgb.DMatrix(parquet, label="y", memory_budget=budget)
    assert xgb.train(PARAMS, data, 2).save_raw() == wanted
    assert place_of(data) == place
    shown = capsys.readouterr().err
    assert said in shown and (bool(said) or not shown)


def test_the_choice_of_memory_is_said_to_who_asks(parquet, capsys):
    with xgb.config_context(verbosity=2):
        xgb.train(PARAMS, xgb.DMatrix(parquet, label="y", memory_budget=BINS), 1)
    assert f"memory_budget is {memory.in_words(BINS)}: bins are kept in memory." in capsys.readouterr().err
    with xgb.config_context(verbosity=2):
        xgb.DMatrix(parquet, label="y", memory_budget=ALL)
    assert f"memory_budget is {memory.in_words(ALL)}: both are kept there." in capsys.readouterr().err
    with xgb.config_context(verbosity=0):
        xgb.train(PARAMS, xgb.DMatrix(parquet, label="y", memory_budget=LEAST), 1)
    assert not capsys.readouterr().err


def test_an_iterator_within_a_budget(table, wanted, tmp_path):
    with xgb.config_context(memory_budget=BINS - 1):
        data = xgb.DMatrix(Parts(table), cache_prefix=None)
        assert xgb.train(PARAMS, data, 2).save_raw() == wanted
    assert place_of(data) == ("read anew", "disk")
    data = xgb.DMatrix(Parts(table), cache_prefix=tmp_path)
    assert xgb.train(PARAMS, data, 2).save_raw() == wanted
    assert place_of(data) == ("read anew", "disk")


def test_arrays_stay_where_they_are(table, wanted, tmp_path):
    X, y = table.drop(columns="y"), table["y"]
    data = xgb.DMatrix(X, y, memory_budget=1000)
    assert xgb.train(PARAMS, data, 2).save_raw() == wanted
    assert place_of(data) == ("memory", "memory")
    data = xgb.DMatrix(X, y, cache_prefix=tmp_path)
    assert xgb.train(PARAMS, data, 2).save_raw() == wanted
    assert place_of(data) == ("memory", "disk")


def test_the_machine_decides_where_nobody_else_does(parquet, monkeypatch):
    monkeypatch.setattr(memory, "limit", 4 * BINS // 3 - 4)
    monkeypatch.setattr(memory, "_LEAST_BUDGET", 0)
    data = xgb.DMatrix(parquet, label="y")
    xgb.train(PARAMS, data, 1)
    assert place_of(data) == ("read anew", "disk")


def test_what_was_chosen_stays(parquet, capsys):
    """Bins are made once, and a second training says nothing."""
    data = xgb.DMatrix(parquet, label="y", memory_budget=BINS - 1)
    xgb.train(PARAMS, data, 1)
    pages = data.pages(data._ctx, 256)
    capsys.readouterr()
    xgb.train(PARAMS, data, 1)
    assert data.pages(data._ctx, 256) is pages
    assert not capsys.readouterr().err


# ---- pages within a budget ----


def test_what_the_budget_leaves_is_for_pages(tmp_path):
    cache = PageCache(str(tmp_path))
    given = Room.of(2**31, cache).pages_within(*SIZE)
    rest = LEAST - bytes_needed(*SIZE, cache=PageCache(memory_budget=0)).bins
    assert given == PageCache(str(tmp_path), 2**31 - rest)
    assert Room.of(None, cache).pages_within(*SIZE) == cache, "asked for disk, not for memory"


@pytest.mark.parametrize("given", [LEAST + 2**20, "4GB", None])
def test_external_memory_within_a_budget(table, wanted, tmp_path, given):
    parts = Parts(table)
    parts.cache_prefix = tmp_path
    data = xgb.ExtMemQuantileDMatrix(parts, memory_budget=given)
    assert xgb.train(PARAMS, data, 2).save_raw() == wanted
    assert (data._bins.disk_bytes == 0) == (given == "4GB")


# ---- refusals ----


def test_what_does_not_fit_is_refused_before_it_is_read(parquet, table):
    words = (
        rf"Training on 500,000 rows x 6 features needs at least {memory.in_words(LEAST)} of memory with its bins on "
        r"disk, 15.3 MiB of it for labels, margins, gradients and row numbers; memory_budget is 9.5 MiB. Raise"
    )
    with pytest.raises(XGBoostError, match=words):
        xgb.DMatrix(parquet, label="y", memory_budget="10MB")
    with pytest.raises(XGBoostError, match=words):
        xgb.ExtMemQuantileDMatrix(Parts(table), memory_budget="10MB")
    with pytest.raises(XGBoostError, match=words):
        xgb.train(PARAMS, xgb.DMatrix(Parts(table), memory_budget="10MB"), 1)
    for data in (parquet, Parts(table), np.ones((3, 3))):
        with pytest.raises(XGBoostError, match="memory_budget is a number of bytes"):
            xgb.DMatrix(data, memory_budget="much")


def test_outputs_count(parquet):
    """What fits for one output does not for fifty."""
    data = xgb.DMatrix(parquet, label="y", memory_budget=LEAST)
    data.set_label(np.arange(N_ROWS) % 50)
    with pytest.raises(XGBoostError, match=r"500,000 rows x 6 features and 50 outputs needs at least"):
        xgb.train({**PARAMS, "objective": "multi:softprob", "num_class": 50}, data, 1)


def test_bins_that_memory_has_no_room_for(parquet, table, monkeypatch):
    monkeypatch.setattr(memory, "limit", 1 << 20)
    words = (
        r"A QuantileDMatrix of 500,000 rows x 6 features needs about 6.7 MiB .*; 1.0 MiB are available. DMatrix and Ext"
    )
    with pytest.raises(XGBoostError, match=words):
        xgb.QuantileDMatrix(parquet, label="y")
    with pytest.raises(XGBoostError, match=words):
        xgb.QuantileDMatrix(Parts(table))
