"""Callback logic on a model that only pretends, next to XGBoost's own callbacks where they can be driven alike."""

import inspect
import io
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arboost import callback
from arboost.runtime import settings
from arboost.runtime.errors import XGBoostError

xgboost = pytest.importorskip("xgboost")


class FakeBooster:
    """Counts rounds, keeps attributes and parameters, and reports scores from a list."""

    def __init__(self, scores=(), rounds=0, metric="rmse"):
        self.scores, self.rounds, self.metric = scores, rounds, metric
        self.attributes, self.params, self.set_so_far = {}, {}, []

    def num_boosted_rounds(self):
        return self.rounds

    def set_attr(self, **kwargs):
        self.attributes.update(kwargs)

    def set_param(self, name, value):
        self.params[name] = value
        self.set_so_far.append(value)

    def save_model(self, path):
        path.write_text(str(self.rounds))

    def _eval(self, evals, iteration, feval, output_margin):
        extra = [feval(None, None)] if feval else []
        return [(name, m, v) for _, name in evals for m, v in [(self.metric, self.scores[iteration]), *extra]]

    @property
    def best_iteration(self):
        return int(self.attributes["best_iteration"])

    @property
    def best_score(self):
        return float(self.attributes["best_score"])

    def __getitem__(self, rounds):
        return FakeBooster(self.scores, len(range(self.rounds)[rounds]), self.metric)


def run(container, model, n_rounds, names=("train", "valid")):
    """The loop of `train` without training; returns the rounds done."""
    evals = [(None, name) for name in names]
    model = container.before_training(model)
    for epoch in range(n_rounds):
        if container.before_iteration(model, epoch, None, evals):
            break
        model.rounds += 1
        if container.after_iteration(model, epoch, None, evals):
            break
    return container.after_training(model)


# ---- signatures ----


def described(function):
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values() if p.name != "logger"]


@pytest.mark.parametrize("name", xgboost.callback.__all__)
def test_signatures_are_xgboosts(name):
    ours, theirs = getattr(callback, name), getattr(xgboost.callback, name)
    assert described(ours) == described(theirs)
    for method in vars(theirs):
        if inspect.isfunction(getattr(theirs, method)) and not method.startswith("_"):
            assert described(getattr(ours, method)) == described(getattr(theirs, method)), method
    assert set(xgboost.callback.__all__) <= set(callback.__all__)
    assert hasattr(callback.TrainingCallback, "EvalsLog")


# ---- container ----


def test_history_and_order():
    calls = []

    class Recorder(callback.TrainingCallback):
        def __init__(self, name, stop_at=None):
            self.name, self.stop_at = name, stop_at

        def before_training(self, model):
            calls.append((self.name, "begin"))
            return model

        def before_iteration(self, model, epoch, evals_log):
            calls.append((self.name, "before", epoch))
            return False

        def after_iteration(self, model, epoch, evals_log):
            calls.append((self.name, "after", epoch, len(evals_log["train"]["rmse"])))
            return epoch == self.stop_at

        def after_training(self, model):
            calls.append((self.name, "end"))
            return model

    first, second = Recorder("a", stop_at=1), Recorder("b")
    container = callback.CallbackContainer([first, second, first])
    run(container, FakeBooster([3.0, 2.0, 1.0]), 3, names=("train",))
    assert container.history == {"train": {"rmse": [3.0, 2.0]}}
    assert calls == [
        ("a", "begin"), ("b", "begin"),
        ("a", "before", 0), ("b", "before", 0), ("a", "after", 0, 1), ("b", "after", 0, 1),
        ("a", "before", 1), ("b", "before", 1), ("a", "after", 1, 2),
        ("a", "end"), ("b", "end"),
    ]  # fmt: skip


def test_before_iteration_can_stop():
    class Stop(callback.TrainingCallback):
        def before_iteration(self, model, epoch, evals_log):
            return epoch == 2

    assert run(callback.CallbackContainer([Stop()]), FakeBooster(range(9)), 9).rounds == 2


def test_custom_metric_and_no_evaluation():
    container = callback.CallbackContainer([], metric=lambda prediction, data: ("mine", 7.0))
    run(container, FakeBooster([1.0, 2.0]), 2)
    assert container.history["valid"] == {"rmse": [1.0, 2.0], "mine": [7.0, 7.0]}
    container = callback.CallbackContainer([])
    run(container, FakeBooster(), 2, names=())
    assert container.history == {}


