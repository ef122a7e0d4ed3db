"""`train` and `cv`: signatures, evaluation, stopping, continuation, interrupts, folds; next to XGBoost's."""

import inspect
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arboost
from arboost import training
from arboost.callback import EarlyStopping, ProgressBar, TrainingCallback
from arboost.runtime.errors import XGBoostError

xgboost = pytest.importorskip("xgboost")

PARAMS = {"max_depth": 3, "eta": 0.5, "nthread": 1}


def make_data(seed=0, n=300):
    rng = np.random.RandomState(seed)
    X = rng.rand(n, 4).round(2).astype(np.float32)  # few distinct values: the bins are XGBoost's
    y = (X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.randn(n)).astype(np.float32)
    return X, y


X, Y = make_data()
XV, YV = make_data(1, 120)


@pytest.fixture
def dtrain():
    return arboost.DMatrix(X, Y)


@pytest.fixture
def dvalid():
    return arboost.DMatrix(XV, YV)


def described(function):
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", ["train", "cv"])
def test_signatures_are_xgboosts(name):
    assert described(getattr(training, name)) == described(getattr(xgboost, name))


# ---- train ----


def test_evals_result_is_xgboosts(dtrain, dvalid):
    ours, theirs = {}, {}
    params = {**PARAMS, "eval_metric": ["mae", "rmse"]}
    booster = arboost.train(
        params, dtrain, 8, evals=[(dtrain, "train"), (dvalid, "valid")], evals_result=ours, verbose_eval=False
    )
    dt, dv = xgboost.DMatrix(X, Y), xgboost.DMatrix(XV, YV)
    xgboost.train(params, dt, 8, evals=[(dt, "train"), (dv, "valid")], evals_result=theirs, verbose_eval=False)
    assert booster.num_boosted_rounds() == 8
    assert [(data, [*metrics]) for data, metrics in ours.items()] == [(d, [*m]) for d, m in theirs.items()]
    for data, metrics in theirs.items():
        for metric, scores in metrics.items():
            np.testing.assert_allclose(ours[data][metric], scores, rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"maximize": True}])
def test_early_stopping_is_xgboosts(dtrain, dvalid, options):
    options = {**options, "early_stopping_rounds": 3, "verbose_eval": False}
    ours = arboost.train({**PARAMS, "eta": 1.0}, dtrain, 60, evals=[(dtrain, "a"), (dvalid, "b")], **options)
    dt, dv = xgboost.DMatrix(X, Y), xgboost.DMatrix(XV, YV)
    theirs = xgboost.train({**PARAMS, "eta": 1.0}, dt, 60, evals=[(dt, "a"), (dv, "b")], **options)
    assert ours.best_iteration == theirs.best_iteration
    assert ours.best_score == pytest.approx(theirs.best_score, rel=1e-4)
    assert ours.num_boosted_rounds() == theirs.num_boosted_rounds() < 60


def test_save_best(dtrain, dvalid):
    stop = EarlyStopping(rounds=3, save_best=True)
    evals = [(dvalid, "valid")]
    best = arboost.train({**PARAMS, "eta": 1.0}, dtrain, 60, evals=evals, verbose_eval=False, callbacks=[stop])
    whole = arboost.train({**PARAMS, "eta": 1.0}, dtrain, 60, evals=evals, verbose_eval=False, early_stopping_rounds=3)
    assert best.num_boosted_rounds() == best.best_iteration + 1 == whole.best_iteration + 1
    assert best.best_score == whole.best_score
    np.testing.assert_array_equal(
        best.predict(dvalid), whole.predict(dvalid, iteration_range=(0, whole.best_iteration + 1))
    )


def test_custom_metric_and_objective(dtrain):
    seen = []

    def objective(margin, data):
        return margin - data.get_label(), np.ones_like(margin)

    def metric(prediction, data):
        seen.append(prediction)
        return [("a", 1.0), ("b", float(np.mean(prediction)))]

    result = {}
    params = {**PARAMS, "base_score": 0.5}
    evals = [(dtrain, "t")]
    custom = arboost.train(
        params, dtrain, 4, evals=evals, obj=objective, custom_metric=metric, evals_result=result, verbose_eval=False
    )
    built_in = arboost.train(params, dtrain, 4)
    np.testing.assert_allclose(custom.predict(dtrain), built_in.predict(dtrain), rtol=1e-5)
    assert [*result["t"]] == ["rmse", "a", "b"]
    assert result["t"]["b"] == pytest.approx([float(np.mean(p)) for p in seen])


