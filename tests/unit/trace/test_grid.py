"""The values of the sliders, and that every recorded run is a training of its own."""

import numpy as np
import pytest

import arboost
from arboost.runtime.errors import XGBoostError
from arboost.trace import grid


@pytest.mark.parametrize(
    ("gains", "found"),
    [
        ([4.1667, 52.083, 364.58], [0, 15, 150, 800]),
        ([2.6667], [0, 5]),
        ([], [0]),
        ([1.0, 1.01], [0, 2]),  # too close for a round number between
    ],
)
def test_gammas_lie_between_gains(gains, found):
    gammas = grid.gammas_between(gains)
    assert gammas == pytest.approx(found, rel=0.5)
    assert gammas == sorted(gammas)


def test_at_most_a_handful_of_gammas():
    assert len(grid.gammas_between(np.geomspace(1, 1e6, 40))) <= grid.MAX_GAMMAS


def test_own_values_are_among_the_stops():
    trace = arboost.trace([[3], [8], [11]], [0, 1, 1], {"lambda": 0.7, "eta": 0.25, "gamma": 0.125}, 1)
    axes = grid.axes_of(trace.run, None)
    assert 0.7 in axes["reg_lambda"]
    assert 0.25 in axes["eta"]
    assert 0.125 in axes["gamma"]
    assert grid.own_of(trace.run) == {"reg_lambda": 0.7, "gamma": 0.125, "eta": 0.25}


def test_large_runs_have_fewer_stops():
    X = np.random.default_rng(0).normal(size=(1500, 4))
    trace = arboost.trace(X, X[:, 0], {"max_depth": 2}, 2)
    axes = grid.axes_of(trace.run, None)
    n_runs = np.prod([len(values) for values in axes.values()])
    assert 1 <= n_runs * len(X) * 2 <= grid.BUDGET
    assert all(grid.own_of(trace.run)[name] in values for name, values in axes.items())


def test_every_run_is_a_training_of_its_own():
    trace = arboost.trace.example("salary")
    axes = grid.axes_of(trace.run, {"lambda": [0, 3], "min_split_loss": [0], "learning_rate": [1]})
    assert axes == {"reg_lambda": [0, 1, 3], "gamma": [0, 50], "eta": [0.3, 1]}
    runs = grid.record(axes, trace.run, lambda changed: trace._record(changed)[0])
    assert len(runs) == 12
    assert trace.run in runs
    for run, (lam, gamma, eta) in zip(runs, ((a, b, c) for a in (0, 1, 3) for b in (0, 50) for c in (0.3, 1))):
        assert (run.params["reg_lambda"], run.params["gamma"]) == (lam, gamma)
        assert run.params["eta"] == pytest.approx(eta)
        params = {"tree_method": "exact", "max_depth": 2, "min_child_weight": 0}
        data = arboost.DMatrix([[23, 0], [24, 1], [26, 1], [26, 0], [27, 1]], [50, 70, 80, 65, 85])
        model = arboost.train({**params, "lambda": lam, "gamma": gamma, "eta": eta}, data, 3)
        assert np.array(run.rounds[-1].prediction)[:, 0].tolist() == model.predict(data).tolist()


@pytest.mark.parametrize(
    ("sliders", "message"),
    [({"max_depth": [1, 2]}, "not max_depth"), ({"lambda": range(100), "gamma": range(100)}, "at most 200")],
)
def test_bad_sliders_are_refused(sliders, message):
    trace = arboost.trace([[3], [8], [11]], [0, 1, 1], {}, 1, sliders=sliders)
    with pytest.raises(XGBoostError, match=message):
        trace.to_html()