def test_container_takes_whatever_has_the_methods():
    """Tools bring callbacks of XGBoost's class, or of none."""

    class Theirs(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            return epoch == 1

    class OfNone:
        def before_training(self, model):
            return model

        after_training = before_training

        def before_iteration(self, model, epoch, evals_log):
            return False

        def after_iteration(self, model, epoch, evals_log):
            return epoch == 1

    for kind in (Theirs, OfNone):
        model = FakeBooster([3.0, 2.0, 1.0])
        run(callback.CallbackContainer([kind()]), model, 3)
        assert model.rounds == 2


def test_container_refuses():
    with pytest.raises(TypeError, match=r"instance of `TrainingCallback`.*no `before_training`"):
        callback.CallbackContainer([print])
    with pytest.raises(TypeError, match="a class, not an object"):
        callback.CallbackContainer([callback.EvaluationMonitor])
    with pytest.raises(TypeError, match="metric must be callable"):
        callback.CallbackContainer([], metric="rmse")

    class Forgetful(callback.TrainingCallback):
        def before_training(self, model):
            pass

    with pytest.raises(TypeError, match="before_training should return the model"):
        run(callback.CallbackContainer([Forgetful()]), FakeBooster(), 1)


# ---- early stopping ----

SCORES = st.lists(st.one_of(st.integers(0, 6).map(float), st.just(math.nan)), min_size=1, max_size=14)


def drive(early_stopping, model, scores, metric, is_cv):
    """Feed scores to a callback of either library; returns the rounds until it stops."""
    early_stopping.before_training(model)
    log = {"train": {"other": [], metric: []}, "valid": {"first": [], metric: []}}
    for epoch, score in enumerate(scores):
        for data in log.values():
            for name in data:
                value = score if name == metric else 0.0
                data[name].append((value, 0.5) if is_cv else value)
        if early_stopping.after_iteration(model, epoch, log):
            return epoch + 1
    return None


@given(
    scores=SCORES,
    metric=st.sampled_from(["rmse", "auc", "aucpr", "map@3", "mape", "ndcg", "pre@2", "error", "precision"]),
    rounds=st.integers(0, 4),
    maximize=st.sampled_from([None, True, False]),
    min_delta=st.sampled_from([0.0, 0.5, 1.0]),
    start=st.integers(0, 3),
    is_cv=st.booleans(),
    named=st.booleans(),
)
def test_early_stopping_is_xgboosts(scores, metric, rounds, maximize, min_delta, start, is_cv, named):
    options = {"rounds": rounds, "maximize": maximize, "min_delta": min_delta}
    if named:
        options.update(metric_name=metric, data_name="train")
    results = []
    for module in (callback, xgboost.callback):
        model = FakeBooster(rounds=start)
        stopped = drive(module.EarlyStopping(**options), model, scores, metric, is_cv)
        results.append((stopped, model.attributes))
    assert results[0] == results[1]


def test_early_stopping_in_the_loop():
    scores = [5.0, 4.0, 4.5, 4.2, 4.1, 4.0, 3.0]
    model = run(callback.CallbackContainer([callback.EarlyStopping(rounds=3)]), FakeBooster(scores), 7)
    assert (model.rounds, model.best_iteration, model.best_score) == (5, 1, 4.0)


def test_save_best_keeps_the_rounds_before_training():
    stop = callback.EarlyStopping(rounds=2, save_best=True)
    model = run(callback.CallbackContainer([stop]), FakeBooster([5.0, 4.0, 4.5, 4.2], rounds=10), 4)
    assert (model.rounds, model.best_iteration, model.best_score) == (12, 11, 4.0)


def test_save_best_without_a_round():
    model = FakeBooster()
    assert run(callback.CallbackContainer([callback.EarlyStopping(rounds=2, save_best=True)]), model, 0) is model


def test_save_best_where_a_model_has_no_rounds():
    class Linear(FakeBooster):
        def __getitem__(self, rounds):
            raise XGBoostError("no slices")

    with pytest.raises(XGBoostError, match="`save_best` is not applicable"):
        run(callback.CallbackContainer([callback.EarlyStopping(rounds=2, save_best=True)]), Linear([1.0]), 1)


def test_early_stopping_can_be_used_again():
    stop = callback.EarlyStopping(rounds=2)
    for _ in range(2):
        model = run(callback.CallbackContainer([stop]), FakeBooster([1.0, 2.0, 3.0, 4.0]), 4)
        assert (model.rounds, model.best_iteration) == (3, 0)


def test_early_stopping_complaints():
    with pytest.raises(ValueError, match="Must have at least 1 validation dataset"):
        run(callback.CallbackContainer([callback.EarlyStopping(rounds=1)]), FakeBooster(), 1, names=())
    with pytest.raises(ValueError, match="No dataset named: test"):
        run(callback.CallbackContainer([callback.EarlyStopping(rounds=1, data_name="test")]), FakeBooster([1.0]), 1)
    with pytest.raises(ValueError, match="No metric named: auc"):
        run(callback.CallbackContainer([callback.EarlyStopping(rounds=1, metric_name="auc")]), FakeBooster([1.0]), 1)
    with pytest.raises(ValueError, match="min_delta must be greater or equal to 0"):
        callback.EarlyStopping(rounds=1, min_delta=-1)
    model = FakeBooster()
    model.cvfolds = []
    with pytest.raises(ValueError, match="`save_best` is not applicable to the `cv`"):
        callback.EarlyStopping(rounds=1, save_best=True).before_training(model)


def test_positional_arguments_warn():
    with pytest.warns(FutureWarning, match="Pass `rounds`, `metric_name` as keyword args") as caught:
        stop = callback.EarlyStopping(3, "auc")
    assert caught[0].filename == __file__
    assert (stop.rounds, stop.metric_name) == (3, "auc")
    with pytest.raises(TypeError):
        callback.EarlyStopping(3, "auc", metric_name="rmse")
    with pytest.raises(TypeError):
        callback.EarlyStopping(*range(9))
    with pytest.raises(TypeError):
        callback.EarlyStopping()


# ---- monitor ----


@given(period=st.integers(1, 5), n_rounds=st.integers(0, 12), is_cv=st.booleans(), show=st.booleans())
def test_monitor_prints_what_xgboosts_prints(period, n_rounds, is_cv, show):
    outputs = []
    for module in (callback, xgboost.callback):
        lines = []
        monitor = module.EvaluationMonitor(period=period, show_stdv=show, logger=lines.append)
        log = {"train": {"rmse": []}, "valid": {"rmse": [], "auc": []}}
        for epoch in range(n_rounds):
            for data in log.values():
                for scores in data.values():
                    scores.append((epoch / 3, 0.125) if is_cv else epoch / 3)
            assert not monitor.after_iteration(None, epoch, log)
        monitor.after_training(None)
        outputs.append(lines)
    assert outputs[0] == outputs[1]


def test_monitor_prints_to_stdout_and_obeys_verbosity(capfd):
    run(callback.CallbackContainer([callback.EvaluationMonitor()]), FakeBooster([0.5]), 1)
    assert capfd.readouterr() == ("[0]\ttrain-rmse:0.50000\tvalid-rmse:0.50000\n", "")
    with settings.changed(verbosity=0):
        run(callback.CallbackContainer([callback.EvaluationMonitor()]), FakeBooster([0.5]), 1)
    run(callback.CallbackContainer([callback.EvaluationMonitor(rank=1)]), FakeBooster([0.5]), 1)
    run(callback.CallbackContainer([callback.EvaluationMonitor()]), FakeBooster(), 1, names=())
    assert capfd.readouterr() == ("", "")
    with pytest.raises(ValueError, match="period"):
        callback.EvaluationMonitor(period=0)


# ---- learning rate ----


@pytest.mark.parametrize("rates", [[0.5, 0.4, 0.3], (0.5, 0.4, 0.3), lambda epoch: 0.5 - 0.1 * epoch])
def test_learning_rate(rates):
    model = run(callback.CallbackContainer([callback.LearningRateScheduler(rates)]), FakeBooster(), 3, names=())
    assert model.set_so_far == pytest.approx([0.5, 0.4, 0.3])
    assert set(model.params) == {"learning_rate"}


def test_learning_rate_refuses():
    with pytest.raises(TypeError, match="expecting callable or sequence"):
        callback.LearningRateScheduler(0.3)


# ---- check points ----


@pytest.mark.parametrize(
    ("interval", "start", "saved"), [(1, 0, [1, 2, 3, 4, 5]), (2, 0, [2, 4]), (3, 10, [13]), (9, 0, [])]
)
def test_check_points(tmp_path, interval, start, saved):
    checkpoint = callback.TrainingCheckPoint(tmp_path, name="m", interval=interval)
    run(callback.CallbackContainer([checkpoint]), FakeBooster(rounds=start), 6, names=())
    assert {path.name for path in tmp_path.iterdir()} == {f"m_{number}.ubj" for number in saved}
    for number in saved:
        assert (tmp_path / f"m_{number}.ubj").read_text() == str(number + 1)  # rounds are counted from 0


def test_check_points_as_pickle(tmp_path):
    checkpoint = callback.TrainingCheckPoint(str(tmp_path), as_pickle=True, interval=1)
    run(callback.CallbackContainer([checkpoint]), FakeBooster(), 2, names=())
    assert pickle.loads((tmp_path / "model_1.pkl").read_bytes()).rounds == 2


def test_failed_check_point_leaves_nothing(tmp_path):
    class Broken(FakeBooster):
        def __reduce__(self):
            raise OSError("disk full")

    check_point = callback.TrainingCheckPoint(tmp_path, as_pickle=True, interval=1)
    with pytest.raises(OSError, match="disk full"):
        run(callback.CallbackContainer([check_point]), Broken(), 2, names=())
    assert not list(tmp_path.iterdir())


def test_check_point_refuses(tmp_path):
    with pytest.raises(ValueError, match="interval"):
        callback.TrainingCheckPoint(tmp_path, interval=0)
    model = FakeBooster()
    model.cvfolds = []
    with pytest.raises(ValueError, match="not applicable to the `cv`"):
        callback.TrainingCheckPoint(tmp_path).before_training(model)


# ---- progress ----


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show_progress(stream, total=None, expected=None, n_rounds=20, interval=0.0):
    bar = callback.ProgressBar(total, stream=stream, interval=interval)
    if expected is not None:
        bar.expect(expected)
    run(callback.CallbackContainer([bar]), FakeBooster([0.25] * n_rounds), n_rounds, names=("valid",))
    return stream.getvalue()


def test_progress_is_one_line_on_a_terminal():
    text = show_progress(Terminal(), expected=20)
    assert text.count("\n") == 1 and text.endswith("\n")
    frames = text.rstrip("\n").split("\r")[1:]
    assert len(frames) == 21  # every round, and the end
    assert frames[9].startswith("[##########..........] 10/20  valid-rmse:0.25000")
    assert frames[9].rstrip().endswith("s left")
    assert frames[-1].startswith("[####################] 20/20")
    assert "left" not in frames[-1]


def test_progress_overwrites_longer_lines_and_fits_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    frames = show_progress(Terminal(), expected=20).rstrip("\n").split("\r")[1:]
    assert all(len(frame) <= 29 for frame in frames)
    monkeypatch.setenv("COLUMNS", "200")
    frames = show_progress(Terminal(), expected=20).rstrip("\n").split("\r")[1:]
    widths = [len(frame) for frame in frames]
    assert all(later >= len(earlier.rstrip()) for earlier, later in zip(frames, widths[1:], strict=False))


def test_progress_is_not_redrawn_all_the_time():
    text = show_progress(Terminal(), expected=20, interval=60)
    assert text.count("\r") == 1


def test_progress_elsewhere_is_plain_lines():
    lines = show_progress(io.StringIO(), expected=20).splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("[##..................] 2/20  valid-rmse:0.25000")
    assert lines[-1].startswith("[####################] 20/20")
    assert "\r" not in "".join(lines)


def test_progress_with_a_total_of_the_users_or_none():
    assert "20/40" in show_progress(io.StringIO(), total=40, expected=20)
    lines = show_progress(io.StringIO()).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["10 rounds", "20 rounds", "20 rounds"]
    assert show_progress(io.StringIO(), n_rounds=0) == ""


def test_progress_says_nothing_at_verbosity_0_and_stderr_else(capfd):
    with settings.changed(verbosity=0):
        assert show_progress(Terminal(), expected=20) == ""
        assert show_progress(io.StringIO(), expected=20) == ""
    run(callback.CallbackContainer([callback.ProgressBar(1)]), FakeBooster([0.5]), 1)
    out, err = capfd.readouterr()
    assert out == "" and "1/1" in err