def test_continuation_from_every_form(dtrain, tmp_path):
    whole = arboost.train({**PARAMS, "subsample": 0.5, "seed": 7}, dtrain, 6)
    half = arboost.train({**PARAMS, "subsample": 0.5, "seed": 7}, dtrain, 4)
    half.save_model(tmp_path / "half.ubj")
    for start in (half, half.save_raw(), tmp_path / "half.ubj", str(tmp_path / "half.ubj")):
        continued = arboost.train({**PARAMS, "subsample": 0.5, "seed": 7}, dtrain, 2, xgb_model=start)
        assert continued.num_boosted_rounds() == 6
        assert continued.save_raw() == whole.save_raw()
    assert half.num_boosted_rounds() == 4


def test_continuation_counts_rounds(dtrain, dvalid):
    epochs = []

    class Recorder(TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            epochs.append(epoch)
            return False

    half = arboost.train(PARAMS, dtrain, 4)
    stopped = arboost.train(
        {**PARAMS, "eta": 1.0}, dtrain, 60, evals=[(dvalid, "v")], verbose_eval=False, xgb_model=half,
        early_stopping_rounds=2, callbacks=[Recorder()],
    )  # fmt: skip
    assert epochs == [*range(len(epochs))]
    assert stopped.num_boosted_rounds() == 4 + len(epochs)
    assert stopped.best_iteration == stopped.num_boosted_rounds() - 3


def test_parameters_are_left_alone(dtrain):
    params = {"max_depth": 2, "eval_metric": ["mae"]}
    arboost.train(params, dtrain, 1, evals=[(dtrain, "t")], verbose_eval=False)
    arboost.cv(params, dtrain, 1)
    assert params == {"max_depth": 2, "eval_metric": ["mae"]}


def test_lists_of_pairs(dtrain):
    result = {}
    pairs = [("max_depth", 2), ("eval_metric", "mae"), ("eval_metric", "rmse")]
    arboost.train(pairs, dtrain, 1, evals=[(dtrain, "t")], evals_result=result, verbose_eval=False)
    assert [*result["t"]] == ["mae", "rmse"]


@pytest.mark.parametrize(
    ("verbose_eval", "rounds"), [(True, range(7)), (3, [0, 3, 6]), (4, [0, 4, 6]), (False, []), (None, []), (0, [])]
)
def test_verbose_eval(dtrain, capfd, verbose_eval, rounds):
    arboost.train(PARAMS, dtrain, 7, evals=[(dtrain, "t")], verbose_eval=verbose_eval)
    lines = capfd.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [f"[{r}]" for r in rounds]


def test_verbosity_holds_for_the_call_only(dtrain, capfd):
    arboost.train(PARAMS, dtrain, 1)  # whatever is to be compiled is compiled now
    capfd.readouterr()
    before = arboost.get_config()
    seen = []

    class Recorder(TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            seen.append(arboost.get_config()["verbosity"])
            return False

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arboost.train(
            {**PARAMS, "verbosity": 0, "no_such": 1},
            dtrain,
            2,
            evals=[(dtrain, "t")],
            callbacks=[Recorder(), ProgressBar()],
        )
        arboost.cv({**PARAMS, "verbosity": "0"}, dtrain, 2, verbose_eval=True)
    assert seen == [0, 0]
    assert capfd.readouterr() == ("", "")
    assert arboost.get_config() == before


def test_progress_bar_is_told_the_rounds(dtrain, capfd):
    arboost.train(PARAMS, dtrain, 5, evals=[(dtrain, "t")], verbose_eval=False, callbacks=[ProgressBar()])
    arboost.cv(PARAMS, dtrain, 3, callbacks=[ProgressBar()])
    err = capfd.readouterr().err
    assert "5/5  t-rmse:" in err
    assert "3/3  train-rmse:" in err


def test_positional_arguments_warn(dtrain):
    result = {}
    with pytest.warns(FutureWarning, match="Pass `evals`, `obj` as keyword args"):
        arboost.train(PARAMS, dtrain, 1, [(dtrain, "t")], None, evals_result=result, verbose_eval=False)
    assert "t" in result
    with pytest.warns(FutureWarning, match="Pass `nfold` as keyword args"):
        arboost.cv(PARAMS, dtrain, 1, 4)


def test_unused_parameter_warns_at_the_callers_line(dtrain):
    with pytest.warns(UserWarning, match="are not used") as caught:
        arboost.train({"max_dept": 3}, dtrain, 1)
    assert [w.filename for w in caught] == [__file__]
    with arboost.config_context(strict_parameters=True), pytest.raises(XGBoostError, match="max_dept"):
        arboost.train({"max_dept": 3}, dtrain, 1)


@pytest.mark.parametrize("n_rounds", [0, -1])
def test_no_rounds(dtrain, n_rounds):
    assert arboost.train(PARAMS, dtrain, n_rounds, evals=[(dtrain, "t")]).num_boosted_rounds() == 0


def test_xgboosts_own_objects_are_named_with_their_module(dtrain):
    """Two libraries have classes of the same names: a message says whose was given."""
    theirs = xgboost.DMatrix(X, Y)
    booster = arboost.train(PARAMS, dtrain, 1)
    calls = [
        lambda: arboost.train({}, theirs, 1),
        lambda: arboost.cv({}, theirs, 1),
        lambda: arboost.train({}, dtrain, 1, evals=[(theirs, "t")]),
        lambda: arboost.Booster({}, [theirs]),
        lambda: arboost.QuantileDMatrix(X, Y, ref=theirs),
        lambda: booster.predict(theirs),
        lambda: booster.eval(theirs),
        lambda: booster.update(theirs, 1),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"arboost.*got:? xgboost\.core\.DMatrix"):
            call()
    their_booster = xgboost.train({}, theirs, 1)
    with pytest.raises(TypeError, match=r"xgboost\.core\.Booster; give its save_raw"):
        arboost.train({}, dtrain, 1, xgb_model=their_booster)
    with pytest.raises(TypeError, match=r"models\[1\] is a xgboost\.core\.Booster"):
        arboost.Booster.concat([booster, their_booster])
    with pytest.raises(TypeError, match=r"xgboost\.core\.Booster"):
        arboost.interpret.shap_values(their_booster, X)


def test_train_refuses(dtrain):
    with pytest.raises(TypeError, match="dtrain must be a DMatrix"):
        arboost.train({}, X, 1)
    for evals in ([(X, "t")], (dtrain, "t"), [dtrain], [(dtrain,)]):
        with pytest.raises(TypeError, match="Invalid type for the `evals`"):
            arboost.train({}, dtrain, 1, evals=evals)
    with pytest.raises(TypeError):
        arboost.train({}, dtrain, 2.5)
    with pytest.raises(ValueError, match="at least 1 validation dataset"):
        arboost.train({}, dtrain, 2, early_stopping_rounds=1)
    with pytest.raises(TypeError, match="TrainingCallback"):
        arboost.train({}, dtrain, 2, callbacks=[print])
    with pytest.raises(TypeError, match="metric must be callable"):
        arboost.train({}, dtrain, 2, custom_metric="rmse")
    with pytest.raises(XGBoostError, match="max_depth"):
        arboost.train({"max_depth": -1}, dtrain, 2)


# ---- interrupts ----


class InterruptAt(TrainingCallback):
    """Ctrl-C while a callback runs after the given round."""

    def __init__(self, epoch):
        self.epoch, self.ended = epoch, False

    def after_iteration(self, model, epoch, evals_log):
        if epoch == self.epoch:
            raise KeyboardInterrupt
        return False

    def after_training(self, model):
        self.ended = True
        return model


def test_interrupt_between_rounds_leaves_a_usable_model(dtrain):
    interrupt, result = InterruptAt(2), {}
    with pytest.raises(KeyboardInterrupt) as caught:
        arboost.train(
            PARAMS, dtrain, 50, evals=[(dtrain, "t")], callbacks=[interrupt], evals_result=result, verbose_eval=False
        )
    stopped = caught.value
    assert type(stopped) is KeyboardInterrupt, "Python ends by the signal only for this class"
    assert "3 rounds" in str(stopped)
    assert interrupt.ended
    assert len(result["t"]["rmse"]) == 3
    assert stopped.booster.save_raw() == arboost.train(PARAMS, dtrain, 3).save_raw()
    continued = arboost.train(PARAMS, dtrain, 2, xgb_model=stopped.booster)
    assert continued.save_raw() == arboost.train(PARAMS, dtrain, 5).save_raw()


def pressing(n_times, at_round, calls):
    """An objective that presses Ctrl-C in the middle of a round."""

    def objective(margin, data):
        calls.append("begin")
        if calls.count("begin") == at_round + 1:
            for _ in range(n_times):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)  # gives the handler a chance to run
        calls.append("end")
        return margin - data.get_label(), np.ones_like(margin)

    return objective


def test_signal_during_a_round_waits_for_the_round(dtrain):
    calls = []
    with pytest.raises(KeyboardInterrupt) as caught:
        arboost.train(PARAMS, dtrain, 50, obj=pressing(1, 2, calls))
    assert calls == ["begin", "end"] * 3
    assert caught.value.booster.num_boosted_rounds() == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_second_signal_does_not_wait(dtrain):
    calls = []
    with pytest.raises(KeyboardInterrupt) as caught:
        arboost.train(PARAMS, dtrain, 50, obj=pressing(2, 2, calls))
    assert calls == ["begin", "end"] * 2 + ["begin"]
    booster = caught.value.booster
    assert booster.num_boosted_rounds() == 2
    assert booster.save_raw() == arboost.train(PARAMS, dtrain, 2, obj=pressing(0, 0, [])).save_raw()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_users_stays_in_charge(dtrain):
    pressed, calls = [], []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
    try:
        booster = arboost.train(PARAMS, dtrain, 4, obj=pressing(1, 2, calls))
    finally:
        signal.signal(signal.SIGINT, before)
    assert booster.num_boosted_rounds() == 4
    assert pressed == [1]


def test_other_threads_train_too(dtrain):
    done = []
    thread = threading.Thread(target=lambda: done.append(arboost.train(PARAMS, dtrain, 3)))
    thread.start()
    thread.join()
    assert done[0].save_raw() == arboost.train(PARAMS, dtrain, 3).save_raw()


def test_failing_callback_does_not_take_the_model_along(dtrain):
    class Broken(InterruptAt):
        def after_training(self, model):
            raise RuntimeError("broken")

    with pytest.raises(KeyboardInterrupt) as caught:
        arboost.train(PARAMS, dtrain, 50, callbacks=[Broken(1)])
    assert caught.value.booster.num_boosted_rounds() == 2
    assert "broken" in caught.value.__notes__[0]


# ---- cv ----


def test_cv_is_xgboosts(dtrain):
    custom = {"custom_metric": lambda p, d: [("zz", float(d.num_row())), ("aa", 1.0)], "metrics": ("mae", "rmse")}
    for options in ({}, {"nfold": 5, "seed": 3}, {"shuffle": False}, {"metrics": ("mae", "rmse")}, custom):
        ours = arboost.cv(PARAMS, dtrain, 6, **options)
        theirs = xgboost.cv(PARAMS, xgboost.DMatrix(X, Y), 6, **options)
        assert list(ours.columns) == list(theirs.columns)
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4)


