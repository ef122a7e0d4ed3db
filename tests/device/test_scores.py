"""Metrics that a device finds have the CPU's bits, and the margins they are of never come to the host."""

import warnings
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from numba import int64

import arboost
import device_cases as cases
from arboost.boosters.device import DeviceTrainer
from arboost.boosters.device_scores import _Batch
from arboost.kernels.gpu import curve, metric, sums
from arboost.kernels.gpu.device import Device, DeviceLost, Launch
from arboost.kernels.gpu.jit import cuda, gpu_kernel
from arboost.kernels.gpu.sums import DIGITS
from arboost.kernels.ops import metric as of_cpu
from arboost.kernels.ops import sums as of_host
from arboost.runtime.device import device
from arboost.runtime.errors import XGBoostError

X, Y, OTHER, OTHER_Y = cases.X, cases.Y, cases.OTHER, cases.OTHER_Y
MANY = 200_000 if cases.IS_REAL else 300
# both on a real device, else one of the two
WEIGHTED = [(case, bool(i % 2)) for i, case in enumerate(cases.SCORED)]
WEIGHTED += [(case, not weighted) for case, weighted in WEIGHTED if cases.IS_REAL]


@pytest.fixture
def scores(monkeypatch):
    """What the device has found, round by round, of every matrix; and matrices whose margins came to the host."""
    found, fetched = [], []
    score, fetch = DeviceTrainer.score, DeviceTrainer.fetch
    monkeypatch.setattr(DeviceTrainer, "score", lambda *args: found.append(score(*args)) or found[-1])
    monkeypatch.setattr(DeviceTrainer, "fetch", lambda *args: fetched.append(args[1]) or fetch(*args))
    return found, fetched


@pytest.mark.parametrize(("case", "weighted"), WEIGHTED)
def test_metrics_have_the_bits_of_the_cpu(case, weighted, scores):
    of_cpu = cases.score("cpu", case, weighted)
    of_device = cases.score("cuda", case, weighted)
    np.testing.assert_equal(of_device[0], of_cpu[0])
    assert of_device[1] == of_cpu[1]
    found, fetched = scores
    n_held = 2 if case in cases.SCORED_SETS else 3  # categories: bins walk trees there, values do not
    assert np.shape(found) == (cases.N_ROUNDS, n_held, len(cases.SCORED[case][1]))
    assert None not in np.ravel(found)
    assert not fetched


def sparse(X, y):
    return arboost.DMatrix(sp.csr_matrix(np.nan_to_num(X)), y)


