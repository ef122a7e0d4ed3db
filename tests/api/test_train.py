"""`train` from end to end: callbacks, custom objectives and metrics, continuation; next to XGBoost's."""

import os
import pickle
import re

import numpy as np
import pytest

import arboost
from arboost.callback import EarlyStopping, LearningRateScheduler, TrainingCallback, TrainingCheckPoint
from arboost.runtime.errors import XGBoostError
from boosting_cases import N_CLASSES, loss_params, make_features, make_label

xgboost = pytest.importorskip("xgboost")

X, X_VALID = make_features(300, missing=0.1), make_features(120, missing=0.1, seed=4)
PARAMS = {"max_depth": 3, "nthread": 1, "eta": 0.5}


def make_data(library, objective="reg:squarederror", **info):
    dtrain = library.DMatrix(X, make_label(objective, X), **info)
    return dtrain, library.DMatrix(X_VALID, make_label(objective, X_VALID, 4))


def assert_same_model(ours, theirs, rtol=1e-5):
    """Both boosters predict the same."""
    assert ours.num_boosted_rounds() == theirs.num_boosted_rounds()
    np.testing.assert_allclose(
        ours.predict(arboost.DMatrix(X_VALID)), theirs.predict(xgboost.DMatrix(X_VALID)), rtol=rtol, atol=rtol
    )


# ---- callbacks ----


@pytest.mark.parametrize(
    "options",
    [
        {"rounds": 3},
        {"rounds": 3, "save_best": True},
        {"rounds": 2, "metric_name": "mae", "data_name": "valid"},
        {"rounds": 2, "metric_name": "rmse", "data_name": "train", "min_delta": 0.02},
        {"rounds": 2, "maximize": True},
    ],
    ids=str,
)
def test_early_stopping(options):
    params = {**PARAMS, "eta": 0.9, "eval_metric": ["mae", "rmse"]}
    boosters, logs = [], []
    for library in (arboost, xgboost):
        dtrain, dvalid = make_data(library)
        log = {}
        boosters.append(
            library.train(
                params,
                dtrain,
                60,
                evals=[(dtrain, "train"), (dvalid, "valid")],
                callbacks=[library.callback.EarlyStopping(**options)],
                evals_result=log,
                verbose_eval=False,
            )
        )
        logs.append(log)
    ours, theirs = boosters
    assert_same_model(ours, theirs)
    assert ours.best_iteration == theirs.best_iteration
    assert ours.best_score == pytest.approx(theirs.best_score, rel=1e-5)
    assert len(logs[0]["valid"]["mae"]) == len(logs[1]["valid"]["mae"]) < 60
    if options.get("save_best"):
        assert ours.num_boosted_rounds() == ours.best_iteration + 1


def test_early_stopping_goes_on_counting(tmp_path):
    dtrain, dvalid = make_data(arboost)
    first = arboost.train(PARAMS, dtrain, 2)
    booster = arboost.train(
        {**PARAMS, "eta": 0.9},
        dtrain,
        60,
        evals=[(dvalid, "v")],
        early_stopping_rounds=2,
        xgb_model=first,
        verbose_eval=False,
    )
    assert booster.num_boosted_rounds() == booster.best_iteration + 3
    best = booster[: booster.best_iteration + 1]
    assert booster.best_score == pytest.approx(float(best.eval(dvalid).split(":")[1]))


def test_learning_rates():
    for rates in ([0.5, 0.3, 0.1, 0.05], lambda epoch: 0.5 * 0.8**epoch):
        found = []
        for library in (arboost, xgboost):
            scheduler = library.callback.LearningRateScheduler(rates)
            found.append(library.train(PARAMS, make_data(library)[0], 4, callbacks=[scheduler]))
        assert_same_model(*found)


def test_check_points_can_be_taken_up(tmp_path):
    dtrain, _ = make_data(arboost)
    params = {**PARAMS, "subsample": 0.7}
    whole = arboost.train(params, dtrain, 7)
    for as_pickle in (False, True):
        arboost.train(params, dtrain, 6, callbacks=[TrainingCheckPoint(tmp_path, "run", as_pickle, interval=2)])
        suffix = "pkl" if as_pickle else "ubj"
        names = sorted(name for name in os.listdir(tmp_path) if name.endswith(suffix))
        assert names == [f"run_2.{suffix}", f"run_4.{suffix}"]
        path = tmp_path / names[-1]
        start = pickle.loads(path.read_bytes()) if as_pickle else path
        assert arboost.train(params, dtrain, 2, xgb_model=start).save_raw() == whole.save_raw()


