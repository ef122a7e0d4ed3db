"""The promise: the same bytes for any number of threads, any chunking, any form of the same data, and in one go or two.

Threads share work only above some size, so most tests make every share tiny (`fine`): then even 500 rows are cut into
many spans. One test has enough rows to be cut as in earnest.
"""

import importlib
import os
import pickle
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import arboost
from arboost.callback import EarlyStopping, TrainingCallback
from arboost.levels import histogram
from arboost.runtime import pool
from boosting_cases import OBJECTIVES, loss_params, make_features, make_label, n_outputs

X = make_features(500, missing=0.15)
FEW = {"max_depth": 4, "eta": 0.4}
POLICIES = {
    "depthwise": {},
    "lossguide": {"grow_policy": "lossguide", "max_leaves": 13, "max_depth": 0},
    "deep": {"max_depth": 0, "min_child_weight": 0},
    "symmetric": {"grow_policy": "symmetric"},
}
SAMPLING = {
    "rows": {"subsample": 0.6},
    "columns": {"colsample_bytree": 0.7, "colsample_bylevel": 0.8, "colsample_bynode": 0.7},
    "both": {"subsample": 0.5, "colsample_bynode": 0.5, "num_parallel_tree": 3},
}
# Names of the sizes below which work is not shared; they may change how work is cut, never what comes out.
SHARE_SIZES = re.compile(r"(\w*_)?GRAIN(_\w+)?|TEAM_\w+|_SMALL_WORK")


def set_everywhere(monkeypatch, pattern, value):
    """Replace the module constants whose names match; kernels are compiled with theirs, so they stay."""
    importlib.import_module("arboost.training")  # modules come on first use: all of them must be there to be changed
    found = 0
    for name, module in list(sys.modules.items()):
        if name.startswith("arboost.") and (not name.startswith("arboost.kernels") or name.endswith(".sums")):
            for constant in [key for key in vars(module) if pattern.fullmatch(key)]:
                monkeypatch.setattr(module, constant, value)
                found += 1
    assert found


def share_everything(monkeypatch):
    """From here on every kernel call that can be shared is, from a handful of items on."""
    set_everywhere(monkeypatch, SHARE_SIZES, 7)


@pytest.fixture
def fine(monkeypatch):
    share_everything(monkeypatch)


def test_the_tests_below_do_share_work(fine, monkeypatch):
    """Tiny shares reach every step of training; otherwise equality would prove nothing."""
    shared, together = set(), []
    give, order = pool._Worker.give, pool.Team.order

    def watch_give(worker, kernel, tasks):
        shared.add(kernel.__name__)
        give(worker, kernel, tasks)

    def watch_order(team, number, args, alone=False):
        together.append(not alone and team._pool is not None)
        order(team, number, args, alone)

    monkeypatch.setattr(pool._Worker, "give", watch_give)
    monkeypatch.setattr(pool.Team, "order", watch_order)
    raw({"nthread": 3, "subsample": 0.9})
    assert all(together)
    assert len(together) >= 4 * 4
    steps = {"sample_rows", "bin_values", "pack_gradients", "add_split_weights"}
    assert steps <= shared, steps - shared


def train(params, data=None, n_rounds=4, **options):
    if data is None:
        objective = params.get("objective", "reg:squarederror")
        data = arboost.DMatrix(X, make_label(objective, X))
    options.setdefault("verbose_eval", False)
    return arboost.train({**FEW, **params}, data, n_rounds, **options)


def raw(params, data=None, n_rounds=4, **options):
    return bytes(train(params, data, n_rounds, **options).save_raw())


# ---- threads and chunks ----


FEW_OBJECTIVES = ["reg:squarederror", "binary:logistic", "multi:softprob", "reg:gamma", "reg:quantileerror"]


