"""Dask workers, real processes, train the very model that one machine trains, and see its scores.

Partitions are unequal and lie between each other's: some are empty, one has a single row, one lacks a class, one has a
column of NaN. Workers are killed and stopped by signals.
"""

import itertools
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import arboost
from dask_cluster import OnceAt, addresses, cluster, mark, place_fields, table

distributed = pytest.importorskip("distributed")
cloudpickle = pytest.importorskip("cloudpickle")
dxgb = pytest.importorskip("arboost.dask")

N_ROWS, GROUP = 600, 12
X, Y = table(N_ROWS)
X[300:420, 3] = np.nan  # all of partition 4
ENDS = [1, 1, 130, 300, 420, 555, N_ROWS]
HOLDERS = {1: [0] * 7, 2: [0, 1, 1, 0, 1, 0, 1], 3: [2, 0, 1, 0, 2, 1, 0]}
COMMON = {"max_depth": 4, "seed": 5, "nthread": 1}
CLASSES = np.digitize(Y, [-1, 1])
CLASSES[130:300] = np.minimum(CLASSES[130:300], 1)  # partition 3 lacks a class
BINARY = {"label": (Y > 0).astype(int)}
GRADES = {"label": np.digitize(Y, [-1, 0, 1]), "qid": np.arange(N_ROWS) // GROUP}
BOUNDS = {"label": None, "label_lower_bound": np.exp(Y), "label_upper_bound": np.exp(Y) + np.arange(N_ROWS) % 2}
WEIGHT = {"weight": np.linspace(0, 2, N_ROWS) ** 2}
CATEGORIES = {"feature_types": ["q", "c", "c", "q", "q"], "enable_categorical": True}

KINDS = {
    "binary": ({"objective": "binary:logistic", "eval_metric": ["logloss", "auc", "aucpr"]}, BINARY | WEIGHT),
    "classes": (
        {"objective": "multi:softprob", "num_class": 3, "eval_metric": ["mlogloss", "auc"]},
        {"label": CLASSES},
    ),
    "ranking": ({"objective": "rank:ndcg", "lambdarank_pair_method": "mean", "lambdarank_unbiased": True}, GRADES),
    "quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]}, WEIGHT),
    "aft": ({"objective": "survival:aft", "eval_metric": "aft-nloglik"}, BOUNDS),
    "categories": ({"max_cat_to_onehot": 1}, CATEGORIES),
    "sampling": ({"subsample": 0.4, "sampling_method": "gradient_based", "colsample_bynode": 0.6}, {}),
    "lossguide": ({"grow_policy": "lossguide", "max_leaves": 25, "max_depth": 0, "subsample": 0.5}, {}),
    "dart": ({"booster": "dart", "rate_drop": 0.4, "num_parallel_tree": 2, "subsample": 0.5}, {}),
    "targets": ({"multi_strategy": "multi_output_tree", "subsample": 0.7}, {"label": np.stack([Y, -Y], axis=1)}),
    "approx": ({"tree_method": "approx", "subsample": 0.7, "eval_metric": ["ams@0.2", "rmse"]}, BINARY),
    "margins": ({"objective": "binary:logistic"}, BINARY | {"base_margin": np.linspace(-1, 1, N_ROWS)}),
}


@pytest.fixture(scope="module", autouse=True)
def _functions_travel_by_value():
    """Workers cannot import this module."""
    import sys

    import dask_cluster

    for module in (sys.modules[__name__], dask_cluster):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (sys.modules[__name__], dask_cluster):
        cloudpickle.unregister_pickle_by_value(module)


def alone(params, fields, n_rounds=4, kind=arboost.DMatrix, **options):
    """(bytes, history) of one machine."""
    matrix, history = kind(X, **({"label": Y} | fields), nthread=1), {}
    options = {"evals": [(matrix, "train")], "evals_result": history, "verbose_eval": False} | options
    model = arboost.train({**COMMON, **params}, matrix, n_rounds, **options)
    return bytes(model.save_raw()), history


def matrix_of(client, fields, world_size, kind=None, movable=False):
    fields = place_fields(client, {"data": X, "label": Y} | fields, ENDS, HOLDERS[world_size], movable)
    return (kind or dxgb.DaskDMatrix)(client, **fields)


def train(client, params, matrix, n_rounds=4, **options):
    options = {"evals": [(matrix, "train")], "verbose_eval": False} | options
    found = dxgb.train(client, {**COMMON, **params}, matrix, n_rounds, **options)
    return bytes(found["booster"].save_raw()), found["history"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_workers_train_the_model_of_one_machine(dask_client, kind, world_size):
    params, fields = KINDS[kind]
    by_bins = params.get("tree_method") != "approx"
    matrix = matrix_of(dask_client, fields, world_size, dxgb.DaskQuantileDMatrix if by_bins else None)
    assert train(dask_client, params, matrix) == alone(params, fields)


def test_early_stopping_in_the_same_round(dask_client):
    """Evaluation data of its own, which some workers have no rows of."""
    noise = (np.arange(N_ROWS) * 7919 % 3 == 0).astype(int)
    params = {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"]}
    valid = arboost.DMatrix(X[400:], noise[400:], nthread=1)
    expected = alone(params, BINARY, 30, evals=[(valid, "valid")], early_stopping_rounds=3)
    matrix = matrix_of(dask_client, BINARY, 3)
    fields = place_fields(dask_client, {"data": X[400:], "label": noise[400:]}, [3, 90, 200], [1, 2, 1])
    watched = dxgb.DaskDMatrix(dask_client, **fields)
    found = train(dask_client, params, matrix, 30, evals=[(watched, "valid")], early_stopping_rounds=3)
    assert found == expected and len(found[1]["valid"]["auc"]) < 30


def squared_error(margin, matrix):
    return margin - matrix.get_label(), np.ones_like(margin)


def mean_error(prediction, matrix):
    return "mine", float(np.mean(np.abs(prediction - matrix.get_label())))


def test_custom_objective_metric_and_callbacks(dask_client):
    callbacks = [arboost.callback.LearningRateScheduler(lambda epoch: 0.5 / (1 + epoch))]
    options = {"obj": squared_error, "custom_metric": mean_error, "callbacks": callbacks}
    model, history = train(dask_client, {}, matrix_of(dask_client, {}, 3), **options)
    expected_model, expected = alone({}, {}, **options)
    assert model == expected_model
    np.testing.assert_allclose(history["train"].pop("mine"), expected["train"].pop("mine"), rtol=1e-5)
    assert history == expected


def test_continued_training(dask_client):
    params = {"objective": "binary:logistic", "subsample": 0.6}
    matrix = matrix_of(dask_client, BINARY, 3)
    found = dxgb.train(dask_client, {**COMMON, **params}, matrix, 2, verbose_eval=False)
    again = train(dask_client, params, matrix, 2, xgb_model=found["booster"])
    assert again[0] == alone(params, BINARY)[0]


def test_an_error_on_one_worker_is_the_clients(dask_client):
    label = np.where(np.arange(N_ROWS) == N_ROWS - 1, 2.0, 0.5)
    with pytest.raises(arboost.core.XGBoostError, match=r"^label must be in \[0,1\]"):
        train(dask_client, {"objective": "binary:logistic"}, matrix_of(dask_client, {"label": label}, 3))
    assert len(addresses(dask_client)) == 3
    with pytest.raises(arboost.core.XGBoostError, match="not for several workers"):
        train(dask_client, {"tree_method": "exact"}, matrix_of(dask_client, {}, 2))


def test_two_trainings_at_once(dask_client):
    """Every worker has one thread for tasks: neither training waits for the other."""
    kinds = ["binary", "sampling", "quantiles"]
    found = {}

    def work(kind):
        params, fields = KINDS[kind]
        found[kind] = train(dask_client, params, matrix_of(dask_client, fields, 3), 12)

    threads = [threading.Thread(target=work, args=(kind,)) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for kind in kinds:
        assert found[kind] == alone(*KINDS[kind], 12), kind


def resident(field):
    """VmRSS (now) or VmHWM (the highest since it was reset) of this process, in bytes."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def begin_measuring():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return resident("VmRSS")


def random_rows(seed, shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="no /proc with a resettable high-water mark")
@pytest.mark.parametrize("kind", ["DaskDMatrix", "DaskQuantileDMatrix"])
def test_no_worker_holds_a_second_copy_of_its_data(dask_client, kind):
    """Beside the partitions there are bins, half their size, a few numbers a row, and what any number of rows takes."""
    shape, address = (30_000, 40), addresses(dask_client)[0]
    at = {"workers": [address], "pure": False}
    parts = [dask_client.submit(random_rows, i, shape, **at) for i in range(12)]
    labels = [dask_client.submit(lambda part: part[:, 0], part, **at) for part in parts]
    above = {}
    for n_parts in (1, 4, 12):  # the first time kernels are loaded
        matrix = getattr(dxgb, kind)(dask_client, parts[:n_parts], labels[:n_parts])
        before = dask_client.run(begin_measuring, workers=[address])[address]
        dxgb.train(dask_client, COMMON, matrix, 1, verbose_eval=False)
        above[n_parts] = dask_client.run(resident, "VmHWM", workers=[address])[address] - before
    assert above[12] - above[4] < (12 - 4) * 4 * np.prod(shape), above


# ---- workers that are lost, or stuck ----


@pytest.fixture
def mortal_client():
    with cluster(3) as client:
        yield client


def test_killed_workers(mortal_client, tmp_path):
    """The first rank, then another one, dies after a round: what is left, or comes back, ends with the same bytes.

    The state of early stopping travels with the trees.
    """
    params, fields = KINDS["sampling"]
    options = {"early_stopping_rounds": 5}
    matrix = matrix_of(mortal_client, fields, 3, dxgb.DaskQuantileDMatrix, movable=True)
    deaths = [OnceAt(str(tmp_path / "first"), 0, 3), OnceAt(str(tmp_path / "second"), 1, 6)]
    with pytest.warns(UserWarning, match="was lost in round") as warned:
        found = train(mortal_client, params, matrix, 20, callbacks=deaths, **options)
    assert found == alone(params, fields, 20, **options)
    lost = [str(warning.message) for warning in warned if "was lost" in str(warning.message)]
    assert ["in round 3;" in lost[0], "in round 6;" in lost[1]] == [True, True]


def die_at(path, call):
    """An objective that kills its process in the middle of a round, once."""
    seen = itertools.count()

    def objective(margin, matrix):
        if next(seen) == call and os.path.exists(path + ".armed") and mark(path):
            os.kill(os.getpid(), signal.SIGKILL)
        return squared_error(margin, matrix)

    return objective


def test_killed_in_mid_round(mortal_client, tmp_path):
    path = str(tmp_path / "dead")
    with open(path + ".armed", "w"):
        pass
    matrix = matrix_of(mortal_client, {}, 3, movable=True)
    with pytest.warns(UserWarning, match="was lost in round 2;"):
        found = train(mortal_client, {"subsample": 0.5}, matrix, 6, obj=die_at(path, 2))
    assert found == alone({"subsample": 0.5}, {}, 6, obj=squared_error)


def test_a_worker_alone_begins_again(tmp_path):
    with cluster(1) as client:
        matrix = matrix_of(client, {}, 1, movable=True)
        with pytest.warns(UserWarning, match="was lost"):
            found = train(client, {}, matrix, 5, callbacks=[OnceAt(str(tmp_path / "dead"), 0, 2)])
    assert found == alone({}, {}, 5)


def test_a_stuck_worker_is_an_error(tmp_path):
    path = tmp_path / "stuck"
    with cluster(2) as client:
        matrix = matrix_of(client, {}, 2)
        config = arboost.collective.Config(timeout=2)
        stop = OnceAt(str(path), 1, 2, signal.SIGSTOP)
        try:
            with pytest.raises(dxgb.WorkerLostError, match="does not answer") as error:
                train(client, {}, matrix, 9, callbacks=[stop], coll_cfg=config)
        finally:
            os.kill(int(path.read_text()), signal.SIGCONT)
    n_rounds = error.value.booster.num_boosted_rounds()
    assert n_rounds in (2, 3)  # a process does not stop at once
    assert bytes(error.value.booster.save_raw()) == alone({}, {}, n_rounds)[0]


class Beat(arboost.callback.TrainingCallback):
    """Writes the time to a file every round, and takes its time."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def after_iteration(self, model, epoch, evals_log):
        with open(f"{self.path}-{arboost.collective.get_rank()}", "w") as file:
            file.write(str(time.time()))
        time.sleep(0.02)
        return False


def test_an_interrupt_at_the_client_stops_the_workers(dask_client, tmp_path):
    path = tmp_path / "beat"
    matrix = matrix_of(dask_client, {}, 3)

    def interrupt():
        while not all(os.path.exists(f"{path}-{rank}") for rank in range(3)):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        train(dask_client, {}, matrix, 100_000, callbacks=[Beat(str(path))])
    thread.join()
    deadline = time.time() + 20
    while time.time() < deadline:
        before = [path.with_name(f"beat-{rank}").read_text() for rank in range(3)]
        time.sleep(0.5)
        if before == [path.with_name(f"beat-{rank}").read_text() for rank in range(3)]:
            break
    else:
        pytest.fail("the workers go on")
    assert train(dask_client, {}, matrix) == alone({}, {})


def test_a_client_that_is_closed_in_mid_training(tmp_path):
    """The error says so; the workers stop, and train for the next client."""
    path = tmp_path / "beat"
    with cluster(2) as client:
        mine = distributed.Client(client.scheduler.address)

        def close():
            while not os.path.exists(f"{path}-0"):
                time.sleep(0.05)
            mine.close()

        thread = threading.Thread(target=close)
        thread.start()
        with pytest.raises(dxgb.WorkerLostError, match="lost the cluster"):
            train(mine, {}, matrix_of(mine, {}, 2), 100_000, callbacks=[Beat(str(path))])
        thread.join()
        assert train(client, {}, matrix_of(client, {}, 2)) == alone({}, {})


def test_scattered_data_is_named_when_it_is_lost(tmp_path):
    with cluster(2) as client:
        ends = [300, N_ROWS]
        workers = addresses(client)
        parts = [client.scatter(X[a:b], workers=[w]) for a, b, w in zip([0, 300], ends, workers, strict=True)]
        labels = [client.scatter(Y[a:b], workers=[w]) for a, b, w in zip([0, 300], ends, workers, strict=True)]
        matrix = dxgb.DaskDMatrix(client, parts, labels)
        del parts, labels
        with warnings.catch_warnings(), pytest.raises(dxgb.WorkerLostError, match=r"Partition \d is lost"):
            warnings.simplefilter("ignore")
            train(client, {}, matrix, 9, callbacks=[OnceAt(str(tmp_path / "dead"), 1, 2)])


# ---- other clusters ----


def test_an_encrypted_cluster():
    pytest.importorskip("cryptography")
    security = distributed.Security.temporary()
    with cluster(2, protocol="tls://", security=security) as client:
        assert all(address.startswith("tls://") for address in addresses(client))
        params, fields = KINDS["binary"]
        assert train(client, params, matrix_of(client, fields, 2)) == alone(params, fields)


def test_workers_that_are_threads():
    with cluster(3, processes=False) as client:
        params, fields = KINDS["sampling"]
        assert train(client, params, matrix_of(client, fields, 3)) == alone(params, fields)
