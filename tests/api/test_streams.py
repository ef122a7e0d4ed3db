"""Predictions of data that comes batch by batch are those of the data in memory, to the bit; as an array or a file."""

import itertools
import os

import numpy as np
import pandas as pd
import pytest

import arboost as xgb
from arboost.matrix import parquet
from boosting_cases import N_CLASSES, make_features, make_label

ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

N_ROWS = 300
NAMES = list("abcdef")


def make_frame(seed=0):
    X = make_features(N_ROWS, missing=0.1, seed=seed)
    table = pd.DataFrame(X, columns=NAMES)
    table["f"] = pd.Categorical(np.array(["low", "mid", "high"], object)[np.nan_to_num(X[:, 5]).astype(int)])
    table.loc[np.isnan(X[:, 5]), "f"] = None
    return table


FRAME = make_frame()
LABEL = make_label("multi:softprob", make_features(N_ROWS, missing=0.1))


class Batches(xgb.DataIter):
    def __init__(self, batches):
        super().__init__()
        self.batches, self.at = batches, 0

    def reset(self):
        self.at = 0

    def next(self, input_data):
        if self.at == len(self.batches):
            return False
        input_data(**self.batches[self.at])
        self.at += 1
        return True


@pytest.fixture(scope="module")
def booster():
    params = {"objective": "multi:softprob", "num_class": N_CLASSES, "max_depth": 3, "nthread": 1}
    return xgb.train(params, xgb.DMatrix(FRAME, LABEL, enable_categorical=True), 4)


@pytest.fixture
def source(tmp_path, monkeypatch):
    """More columns than the model knows, in another order; categories in another order; many batches."""
    monkeypatch.setattr(parquet, "VALUES_AT_A_TIME", 200)
    (tmp_path / "data").mkdir()
    table = make_frame(1)
    table["f"] = table["f"].cat.reorder_categories(["mid", "high", "low"])
    table = table.assign(id=np.arange(N_ROWS), text="x")[["id", *NAMES[::-1], "text"]]
    table[:120].to_parquet(tmp_path / "data" / "0.parquet", row_group_size=50)
    table[120:].to_parquet(tmp_path / "data" / "1.parquet")
    return tmp_path / "data"


def forms(folder):
    """The same rows as every kind of stream."""
    table = pd.concat([pd.read_parquet(folder / f"{k}.parquet") for k in (0, 1)])[NAMES]
    cuts = [0, 70, 71, 200, N_ROWS]
    return {
        "folder": folder,
        "path in text": str(folder),
        "dataset": ds.dataset(folder),
        "iterator": Batches([{"data": table[a:b]} for a, b in itertools.pairwise(cuts)]),
    }


KINDS = {
    "value": {},
    "margin": {"output_margin": True},
    "leaf": {"pred_leaf": True},
    "contributions": {"pred_contribs": True},
    "interactions": {"pred_interactions": True},
    "strict": {"strict_shape": True, "iteration_range": (1, 3)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_streams_are_predicted_as_in_memory(booster, source, kind):
    whole = xgb.DMatrix(make_frame(1), enable_categorical=True)
    wanted = booster.predict(whole, **KINDS[kind])
    for name, data in forms(source).items():
        found = booster.predict(data, **KINDS[kind])
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted, err_msg=name)


def test_one_output_is_a_vector(source):
    model = xgb.train({"nthread": 1}, xgb.DMatrix(FRAME, LABEL, enable_categorical=True), 2)
    whole = xgb.DMatrix(make_frame(1), enable_categorical=True)
    np.testing.assert_array_equal(model.predict(source), model.predict(whole))
    np.testing.assert_array_equal(model.inplace_predict(source), model.predict(whole))


@pytest.mark.parametrize("predict_type", ["value", "margin"])
def test_inplace_predict(booster, source, predict_type):
    wanted = booster.inplace_predict(make_frame(1), predict_type=predict_type)
    for name, data in forms(source).items():
        found = booster.inplace_predict(data, predict_type=predict_type)
        np.testing.assert_array_equal(found, wanted, err_msg=name)


def test_margins_to_start_from(booster, source):
    base = np.random.default_rng(0).normal(size=(N_ROWS, N_CLASSES)).astype(np.float32)
    frame = make_frame(1)
    wanted = booster.inplace_predict(frame, base_margin=base)
    np.testing.assert_array_equal(booster.inplace_predict(source, base_margin=base), wanted)
    parts = Batches([{"data": frame[a:b], "base_margin": base[a:b]} for a, b in ((0, 90), (90, N_ROWS))])
    np.testing.assert_array_equal(booster.inplace_predict(parts), wanted)
    np.testing.assert_array_equal(booster.predict(parts), wanted)
    with pytest.raises(xgb.core.XGBoostError, match="base_margin has 301 values for 300 rows"):
        booster.inplace_predict(source, base_margin=np.vstack([base, base[:1]]))


def test_a_model_without_names_takes_the_columns_as_they_come(tmp_path):
    X = make_features(N_ROWS)
    model = xgb.train({"nthread": 1}, xgb.DMatrix(X, LABEL), 2)
    table = pd.DataFrame(X, columns=NAMES, index=np.arange(N_ROWS)[::-1])
    table.to_parquet(tmp_path / "x.parquet")
    np.testing.assert_array_equal(model.predict(tmp_path / "x.parquet"), model.predict(xgb.DMatrix(X)))


def test_estimators(source):
    model = xgb.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1, enable_categorical=True).fit(
        FRAME, LABEL.astype(int)
    )
    frame = make_frame(1)
    np.testing.assert_array_equal(model.predict(source), model.predict(frame))
    np.testing.assert_array_equal(model.predict_proba(str(source)), model.predict_proba(frame))
    regressor = xgb.XGBRegressor(n_estimators=3, n_jobs=1, enable_categorical=True).fit(FRAME, LABEL)
    np.testing.assert_array_equal(regressor.predict(ds.dataset(source)), regressor.predict(frame))