@pytest.mark.parametrize(
    ("objective", "policy"),
    [(objective, "depthwise") for objective in OBJECTIVES]
    + [(objective, policy) for policy in ("lossguide", "deep", "symmetric") for objective in FEW_OBJECTIVES],
)
def test_any_number_of_threads(objective, policy, monkeypatch):
    params = {**loss_params(objective), **POLICIES[policy]}
    alone = raw({**params, "nthread": 1})
    share_everything(monkeypatch)
    for n_threads in (2, 3, 8):
        assert raw({**params, "nthread": n_threads}) == alone, n_threads


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob", "reg:quantileerror"])
def test_any_number_of_threads_with_sampling(objective, sampling, monkeypatch):
    params = {**loss_params(objective), **SAMPLING[sampling], "seed": 3}
    alone = raw({**params, "nthread": 1})
    share_everything(monkeypatch)
    for n_threads in (2, 3, 8):
        assert raw({**params, "nthread": n_threads}) == alone, n_threads
    assert raw({**params, "seed": 4}) != alone


@pytest.mark.parametrize("max_bin", [2, 300])
def test_any_number_of_threads_with_other_bins(max_bin, fine):
    """300 bins of continuous features are stored in two bytes."""
    values = np.random.default_rng(0).normal(size=(900, 5)).astype(np.float32)
    data = arboost.DMatrix(values, values[:, 0] * values[:, 1], nthread=1)
    alone = raw({"max_bin": max_bin, "nthread": 1}, data)
    for n_threads in (2, 3, 8):
        again = arboost.DMatrix(values, values[:, 0] * values[:, 1], nthread=n_threads)
        assert raw({"max_bin": max_bin, "nthread": n_threads}, again) == alone, n_threads


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob", "reg:gamma"])
def test_any_number_of_histogram_buffers(objective, monkeypatch):
    """With little memory for histograms they are built again from rows instead of subtracted."""
    params = {**loss_params(objective), **POLICIES["deep"], "nthread": 2}
    plenty = raw(params)
    monkeypatch.setattr("arboost.levels.buffers.MAX_BYTES", 0)
    monkeypatch.setattr("arboost.levels.buffers.MIN_BUFFERS", 4)
    assert raw(params) == plenty