def test_cv_metrics_from_anywhere(dtrain):
    by_argument = arboost.cv(PARAMS, dtrain, 2, metrics="mae", as_pandas=False)
    assert [*by_argument] == ["train-mae-mean", "train-mae-std", "test-mae-mean", "test-mae-std"]
    assert arboost.cv({**PARAMS, "eval_metric": "mae"}, dtrain, 2, as_pandas=False) == by_argument
    assert arboost.cv({**PARAMS, "eval_metric": "rmse"}, dtrain, 2, metrics=["mae"], as_pandas=False) == by_argument
    both = arboost.cv([*PARAMS.items(), ("eval_metric", "mae"), ("eval_metric", "rmse")], dtrain, 2, as_pandas=False)
    assert [name.split("-")[1] for name in both][::2] == ["mae", "rmse", "mae", "rmse"]
    custom = arboost.cv(PARAMS, dtrain, 2, custom_metric=lambda p, d: ("mine", d.num_row()), as_pandas=False)
    assert custom["test-mine-mean"] == [100.0, 100.0]
    assert custom["test-mine-std"] == [0.0, 0.0]


def test_cv_early_stopping(dtrain):
    params = {**PARAMS, "eta": 1.0}
    stopped = arboost.cv(params, dtrain, 60, early_stopping_rounds=3)
    whole = arboost.cv(params, dtrain, 60)
    best = int(whole["test-rmse-mean"].argmin())
    assert len(stopped) == best + 1 < 60
    np.testing.assert_array_equal(stopped, whole[: best + 1])