class Recorder(TrainingCallback):
    """Writes down what it is shown."""

    def __init__(self, stop_at=None):
        self.seen = []
        self.stop_at = stop_at

    def before_training(self, model):
        self.seen.append(("before", model.num_boosted_rounds()))
        return model

    def after_iteration(self, model, epoch, evals_log):
        scores = {data: {m: len(s) for m, s in metrics.items()} for data, metrics in evals_log.items()}
        self.seen.append((epoch, model.num_boosted_rounds(), scores))
        return epoch == self.stop_at

    def after_training(self, model):
        self.seen.append(("after", model.num_boosted_rounds()))
        return model


def test_callbacks_see_the_training():
    dtrain, dvalid = make_data(arboost)
    recorder = Recorder(stop_at=2)
    booster = arboost.train(
        PARAMS,
        dtrain,
        9,
        evals=[(dvalid, "v")],
        callbacks=[recorder],
        verbose_eval=False,
        xgb_model=arboost.train(PARAMS, dtrain, 1),
    )
    assert booster.num_boosted_rounds() == 4
    assert recorder.seen == [
        ("before", 1),
        *((epoch, epoch + 2, {"v": {"rmse": epoch + 1}}) for epoch in range(3)),
        ("after", 4),
    ]


def test_an_error_in_a_callback_comes_through():
    class Failing(TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            raise RuntimeError("of the user's")

    dtrain, _ = make_data(arboost)
    with pytest.raises(RuntimeError, match="of the user's"):
        arboost.train(PARAMS, dtrain, 2, callbacks=[Failing()])
    assert arboost.train(PARAMS, dtrain, 2).num_boosted_rounds() == 2


def printed(library, capfd, **options):
    dtrain, dvalid = make_data(library)
    library.train(PARAMS, dtrain, 7, evals=[(dtrain, "train"), (dvalid, "valid")], **options)
    out = capfd.readouterr().out
    assert capfd.readouterr().err == ""
    return re.sub(r"(\.\d{4})\d", r"\1", out)  # the fifth digit may be rounded the other way


@pytest.mark.parametrize(
    "options", [{}, {"verbose_eval": 3}, {"verbose_eval": False}, {"early_stopping_rounds": 2}], ids=str
)
def test_what_is_printed(options, capfd):
    assert printed(arboost, capfd, **options) == printed(xgboost, capfd, **options)


# ---- objectives of one's own ----


def squared_error(margin, data):
    return margin - data.get_label(), np.ones_like(margin)


def logistic(margin, data):
    p = 1 / (1 + np.exp(-margin))
    return p - data.get_label(), p * (1 - p)


def softmax(margin, data):
    p = np.exp(margin - margin.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    weight = data.get_weight()[:, None] if data.get_weight().size else 1.0
    return (p - np.eye(N_CLASSES)[data.get_label().astype(int)]) * weight, np.maximum(2 * p * (1 - p), 1e-6) * weight


@pytest.mark.parametrize(
    ("objective", "function"),
    [("reg:squarederror", squared_error), ("binary:logistic", logistic), ("multi:softprob", softmax)],
)
def test_custom_objective_is_the_built_in_one(objective, function):
    base_score = {} if objective == "multi:softprob" else {"base_score": 0.5}
    params = {**PARAMS, **loss_params(objective), **base_score}
    dtrain, _ = make_data(arboost, objective)
    custom = arboost.train(params, dtrain, 4, obj=function)
    theirs = xgboost.train(params, make_data(xgboost, objective)[0], 4, obj=function)
    assert_same_model(custom, theirs)
    if base_score:
        built_in = arboost.train(params, dtrain, 4)
        np.testing.assert_allclose(custom.predict(dtrain), built_in.predict(dtrain), rtol=1e-4, atol=1e-5)


def test_custom_objective_in_any_form():
    """Float64, lists, flat or (n, outputs): all the same."""
    params = {**PARAMS, **loss_params("multi:softprob")}
    dtrain, _ = make_data(arboost, "multi:softprob")
    expected = arboost.train(params, dtrain, 2, obj=softmax).save_raw()
    forms = [
        lambda g, h: (g.astype(np.float64), h.astype(np.float64)),
        lambda g, h: (g.astype(np.float32).tolist(), h.astype(np.float32).tolist()),
        lambda g, h: (np.asfortranarray(g), np.asfortranarray(h)),
        lambda g, h: (g.reshape(-1), h.reshape(-1)),
    ]
    for form in forms:
        assert arboost.train(params, dtrain, 2, obj=lambda m, d, form=form: form(*softmax(m, d))).save_raw() == expected


def test_custom_objective_sees_margins_and_weights():
    shapes = []

    def watch(margin, data):
        shapes.append((margin.shape, margin.dtype, margin.flags.writeable))
        margin[:] = 7  # a copy: changing it changes nothing
        return softmax(np.zeros_like(margin), data)

    weight = np.linspace(0.5, 2, len(X))
    dtrain, _ = make_data(arboost, "multi:softprob", weight=weight)
    arboost.train({**PARAMS, **loss_params("multi:softprob")}, dtrain, 2, obj=watch)
    assert shapes == [((len(X), N_CLASSES), np.float32, True)] * 2


def pseudo_huber(margin, label):
    z = margin - label
    scale = 1.0 + z * z
    root = scale**0.5
    return z / root, 1.0 / (scale * root)


def test_compiled_scalar_loss():
    """A scalar function compiled into the gradient kernel grows the trees of the built-in loss."""
    dtrain, dvalid = make_data(arboost, weight=np.linspace(0.5, 2, len(X)))
    params = {**PARAMS, "base_score": 0.5}
    built_in = arboost.train({**params, "objective": "reg:pseudohubererror"}, dtrain, 4)
    log = {}
    custom = arboost.train(
        params,
        dtrain,
        4,
        obj=arboost.ScalarLoss(pseudo_huber),
        evals=[(dvalid, "v")],
        evals_result=log,
        verbose_eval=False,
    )
    assert len(log["v"]["rmse"]) == 4
    np.testing.assert_allclose(custom.predict(dvalid), built_in.predict(dvalid), rtol=1e-4, atol=1e-5)
    again = [arboost.train({**params, "nthread": n}, dtrain, 4, obj=arboost.ScalarLoss(pseudo_huber)) for n in (2, 3)]
    assert {bytes(b.save_raw()) for b in again} == {bytes(custom.save_raw())}


# ---- metrics of one's own ----


def test_custom_metric():
    logs = []

    def metric(prediction, data):
        return "mine", float(np.mean(np.abs(prediction - data.get_label())))

    for library in (arboost, xgboost):
        for obj in (None, logistic):
            dtrain, dvalid = make_data(library, "binary:logistic")
            log = {}
            library.train(
                {**PARAMS, "objective": "binary:logistic", "base_score": 0.5},
                dtrain,
                3,
                obj=obj,
                custom_metric=metric,
                evals=[(dtrain, "t"), (dvalid, "v")],
                evals_result=log,
                verbose_eval=False,
            )
            logs.append({data: {name: list(scores) for name, scores in m.items()} for data, m in log.items()})
    for ours, theirs in zip(logs[:2], logs[2:], strict=True):
        assert [(d, [*m]) for d, m in ours.items()] == [(d, [*m]) for d, m in theirs.items()]
        for data in theirs:
            for name in theirs[data]:
                np.testing.assert_allclose(ours[data][name], theirs[data][name], rtol=1e-5)
    assert logs[0]["v"]["mine"] != pytest.approx(logs[1]["v"]["mine"], rel=1e-2), "margins with a custom objective"


def test_early_stopping_on_a_custom_metric():
    dtrain, dvalid = make_data(arboost)
    stop = EarlyStopping(rounds=1, metric_name="mine", maximize=True)
    values = iter([1.0, 2.0, 3.0, 2.0, 9.0])
    booster = arboost.train(
        PARAMS,
        dtrain,
        9,
        evals=[(dvalid, "v")],
        custom_metric=lambda p, d: [("mine", next(values)), ("other", 0.0)],
        callbacks=[stop],
        verbose_eval=False,
    )
    assert (booster.best_iteration, booster.best_score, booster.num_boosted_rounds()) == (2, 3.0, 4)


@pytest.mark.parametrize("flag", [True, 1, "true"])
def test_only_a_custom_metric(flag):
    dtrain, _ = make_data(arboost)
    log = {}
    params = {**PARAMS, "disable_default_eval_metric": flag}
    arboost.train(
        params,
        dtrain,
        2,
        evals=[(dtrain, "t")],
        custom_metric=lambda p, d: ("m", 1.0),
        evals_result=log,
        verbose_eval=False,
    )
    assert log == {"t": {"m": [1.0, 1.0]}}


# ---- continuation and data ----


def test_continuation_from_every_form(tmp_path):
    dtrain, _ = make_data(arboost)
    params = {**PARAMS, "subsample": 0.8}
    whole = arboost.train(params, dtrain, 5).save_raw()
    first = arboost.train(params, dtrain, 3)
    first.save_model(tmp_path / "first.json")
    for start in (
        first,
        str(tmp_path / "first.json"),
        tmp_path / "first.json",
        first.save_raw(),
        bytes(first.save_raw()),
    ):
        assert arboost.train(params, dtrain, 2, xgb_model=start).save_raw() == whole


def test_continuation_keeps_what_the_first_training_set():
    dtrain, _ = make_data(arboost)
    first = arboost.train({**PARAMS, "max_depth": 1, "eval_metric": "mae"}, dtrain, 1)
    second = arboost.train({"eta": 0.1}, dtrain, 1, xgb_model=first)
    assert second.get_dump()[1].count("leaf") == 2, "the depth of the first training"
    assert "mae" in second.eval(dtrain)
    from_file = arboost.train({"eta": 0.1}, dtrain, 1, xgb_model=first.save_raw())
    assert from_file.get_dump()[1].count("leaf") > 2, "a file has no training parameters"


def test_evaluation_on_binned_data():
    """A QuantileDMatrix that borrows the training bins gives the scores of a DMatrix."""
    (dtrain, dvalid), y, y_valid = make_data(arboost), make_label("", X), make_label("", X_VALID, 4)
    binned = arboost.QuantileDMatrix(X, y)
    watched = arboost.QuantileDMatrix(X_VALID, y_valid, ref=binned)
    logs = [{}, {}]
    for log, train, valid in zip(logs, (dtrain, binned), (dvalid, watched), strict=True):
        evals = [(train, "t"), (valid, "v")]
        arboost.train(PARAMS, train, 4, evals=evals, evals_result=log, verbose_eval=False)
    assert logs[0] == logs[1]


def test_feature_weights_steer_column_sampling():
    weights = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    dtrain, _ = make_data(arboost, feature_weights=weights)
    booster = arboost.train({**PARAMS, "colsample_bynode": 0.5}, dtrain, 10)
    assert not {"f0", "f1"} & set(booster.get_score())
    assert {"f2", "f5"} <= set(booster.get_score())


def test_several_targets():
    y = np.column_stack([make_label("", X), make_label("", X, 5), -make_label("", X)])
    found, logs = [], []
    for library in (arboost, xgboost):
        data = library.DMatrix(X, y)
        logs.append({})
        booster = library.train(PARAMS, data, 3, evals=[(data, "t")], evals_result=logs[-1], verbose_eval=False)
        found.append(booster)
    assert_same_model(*found)
    assert found[0].predict(arboost.DMatrix(X)).shape == (len(X), 3)
    np.testing.assert_allclose(logs[0]["t"]["rmse"], logs[1]["t"]["rmse"], rtol=1e-5)


def test_seeds():
    dtrain, _ = make_data(arboost)
    params = {**PARAMS, "subsample": 0.5}
    models = {seed: bytes(arboost.train({**params, "seed": seed}, dtrain, 3).save_raw()) for seed in (0, 1, 2)}
    assert len(set(models.values())) == 3
    assert bytes(arboost.train({**params, "random_state": 2}, dtrain, 3).save_raw()) == models[2]
    assert bytes(arboost.train(params, dtrain, 3).save_raw()) == models[0]


def test_sampling_takes_its_share():
    """The root of a tree on half the rows has about half the cover; rounds differ."""
    dtrain, _ = make_data(arboost)
    booster = arboost.train({**PARAMS, "subsample": 0.5, "num_parallel_tree": 2}, dtrain, 20)
    covers = [float(re.search(r"cover=([\d.]+)", tree).group(1)) for tree in booster.get_dump(with_stats=True)]
    assert len(set(covers)) > 5
    assert np.mean(covers) == pytest.approx(150, rel=0.05)
    with pytest.raises(XGBoostError, match="subsample"):
        arboost.train({**PARAMS, "subsample": 1.5}, dtrain, 1)


def test_learning_rate_scheduler_refuses_a_number():
    with pytest.raises(TypeError, match="learning rates"):
        LearningRateScheduler(0.3)