# ---- to a file ----


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("value", [f"prediction_{k}" for k in range(N_CLASSES)]),
        ("margin", [f"margin_{k}" for k in range(N_CLASSES)]),
        ("leaf", [f"leaf_{k}" for k in range(4 * N_CLASSES)]),
        ("contributions", [f"{name}|{k}" for k in range(N_CLASSES) for name in [*NAMES, "(bias)"]]),
    ],
)
def test_predictions_in_a_file(booster, source, tmp_path, kind, names):
    out = tmp_path / "out.parquet"
    wanted = booster.predict(source, **KINDS[kind])
    assert booster.predict(source, output=out, **KINDS[kind]) == str(out)
    written = pq.read_table(out)
    assert written.column_names == names
    np.testing.assert_array_equal(written.to_pandas().to_numpy(), wanted.reshape(N_ROWS, -1))


def test_a_matrix_to_a_file(tmp_path):
    model = xgb.train({"nthread": 1}, xgb.DMatrix(FRAME, LABEL, enable_categorical=True), 2)
    whole = xgb.DMatrix(FRAME, enable_categorical=True)
    model.predict(whole, output=tmp_path / "out.parquet")
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.column_names == ["prediction"]
    np.testing.assert_array_equal(written.column(0).to_numpy(), model.predict(whole))


def test_no_rows(booster, source, tmp_path):
    pd.read_parquet(source / "0.parquet")[:0].to_parquet(tmp_path / "none.parquet")
    assert booster.predict(tmp_path / "none.parquet").shape == (0, N_CLASSES)
    booster.predict(tmp_path / "none.parquet", output=tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 0


def test_errors(booster, source, tmp_path):
    with pytest.raises(xgb.core.XGBoostError, match=r"lacks 2 columns that the model needs: b, d. Its columns are: id"):
        pd.read_parquet(source / "0.parquet").drop(columns=["b", "d"]).to_parquet(tmp_path / "few.parquet")
        booster.predict(tmp_path / "few.parquet")
    with pytest.raises(xgb.core.XGBoostError, match="at least 1 batch"):
        booster.predict(Batches([]))
    with pytest.raises(xgb.core.XGBoostError, match="is a csv file; predictions are streamed from Parquet"):
        FRAME.to_csv(tmp_path / "x.csv")
        booster.predict(tmp_path / "x.csv")
    with pytest.raises(xgb.core.XGBoostError, match="there is no folder"):
        booster.predict(source, output=tmp_path / "nowhere" / "out.parquet")
    with pytest.raises(xgb.core.XGBoostError, match="would lie among the data"):
        booster.predict(source, output=source / "out.parquet")
    (tmp_path / "link").symlink_to(source / "0.parquet")
    with pytest.raises(xgb.core.XGBoostError, match="would lie among the data"):
        booster.predict(source / "0.parquet", output=tmp_path / "link")
    with pytest.raises(xgb.core.XGBoostError, match="is a folder"):
        booster.predict(source, output=tmp_path)
    with pytest.raises(TypeError, match="`output` is the path of a Parquet file"):
        booster.predict(source, output=3)
    with pytest.raises(ValueError, match="Interactions of features are no columns"):
        booster.predict(source, output=tmp_path / "out.parquet", pred_interactions=True)
    assert sorted(os.listdir(tmp_path)) == ["data", "few.parquet", "link", "x.csv"]


def test_an_error_in_the_middle_leaves_nothing(booster, source, tmp_path):
    table = pd.read_parquet(source / "1.parquet")
    table.assign(a=np.where(np.arange(len(table)) == 170, np.inf, 1.0)).to_parquet(source / "1.parquet")
    with pytest.raises(xgb.core.XGBoostError, match="contains `inf`"):
        booster.predict(source, output=tmp_path / "out.parquet")
    assert os.listdir(tmp_path) == ["data"]