def test_cv_callbacks_see_all_folds(dtrain):
    seen = []

    class Recorder(TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            seen.append((len(model.cvfolds), model.num_boosted_rounds(), evals_log["test"]["rmse"][-1]))
            return epoch == 1

    result = arboost.cv(PARAMS, dtrain, 5, nfold=4, callbacks=[Recorder()], as_pandas=False)
    assert [(folds, rounds) for folds, rounds, _ in seen] == [(4, 1), (4, 2)]
    assert [score[0] for *_, score in seen] == result["test-rmse-mean"]


def test_cv_prints(dtrain, capfd):
    arboost.cv(PARAMS, dtrain, 3, verbose_eval=2)
    arboost.cv(PARAMS, dtrain, 1, verbose_eval=True, show_stdv=False)
    lines = capfd.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["[0]", "[2]", "[0]"]
    assert lines[0].count("+") == 2
    assert lines[2].count("+") == 0


def test_cv_without_pandas(dtrain, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    result = arboost.cv(PARAMS, dtrain, 2)
    assert isinstance(result, dict)
    assert all(isinstance(score, float) for scores in result.values() for score in scores)


def test_cv_learning_rate_reaches_every_fold(dtrain):
    slow = arboost.cv({**PARAMS, "eta": 0.0}, dtrain, 3, as_pandas=False)
    rates = arboost.callback.LearningRateScheduler([0.5, 0.5, 0.5])
    fast = arboost.cv({**PARAMS, "eta": 0.0}, dtrain, 3, callbacks=[rates], as_pandas=False)
    assert fast["train-rmse-mean"][0] == slow["train-rmse-mean"][0]
    assert fast["train-rmse-mean"][2] < slow["train-rmse-mean"][2]


def test_fpreproc(dtrain):
    def preprocess(train, test, params):
        train.set_weight(np.full(train.num_row(), 2.0))
        params["max_depth"] = 1
        return train, test, params

    shallow = arboost.cv({**PARAMS, "max_depth": 1, "min_child_weight": 0, "lambda": 0}, dtrain, 2)
    done = arboost.cv({**PARAMS, "min_child_weight": 0, "lambda": 0}, dtrain, 2, fpreproc=preprocess)
    np.testing.assert_allclose(done, shallow, rtol=1e-5)


def test_cv_refuses(dtrain):
    with pytest.raises(ValueError, match="`QuantileDMatrix` is not yet supported"):
        arboost.cv({}, arboost.QuantileDMatrix(X, Y), 1)
    with pytest.raises(TypeError, match="dtrain must be a DMatrix"):
        arboost.cv({}, X, 1)
    with pytest.raises(XGBoostError, match="nfold must be at least 2"):
        arboost.cv({}, dtrain, 1, nfold=1)
    with pytest.raises(XGBoostError, match="exceeds what there is to split"):
        arboost.cv({}, dtrain, 1, nfold=301)
    with pytest.raises(XGBoostError, match="label of classes"):
        arboost.cv({}, dtrain, 1, stratified=True)
    with pytest.raises(TypeError, match="folds must be"):
        arboost.cv({}, dtrain, 1, folds=3)
    with pytest.raises(XGBoostError, match="folds is empty"):
        arboost.cv({}, dtrain, 1, folds=[])
    with pytest.raises(ValueError, match="`save_best` is not applicable"):
        arboost.cv({}, dtrain, 1, callbacks=[EarlyStopping(rounds=1, save_best=True)])


# ---- folds ----


def parts_of(library, data, **options):
    """The labels of every fold's two parts (labels are row numbers, so they say which rows)."""
    parts = []

    def record(train, test, params):
        parts.append((train.get_label().tolist(), test.get_label().tolist()))
        return train, test, params

    library.cv({"max_depth": 1, "nthread": 1}, data, 1, fpreproc=record, **options)
    return parts


@pytest.mark.parametrize("options", [{}, {"nfold": 7, "seed": 5}, {"shuffle": False, "nfold": 4}])
def test_folds_are_xgboosts(options):
    rows = np.arange(50.0)
    features = rows[:, None]
    ours = parts_of(arboost, arboost.DMatrix(features, rows), **options)
    assert ours == parts_of(xgboost, xgboost.DMatrix(features, rows), **options)


@pytest.mark.parametrize("options", [{"nfold": 3}, {"nfold": 2, "seed": 9}, {"shuffle": False}])
def test_group_folds_are_xgboosts(options):
    rows = np.arange(20.0)
    sizes = [3, 1, 4, 2, 5, 5]
    matrices = [library.DMatrix(rows[:, None], rows) for library in (arboost, xgboost)]
    for matrix in matrices:
        matrix.set_group(sizes)
    assert parts_of(arboost, matrices[0], **options) == parts_of(xgboost, matrices[1], **options)


def test_folds_keep_groups_and_their_weights():
    data = arboost.DMatrix(np.arange(10.0)[:, None], np.arange(10.0))
    data.set_group([4, 3, 3])
    data.set_weight([1.0, 2.0, 3.0])
    seen = []

    def record(train, test, params):
        seen.append((test.get_group().tolist(), test.get_weight().tolist(), train.get_group().tolist()))
        return train, test, params

    arboost.cv({}, data, 1, shuffle=False, fpreproc=record)
    assert seen == [([4], [1.0], [3, 3]), ([3], [2.0], [4, 3]), ([3], [3.0], [4, 3])]


@settings(max_examples=60, deadline=None)
@given(
    label=st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0]), min_size=4, max_size=60),
    n_folds=st.integers(2, 6),
    seed=st.integers(0, 1000),
)
def test_stratified_folds_are_scikit_learns(label, n_folds, seed):
    model_selection = pytest.importorskip("sklearn.model_selection")
    label = np.array(label, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        splitter = model_selection.StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        try:
            theirs = list(splitter.split(label, label))
        except ValueError:
            with pytest.raises(XGBoostError, match="nfold"):
                training._stratified_folds(label, n_folds, np.random.RandomState(seed))
            return
        ours = training._stratified_folds(label, n_folds, np.random.RandomState(seed))
    for (a, b), (c, d) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


def test_stratified_cv(dtrain):
    label = (np.quantile(Y, 0.8) < Y).astype(np.float32)
    data = arboost.DMatrix(X, label)
    parts = parts_of(arboost, data, stratified=True, nfold=4, seed=1)
    assert {sum(test) for _, test in parts} == {15.0}
    with pytest.warns(UserWarning, match="least populated class"):
        rare = np.zeros(30, np.float32)
        rare[:2] = 1
        parts_of(arboost, arboost.DMatrix(X[:30], rare), stratified=True)


def test_given_folds(dtrain):
    model_selection = pytest.importorskip("sklearn.model_selection")
    splitter = model_selection.KFold(4, shuffle=True, random_state=2)
    pairs = list(splitter.split(X))
    by_splitter = arboost.cv(PARAMS, dtrain, 2, folds=splitter)
    for folds in (pairs, tuple(pairs), iter(pairs), [(list(a), list(b)) for a, b in pairs]):
        np.testing.assert_array_equal(arboost.cv(PARAMS, dtrain, 2, folds=folds), by_splitter)


def test_splitters_that_need_groups():
    model_selection = pytest.importorskip("sklearn.model_selection")
    data = arboost.DMatrix(X[:30], np.arange(30.0))
    data.set_group([10, 5, 5, 10])
    parts = parts_of(arboost, data, folds=model_selection.GroupKFold(2))
    group = np.repeat(np.arange(4), [10, 5, 5, 10])
    for train, test in parts:
        assert not set(group[np.array(train, int)]) & set(group[np.array(test, int)])