def ranked(X, y):
    return arboost.DMatrix(X, y > 0, group=[len(X) // 2, len(X) - len(X) // 2])


def lacking(X, y):
    labels = np.stack([y, -y], axis=1)
    labels[::3, 1] = np.nan
    return arboost.DMatrix(X, labels)


def of_one_class(X, y):
    return arboost.DMatrix(X, np.ones(len(X)))


def share_of_large(margin, data):
    return "large", float((margin > 0.1).mean())


# parameters, training matrix, another matrix and options of `train`: some of it is left to the CPU
LEFT = {
    "sparse rows": ({"eval_metric": ["rmse", "mae"]}, arboost.DMatrix, sparse, {}),
    "other bins": (
        {"eval_metric": "mae"}, arboost.DMatrix, lambda X, y: arboost.QuantileDMatrix(X, y, max_bin=8), {}
    ),
    "groups": ({"eval_metric": ["ndcg", "rmse", "auc"]}, lambda X, y: arboost.DMatrix(X, y > 0), ranked, {}),
    "missing labels": (
        {"eval_metric": "rmse"}, lambda X, y: arboost.DMatrix(X, np.stack([y, -y], axis=1)), lacking, {}
    ),
    "one class": (
        cases.objective("binary:logistic", eval_metric=["auc", "logloss"]), lambda X, y: arboost.DMatrix(X, y > 0),
        of_one_class, {},
    ),
    "classes": (
        cases.objective("multi:softprob", num_class=3, eval_metric=["auc", "mlogloss"]),
        *[lambda X, y: arboost.DMatrix(X, np.digitize(y, [-1, 1]))] * 2, {},
    ),
    "a metric of one's own": ({"eval_metric": "rmse"}, *[arboost.DMatrix] * 2, {"custom_metric": share_of_large}),
    "dropout": (
        {"booster": "dart", "rate_drop": 0.5, "eval_metric": ["rmse", "mae"]}, *[arboost.DMatrix] * 2, {}
    ),
    "gradients of the host": (
        cases.objective("reg:absoluteerror", eval_metric=["rmse", "mae"], subsample=0.7), *[arboost.DMatrix] * 2, {}
    ),
    "predictions in their own way": (
        cases.objective("reg:quantileerror", quantile_alpha=[0.2, 0.7], eval_metric=["quantile"]),
        *[arboost.DMatrix] * 2, {},
    ),
    "queries": (
        cases.objective("rank:ndcg", eval_metric=["ndcg", "map", "auc"]), ranked, ranked, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT)
def test_what_a_device_does_not_score(case):
    params, make, make_other, options = LEFT[case]
    found = {}
    for name in ("cpu", "cuda"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[name] = cases.watch(name, params, [make(X, Y), make_other(OTHER, OTHER_Y)], **options)
    np.testing.assert_equal(found["cuda"], found["cpu"])


# ---- ways to train ----


def pair(weight=None):
    return arboost.DMatrix(X, Y > 0, weight=weight), arboost.DMatrix(OTHER, OTHER_Y > 0)


PARAMS = {**cases.COMMON, "objective": "binary:logistic", "eval_metric": ["auc", "logloss"]}


def continued(device):
    trained, other = pair()
    first = arboost.train({**PARAMS, "device": device}, trained, 2)
    found = {}
    again = arboost.train(
        {**PARAMS, "device": device}, trained, 3, evals=[(other, "other"), (trained, "train")], evals_result=found,
        verbose_eval=False, xgb_model=first,
    )  # fmt: skip
    return found, bytes(again.save_raw())


def now_and_then(device):
    """Evaluated after some rounds only, with labels and parameters that change, and a round on other gradients."""
    trained, other = pair()
    booster, lines = arboost.Booster({**PARAMS, "device": device}), []
    for i in range(8):
        if i == 5:
            booster.boost(trained, i, grad=Y, hess=np.ones_like(Y))
        else:
            booster.update(trained, i)
        if i in (0, 1, 3, 4, 5, 6, 7):
            lines.append(booster.eval_set([(other, "other"), (trained, "train")][: 1 + i % 2], i))
        if i == 1:
            other.set_label(OTHER_Y < 0)
            lines.append(booster.eval(other))
        if i == 4:
            booster.set_param({"eta": 0.1, "eval_metric": ["error", "auc"]})
        if i == 6:
            other.set_base_margin(OTHER_Y)
    lines.append(booster.predict(other, output_margin=True).tobytes())
    return lines, bytes(booster.save_raw())


def scheduled(device):
    """A learning rate of its own for every round: what was begun ahead is thrown away."""
    trained, other = pair()
    found = {}
    callbacks = [arboost.callback.LearningRateScheduler(lambda i: 0.5 / (1 + i))]
    booster = arboost.train(
        {**PARAMS, "device": device}, trained, 4, evals=[(other, "other")], evals_result=found, verbose_eval=False,
        callbacks=callbacks,
    )  # fmt: skip
    return found, bytes(booster.save_raw())


def grown_anew(device):
    """Labels that need a plane each for gradients and hessians: trees that were launched fail, and are grown anew."""
    trained, other = arboost.DMatrix(X, Y), arboost.DMatrix(OTHER, OTHER_Y)
    booster, lines = arboost.Booster({**cases.COMMON, "device": device, "eval_metric": ["rmse", "mae"]}), []
    for i in range(4):
        booster.update(trained, i)
        lines.append(booster.eval_set([(other, "other"), (trained, "train")], i))
        if i == 1:
            trained.set_label(cases.OUTLIER)
    return lines, bytes(booster.save_raw())


@pytest.mark.parametrize("way", [continued, now_and_then, scheduled, grown_anew])
def test_ways_to_train(way):
    np.testing.assert_equal(way("cuda"), way("cpu"))


def test_margins_that_nobody_asks_for_are_left_behind(monkeypatch):
    """And those of a matrix that is gone leave the device."""
    trained, other = pair()
    booster = arboost.Booster({**PARAMS, "device": "cuda"})
    for i in range(2):
        booster.update(trained, i)
        booster.eval_set([(other, "other")])
    (scored,) = [s for data, s in booster._learner._session.trainer._scored.items() if data is other]
    for i, is_added in ((2, True), (3, False)):  # the round after the last evaluation does not know of it yet
        booster.update(trained, i)
        assert scored.has_last_round == is_added
    launched = []
    launch = _Batch.launch
    monkeypatch.setattr(_Batch, "launch", lambda batch: launched.append(batch) or launch(batch))
    booster.eval(trained)
    for i in range(3):  # launched once ahead, in vain
        booster.update(trained, i)
    assert len(launched) == 2
    on_device = weakref.ref(scored.margin)
    booster.eval_set([(trained, "train")])
    del other, scored
    assert on_device() is None


def test_too_little_memory_leaves_it_to_the_cpu(monkeypatch):
    trained, other = pair()
    booster = arboost.Booster({**PARAMS, "device": "cuda"})
    booster.update(trained, 0)
    monkeypatch.setattr(Device, "free_bytes", lambda device: 100)
    lines = [booster.eval_set([(trained, "train"), (other, "other")])]
    monkeypatch.undo()
    booster.set_param({"device": "cpu"})
    assert lines == [booster.eval_set([(trained, "train"), (other, "other")])]


@pytest.mark.parametrize("at", range(1, 12, 3))
def test_a_launch_that_fails(at, monkeypatch):
    """Scores and rounds are whole, whenever it happens, and go on on the device."""
    trained, other = pair()
    booster, n_launches, lines = arboost.Booster({**PARAMS, "device": "cuda"}), 0, []
    launch = Launch.__call__

    def failing(self, changes):
        nonlocal n_launches
        n_launches += 1
        if n_launches == at:
            raise DeviceLost("the bus has gone")
        launch(self, changes)

    booster.update(trained, 0)
    booster.eval(other)
    with monkeypatch.context() as during:
        during.setattr(Launch, "__call__", failing)
        with pytest.raises(XGBoostError, match="the bus has gone"):
            for i in range(4):
                booster.update(trained, i)
                booster.eval(other)
    of_cpu = arboost.Booster({**PARAMS, "device": "cpu"})
    for i in range(booster.num_boosted_rounds()):
        of_cpu.update(trained, i)
    for i in range(2):
        lines.append((booster.eval(other), of_cpu.eval(other), booster.eval(trained), of_cpu.eval(trained)))
        booster.update(trained, i)
        of_cpu.update(trained, i)
    assert all(line[0] == line[1] and line[2] == line[3] for line in lines)
    assert bytes(booster.save_raw()) == bytes(of_cpu.save_raw())


# ---- kernels ----


def sent(*arrays):
    here = device("cuda")
    here.use()
    return [here.upload(array) for array in arrays]


@gpu_kernel
def _add_all(values, lowest, acc):
    digits = cuda.local.array(DIGITS, int64)
    sums.clear(digits)
    for i in range(cuda.grid(1), values.shape[0], cuda.gridsize(1)):
        sums.add(values[i], lowest, digits, acc)
    sums.merge(digits, lowest, acc)


@pytest.mark.parametrize("lowest", [1, sums.LOWEST, 2046 - 32 * (sums.DIGITS - 1)])
@pytest.mark.parametrize("kind", ["usual", "all scales", "cancelling", "edges", "infinite", "not a number"])
def test_sums_are_exact(kind, lowest):
    rng = np.random.default_rng(0)
    n = MANY if kind in ("usual", "all scales") else 60
    values = rng.normal(size=n)
    if kind == "all scales":
        values = values * 2.0 ** rng.integers(-1070, 1020, n)
    elif kind == "cancelling":
        values = np.concatenate([values * 1e300, -values * 1e300, values * 1e-300, [2.0**-1074, 0.0, -0.0]])
    elif kind == "edges":  # of the digits
        values = np.ldexp(2.0 - 2.0**-52, lowest - 1023 + np.arange(-2, sums.LAST_PLACE + 3))
        values *= np.resize([1, -1], len(values))
        values = values[np.isfinite(values)]
    elif kind == "infinite":
        values[3] = -np.inf
    elif kind == "not a number":
        values[3], values[7] = np.nan, np.inf
    with np.errstate(over="ignore"):
        wanted = np.zeros(of_host.N_SLOTS, np.int64)
        of_host.add_values(values, wanted, 0, len(values))
    there, acc = sent(values, np.zeros(of_host.N_SLOTS, np.int64))
    device("cuda").run(_add_all, there, lowest, acc)
    np.testing.assert_equal(of_host.round_sum(acc.copy_to_host()), of_host.round_sum(wanted))


def predictions(kind, n):
    rng = np.random.default_rng(n)
    if kind == "distinct":
        return rng.normal(size=n).astype(np.float32)
    if kind == "equal":
        return np.full(n, 0.25, np.float32)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-45, -1e-45, 3e38], np.float32)
    return rng.choice(special if kind == "special" else rng.random(7).astype(np.float32), n)


SIZES = [1, 2, 31, 33, 129, 300, *([4096, 135_168, 135_169, 1_000_003] if cases.IS_REAL else [])]


@pytest.mark.parametrize("kind", ["distinct", "few", "equal", "special"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["roc_area", "precision_recall_area"])
def test_areas(name, n, kind):
    rng, pred, here = np.random.default_rng(1), predictions(kind, n), device("cuda")
    positive = rng.integers(0, 2, n) * (rng.integers(1, 2**40, n) if n % 2 else 1)
    negative = np.where(positive == 0, 1 + n % 2, 0)
    scale, wanted = float(max(1, positive.sum())), np.zeros(of_host.N_SLOTS, np.int64)
    if name == "roc_area":
        scale *= float(negative.sum())
    getattr(of_cpu, name)(of_cpu.rank_rows(pred), positive, negative, scale, wanted, 0, n)
    acc = sent(np.zeros(of_host.N_SLOTS, np.int64))[0]
    words, running = here.empty(2 * n, np.uint64), here.empty(2 * n, np.int64)
    counts, totals = here.empty((here.n_blocks, curve.N_DIGITS), np.int32), here.empty((2, here.n_blocks), np.int64)
    kernel = curve.area_kernel(name)
    args = (*sent(pred, positive, negative), words, running, counts, totals, scale, sums.LOWEST, acc)
    here.prepare(kernel, here.n_processors, *args)({})
    assert of_host.round_sum(acc.copy_to_host()) == of_host.round_sum(wanted)
    ranked = words.copy_to_host()[:n]
    np.testing.assert_array_equal(ranked, of_cpu.rank_rows(pred))


def test_the_most_probable_class():
    """The lowest of equals; NaN is the largest, as NumPy has it."""
    pred = np.float32([[1, 1, 0], [0, np.nan, np.nan], [np.nan, 1, 2], [0, 1, 1], [-1, -2, -1], [0, 0, 1]])
    for label in (pred.argmax(axis=1), np.array([1, 2, 2, 2, 2, 0])):
        label, values = label.astype(np.float32), np.empty(len(pred))
        of_cpu.wrong_class(pred, label, values, 0, len(pred))
        *there, acc = sent(pred, label, np.zeros(0, np.float32), np.zeros(of_host.N_SLOTS, np.int64))
        device("cuda").run(metric.CLASS_KERNELS["wrong_class"], *there, sums.LOWEST, acc)
        assert of_host.round_sum(acc.copy_to_host()) == values.sum()