@pytest.mark.parametrize("form", ["array", "frame", "sparse", "missing value"])
def test_any_size_of_chunks(form, monkeypatch):
    """Data is read, converted and cut into bins piece by piece."""
    pandas = pytest.importorskip("pandas")
    y = make_label("reg:squarederror", X)

    def make():
        if form == "array":
            return arboost.DMatrix(X.astype(np.float64), y)
        if form == "frame":
            return arboost.DMatrix(pandas.DataFrame(X), y, feature_names=[f"f{i}" for i in range(6)])
        if form == "sparse":
            return arboost.DMatrix(sp.csr_matrix(np.nan_to_num(X)), y)
        return arboost.DMatrix(np.nan_to_num(X, nan=-1.0), y, missing=-1.0)

    params = {"nthread": 2, "max_bin": 20}
    whole = raw(params, make())
    prediction = train(params, make()).predict(make())
    set_everywhere(monkeypatch, re.compile("CHUNK_VALUES|_BLOCK_VALUES"), 100)
    set_everywhere(monkeypatch, re.compile("_SORT_ROWS"), 0)
    assert raw(params, make()) == whole
    assert np.array_equal(train(params, make()).predict(make()), prediction)


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "reg:gamma", "reg:absoluteerror"])
def test_many_rows(objective):
    """Enough rows that threads share every step with the constants that are in force."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(60_000, 12)).astype(np.float32)
    features[rng.random(features.shape) < 0.05] = np.nan
    score = np.nan_to_num(features[:, 0]) * 0.8 + np.nan_to_num(features[:, 1]) ** 2 * 0.3
    label = {
        "binary:logistic": score > 0.2,
        "reg:gamma": np.exp(score) * rng.gamma(1.0, 1.0, len(score)) + 1e-4,
    }.get(objective, score + rng.normal(size=len(score)))
    data = arboost.DMatrix(features, label.astype(np.float32))
    params = {"objective": objective, "max_depth": 6, "subsample": 0.9, "colsample_bylevel": 0.8}
    models = {n: train({**params, "nthread": n}, data, 2) for n in (1, 2, 3, 8)}
    assert len({bytes(booster.save_raw()) for booster in models.values()}) == 1
    predictions = [booster.predict(arboost.DMatrix(features, nthread=n)) for n, booster in models.items()]
    assert all(np.array_equal(predictions[0], p) for p in predictions[1:])


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_predictions_with_any_number_of_threads(objective, fine):
    booster = train(loss_params(objective), n_rounds=6)
    data = arboost.DMatrix(X)
    kinds = [{}, {"output_margin": True}, {"pred_leaf": True}, {"iteration_range": (2, 5)}]
    booster.set_param({"nthread": 1})
    alone = [booster.predict(data, **kind) for kind in kinds]
    row_by_row = np.concatenate([booster.inplace_predict(X[i : i + 1]) for i in range(len(X))])
    assert np.array_equal(alone[0], row_by_row)
    for n_threads in (2, 3, 8):
        booster.set_param({"nthread": n_threads})
        for kind, expected in zip(kinds, alone, strict=True):
            assert np.array_equal(booster.predict(data, **kind), expected), (n_threads, kind)
        assert np.array_equal(booster.inplace_predict(X), alone[0])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_scores_with_any_number_of_threads(objective, monkeypatch):
    """Scores decide early stopping, so they too must not depend on threads."""
    metrics = {"binary:logistic": ["logloss", "auc", "aucpr", "error"], "multi:softprob": ["mlogloss", "auc"]}
    params = {**loss_params(objective), "eval_metric": metrics.get(objective, [])}
    data = arboost.DMatrix(X, make_label(objective, X), weight=np.linspace(0.1, 2.0, len(X)))
    logs = []
    for n_threads in (1, 2, 3, 8):
        logs.append({})
        raw({**params, "nthread": n_threads}, data, evals=[(data, "train")], evals_result=logs[-1])
        share_everything(monkeypatch)
    assert logs[0]["train"]
    assert all(log == logs[0] for log in logs[1:])


# ---- runs ----


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:quantileerror"])
def test_again_and_again(objective):
    params = {**loss_params(objective), **SAMPLING["both"]}
    first = raw(params)
    data = arboost.DMatrix(X, make_label(objective, X))
    assert {raw(params, data), raw(params, data), raw(params)} == {first}


SCRIPT = """
import hashlib, numpy as np, arboost
rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 8)).astype(np.float32)
data = arboost.DMatrix(X, X[:, 0] * X[:, 1] + X[:, 2])
params = {"subsample": 0.7, "colsample_bynode": 0.5, "objective": "reg:pseudohubererror"}
print(hashlib.sha256(arboost.train(params, data, 5).save_raw()).hexdigest())
"""


def test_other_processes():
    scope = {}
    exec(SCRIPT.replace("print(", "result = ("), scope)
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == scope["result"]


def test_a_thread_of_ones_own(fine):
    """The pool serves one thread at a time; whoever finds it taken works alone, to the same end."""
    expected = raw({"nthread": 3}, n_rounds=8)
    found = []
    workers = [threading.Thread(target=lambda: found.append(raw({"nthread": 3}, n_rounds=8))) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [expected] * 3


class PoolTaker(TrainingCallback):
    """Takes the pool away for every second round, as another thread that trains would."""

    taken = None

    def before_iteration(self, model, epoch, evals_log):
        if epoch % 2:
            self.taken = pool._current_pool().busy
            assert self.taken.acquire(blocking=False)
        return False

    def after_iteration(self, model, epoch, evals_log):
        self.give_back()
        return False

    def give_back(self):
        if self.taken is not None:
            self.taken.release()
            self.taken = None


def test_a_pool_that_comes_and_goes(fine):
    params = {"nthread": 3, "subsample": 0.8}
    taker = PoolTaker()
    try:
        assert raw(params, n_rounds=6, callbacks=[taker]) == raw(params, n_rounds=6)
    finally:
        taker.give_back()


def test_trees_now_large_now_small(monkeypatch):
    """The number of sampled rows wavers around the size from which threads are called."""
    params = {"nthread": 3, "subsample": 0.5}
    expected = raw({**params, "nthread": 1}, n_rounds=12)
    monkeypatch.setattr(histogram, "TEAM_UPDATES", 250 * X.shape[1])
    assert raw(params, n_rounds=12) == expected


def test_with_or_without_an_audience():
    """Evaluation, callbacks, early stopping that does not strike and attributes of other runs change nothing."""
    objective = "binary:logistic"
    data = arboost.DMatrix(X, make_label(objective, X))
    other = arboost.DMatrix(make_features(80, seed=5), np.arange(80) % 2)
    params = {"objective": objective, **SAMPLING["both"]}
    expected = raw(params, data)
    assert raw(params, data, evals=[(data, "a"), (other, "b")]) == expected
    assert raw(params, data, custom_metric=lambda p, d: ("size", float(len(p))), evals=[(other, "b")]) == expected
    stopping = EarlyStopping(rounds=50)
    booster = train(params, data, evals=[(other, "b")], callbacks=[stopping])
    booster.set_attr(best_iteration=None, best_score=None)
    assert bytes(booster.save_raw()) == expected


def test_round_by_round_is_train():
    data = arboost.DMatrix(X, make_label("reg:squarederror", X))
    params = {**FEW, **SAMPLING["rows"]}
    booster = arboost.Booster(params, [data])
    for i in range(4):
        booster.update(data, i)
    assert bytes(booster.save_raw()) == raw(params, data)


# ---- forms of the data ----


def forms():
    """The same numbers as X in other containers, memory orders and types."""
    pandas = pytest.importorskip("pandas")
    names = [f"f{i}" for i in range(X.shape[1])]
    dense = np.where(np.isnan(X), np.float32(-999), X)
    present = ~np.isnan(X)
    triplets = sp.coo_matrix((X[present], np.nonzero(present)), shape=X.shape)
    strided = np.empty((2 * len(X), X.shape[1] + 3), np.float32)
    strided[::2, 1:-2] = X
    return {
        "fortran": lambda kind, y: kind(np.asfortranarray(X), y),
        "float64": lambda kind, y: kind(X.astype(np.float64), y),
        "float64 fortran": lambda kind, y: kind(np.asfortranarray(X.astype(np.float64)), y),
        "float16": lambda kind, y: kind(X.astype(np.float16), y),
        "strided": lambda kind, y: kind(strided[::2, 1:-2], y),
        "reversed": lambda kind, y: kind(X[::-1].copy()[::-1], y),
        "read-only": lambda kind, y: kind(read_only(X), y),
        "lists": lambda kind, y: kind(X.tolist(), y.tolist()),
        "missing=-999": lambda kind, y: kind(dense, y, missing=-999),
        "int missing=-999": lambda kind, y: kind(dense.astype(np.int32), y, missing=-999),
        "csr": lambda kind, y: kind(triplets.tocsr(), y),
        "csc": lambda kind, y: kind(triplets.tocsc(), y),
        "coo": lambda kind, y: kind(triplets, y),
        "frame": lambda kind, y: kind(nameless(pandas.DataFrame(X)), pandas.Series(y), feature_names=names),
        "frame of float64": lambda kind, y: kind(pandas.DataFrame(X, columns=names).astype(np.float64), y),
        "frame of nullable integers": lambda kind, y: kind(pandas.DataFrame(X, columns=names).astype("Int32"), y),
    }


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def nameless(frame):
    return frame.set_axis(range(frame.shape[1]), axis=1)


def model_of(kind, make, params):
    """The model without what frames add to it: names and types."""
    data = make(kind, make_label("reg:squarederror", X))
    booster = train(params, data)
    booster.feature_names = booster.feature_types = None
    return bytes(booster.save_raw()), booster.predict(data)


@pytest.mark.parametrize("kind", [arboost.DMatrix, arboost.QuantileDMatrix])
@pytest.mark.parametrize("form", forms())
def test_any_form_of_the_same_data(form, kind):
    params = {"nthread": 2, **SAMPLING["rows"]}
    expected, prediction = model_of(arboost.DMatrix, lambda kind, y: kind(X, y), params)
    found, other_prediction = model_of(kind, forms()[form], params)
    assert found == expected
    assert np.array_equal(prediction, other_prediction)


@pytest.mark.parametrize("max_bin", [16, 256, 400])
def test_quantile_matrix_is_a_matrix(max_bin):
    values = np.random.default_rng(2).normal(size=(700, 6)).astype(np.float32)
    y, weight = values[:, 0] * values[:, 1], np.linspace(0.5, 2.0, 700)
    params = {"max_bin": max_bin, "nthread": 2}
    plain = arboost.DMatrix(values, y, weight=weight)
    binned = arboost.QuantileDMatrix(values, y, weight=weight, max_bin=max_bin)
    assert raw(params, plain) == raw(params, binned)
    booster = train(params, plain)
    assert np.array_equal(booster.predict(plain), booster.predict(binned))


def test_labels_of_any_type():
    y = make_label("count:poisson", X)
    params = {"objective": "count:poisson"}
    expected = raw(params, arboost.DMatrix(X, y))
    for label in (y.astype(np.int16), y.astype(np.float64), y.tolist(), y[:, None]):
        assert raw(params, arboost.DMatrix(X, label)) == expected


# ---- in one go or two ----


CONTINUED = {
    **{objective: loss_params(objective) for objective in OBJECTIVES},
    "sampling": SAMPLING["both"],
    "columns": SAMPLING["columns"],
    "lossguide": POLICIES["lossguide"],
    "parallel classes": {**loss_params("multi:softprob"), **SAMPLING["both"]},
    "parallel quantiles": {**loss_params("reg:quantileerror"), **SAMPLING["both"]},
}


@pytest.mark.parametrize("name", CONTINUED)
def test_continued_is_one_go(name, tmp_path):
    params = {**CONTINUED[name], "nthread": 2}
    whole = raw(params, n_rounds=6)
    half = train(params, n_rounds=2)
    half_bytes = half.save_raw()
    assert raw(params, n_rounds=4, xgb_model=half) == whole
    assert half.save_raw() == half_bytes, "the model that was continued has changed"
    for format in ("json", "ubj"):
        half.save_model(tmp_path / f"half.{format}")
        assert raw(params, n_rounds=4, xgb_model=tmp_path / f"half.{format}") == whole
    assert raw(params, n_rounds=4, xgb_model=half.save_raw()) == whole


@pytest.mark.parametrize("kind", [arboost.DMatrix, arboost.QuantileDMatrix])
@pytest.mark.parametrize("margin", [False, True], ids=["plain", "base_margin"])
def test_continued_is_one_go_on_any_matrix(kind, margin):
    objective = "multi:softprob"
    values = np.random.default_rng(3).normal(size=(600, 5)).astype(np.float32)
    info = {"base_margin": np.random.default_rng(4).normal(size=(600, n_outputs(objective)))} if margin else {}
    label = (values[:, 0] > 0) + 2 * (values[:, 1] > 0)
    params = {**loss_params(objective), "subsample": 0.8}
    whole = raw(params, kind(values, label, **info), 5)
    first = train(params, kind(values, label, **info), 3)
    assert raw(params, kind(values, label, **info), 2, xgb_model=first) == whole


def test_continued_with_the_live_booster():
    """update() after save, load and pickle goes on as if nothing had happened."""
    data = arboost.DMatrix(X, make_label("reg:squarederror", X))
    params = {**FEW, **SAMPLING["both"], "nthread": 1}
    whole = raw(params, data, 5)
    booster = train(params, data, 3)
    for twin in (booster.copy(), pickle.loads(pickle.dumps(booster)), booster):
        twin.update(data, 3)
        twin.update(data, 4)
        assert bytes(twin.save_raw()) == whole
