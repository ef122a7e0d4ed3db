"""A table gives one model, byte for byte: as pandas reads it, and streamed from one file, many row groups, a folder.

Streamed rows lie in memory, in bins, or on pages on disk; the last test does this for every kind of tree there is.
"""

import hashlib

import numpy as np
import pandas as pd
import pytest

import arboost as xgb
import page_kinds
from arboost.matrix import parquet
from arboost.matrix.store import PageCache
from boosting_cases import N_CLASSES, make_features, make_label

ds = pytest.importorskip("pyarrow.dataset")

N_ROWS = 700
FEATURES = list("abcdef")
TREE = {"max_depth": 4, "max_bin": 32, "subsample": 0.9, "seed": 3}

# Kind of model -> parameters, and the columns that are no features.
KINDS = {
    "regression": ({"objective": "reg:squarederror"}, {"label": "y"}),
    "weights": ({"objective": "reg:absoluteerror"}, {"label": "y", "weight": "w"}),
    "classes": ({"objective": "multi:softprob", "num_class": N_CLASSES}, {"label": "k", "base_margin": list("mnop")}),
    "ranking": ({"objective": "rank:ndcg"}, {"label": "k", "qid": "q"}),
    "survival": ({"objective": "survival:aft"}, {"label_lower_bound": "low", "label_upper_bound": "high"}),
    "targets": ({"objective": "reg:squarederror"}, {"label": ["y", "w"]}),
    "dart": ({"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.5}, {"label": "is"}),
}


def make_table(kind):
    """Features of every type, and the columns that this kind of model names."""
    X = make_features(N_ROWS, missing=0.1)
    rng = np.random.default_rng(5)
    table = pd.DataFrame(X, columns=FEATURES)
    table["b"] = pd.array(np.where(np.isnan(X[:, 1]), pd.NA, np.nan_to_num(X[:, 1]).astype(int)), "Int16")
    table["d"] = np.nan_to_num(X[:, 3]).astype(np.int8)
    table["e"] = table["e"] > 20
    names = np.array(["low", "mid", "high"], object)[np.nan_to_num(X[:, 5]).astype(int)]
    table["f"] = pd.Categorical(np.where(np.isnan(X[:, 5]), None, names), categories=["mid", "low", "high", "never"])
    label = make_label("reg:squarederror", X)
    roles = {
        "y": label, "w": rng.random(N_ROWS), "k": make_label("multi:softprob", X).astype(int), "is": label > 1.5,
        "q": np.sort(rng.integers(0, 40, N_ROWS)), "low": np.exp(label), "high": np.exp(label + rng.random(N_ROWS)),
        **{name: rng.normal(size=N_ROWS) for name in "mnop"},
    }  # fmt: skip
    return pd.concat([pd.DataFrame({name: roles[name] for name in names_of(kind)}), table], axis=1)


def names_of(kind):
    return [name for given in KINDS[kind][1].values() for name in ([given] if isinstance(given, str) else given)]


@pytest.fixture(scope="module", params=KINDS)
def table(request, tmp_path_factory):
    """(kind, the table as one file, as many row groups, as a folder, as a dataset)."""
    place, rows = tmp_path_factory.mktemp("table"), make_table(request.param)
    rows.to_parquet(place / "one.parquet")
    rows.to_parquet(place / "groups.parquet", row_group_size=37)
    folder = place / "folder"
    folder.mkdir()
    for k, (first, stop) in enumerate([(0, 210), (210, 211), (211, 650), (650, N_ROWS)]):
        rows[first:stop].reset_index(drop=True).to_parquet(folder / f"{k}.parquet", row_group_size=100)
    forms = {
        "one file": place / "one.parquet", "row groups": str(place / "groups.parquet"), "folder": folder,
        "dataset": ds.dataset(folder),
    }  # fmt: skip
    return request.param, forms


def model_of(kind, data, n_threads=2):
    booster = xgb.train({**TREE, **KINDS[kind][0], "nthread": n_threads}, data, 4)
    return hashlib.sha256(booster.save_raw()).hexdigest()


def on_pages(source, given, folder):
    """The table read anew, its bins on seven pages on disk."""
    data = xgb.DMatrix(source, **given, cache_prefix=folder)
    data.keep_on_disk(PageCache(folder, page_bytes=128 * (8 + len(FEATURES))))
    assert len(data.pages(data._ctx, 32)) == -(-N_ROWS // 128)
    return data


def test_a_stream_gives_the_model_of_the_frame(table, monkeypatch, tmp_path):
    kind, forms = table
    frame = pd.read_parquet(forms["one file"])
    given = {field: frame[name] for field, name in KINDS[kind][1].items()}
    wanted = model_of(kind, xgb.DMatrix(frame[FEATURES], enable_categorical=True, **given))
    for values_at_a_time in (600, 1 << 19):
        monkeypatch.setattr(parquet, "VALUES_AT_A_TIME", values_at_a_time)
        for form, source in forms.items():
            assert model_of(kind, xgb.DMatrix(source, **KINDS[kind][1])) == wanted, form
            assert model_of(kind, xgb.QuantileDMatrix(source, max_bin=32, **KINDS[kind][1]), 1) == wanted, form
            assert model_of(kind, on_pages(source, KINDS[kind][1], tmp_path), 3) == wanted, form


def as_columns(fields):
    """(columns of a table, their names by field) of what belongs to rows."""
    columns, names = {}, {}
    for field, values in fields.items():
        values = np.asarray(values)
        own = [field] if values.ndim == 1 else [f"{field} {k}" for k in range(values.shape[1])]
        columns |= dict(zip(own, values.reshape(len(values), -1).T, strict=True))
        names[field] = own[0] if values.ndim == 1 else own
    return columns, names


@pytest.mark.parametrize("kind", page_kinds.KINDS)
def test_every_kind_of_tree(kind, tmp_path):
    params, given = page_kinds.KINDS[kind]
    fields = {} if "label_lower_bound" in given else {"label": page_kinds.Y}
    fields |= {name: values for name, values in given.items() if isinstance(values, np.ndarray)}
    options = {name: value for name, value in given.items() if not isinstance(value, np.ndarray)}
    columns, names = as_columns(fields)
    X = pd.DataFrame(page_kinds.X, columns=FEATURES[:5])
    X.assign(**columns).to_parquet(tmp_path / "t.parquet", row_group_size=700)
    params = {**page_kinds.COMMON, **params, "nthread": 2}
    data = xgb.DMatrix(tmp_path / "t.parquet", **names, **options, cache_prefix=tmp_path)
    data.keep_on_disk(PageCache(tmp_path, page_bytes=448 * (13 if params.get("max_bin", 256) <= 256 else 26)))
    models = [xgb.train(params, each, 3).save_raw() for each in (xgb.DMatrix(X, **fields, **options), data)]
    assert models[0] == models[1]
    assert len(data.pages(data._ctx, params.get("max_bin", 256))) == 7
