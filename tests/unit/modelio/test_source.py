"""Python source: runs without any package, answers as the model does, to the last rounding of an input."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import arboost
from arboost.losses import LOSSES
from arboost.modelio.ensemble import Ensemble
from arboost.modelio.source import lower_bound, to_python
from arboost.params.resolve import resolve
from naive_modelio import gbtree_cases

LARGEST = float(np.finfo(np.float32).max)


def run(source):
    space: dict = {}
    exec(compile(source, "<model>", "exec"), space)
    return space


def load(name):
    return arboost.Booster(model_file=gbtree_cases()[name].raw("ubj"))


float32s = st.floats(width=32, allow_nan=False)


@given(float32s, st.floats(allow_nan=False))
@example(math.inf, LARGEST * (1 + 2**-26))
@example(-LARGEST, -LARGEST * (1 + 2**-25))
@example(0.0, -1e-46)
@example(-math.inf, -math.inf)
def test_bounds_stand_where_rounding_tips_over(threshold, x):
    bound = lower_bound(np.float32(threshold))
    near = [x, threshold, bound, math.nextafter(bound, math.inf), math.nextafter(bound, -math.inf)]
    with np.errstate(over="ignore"):
        for value in near:
            assert (value < bound) == bool(np.float32(value) < np.float32(threshold))


@pytest.mark.parametrize("name", sorted(set(gbtree_cases()) - {"unbiased_rank"}))
def test_predictions(name):
    case = gbtree_cases()[name]
    predict = run(load(name).to_python())["predict"]
    X = np.concatenate([case.X[:100], case.X[:20] + np.float32(0.3), -case.X[:20], np.full_like(case.X[:1], np.inf)])
    theirs = case.booster.inplace_predict(X)
    np.testing.assert_allclose([predict(row) for row in X.tolist()], theirs, rtol=1e-5, atol=1e-6)
    rows = [[None if math.isnan(v) else v for v in row] for row in X.tolist()]
    assert [predict(row) for row in rows] == [predict(row) for row in X.tolist()]


@pytest.mark.parametrize("name", [*sorted(LOSSES), "reg:quantileerror in order"])
def test_the_output_function_of_every_loss(name):
    n = 3 if name.startswith("multi:") else 2
    name, _, in_order = name.partition(" ")
    params = {"objective": name, **({"num_class": 3} if n == 3 else {})}
    params |= {f"{kind}_alpha": [0.2, 0.7] for kind in ("quantile", "expectile") if kind in name}
    params |= {"quantile_alpha": [0.7, 0.2], "quantile_crossing": "forbid"} if in_order else {}
    loss = LOSSES[name].from_params(resolve(params).learner)
    for base in (np.linspace(-1.1, 0.7, n), np.linspace(-3000, -1000, n), np.full(n, 2.0)):
        base = base.astype(np.float32)
        expected = loss.transform(base.reshape(1, -1))[0]
        found = run(to_python(Ensemble([], [], base, 0, loss)))["predict"]([])
        np.testing.assert_allclose(np.atleast_1d(found), expected, rtol=1e-6, atol=1e-37)


def test_it_runs_alone(tmp_path):
    path = tmp_path / "model.py"
    booster = load("early_stopped")
    source = booster.to_python(path)
    assert path.read_text(encoding="utf-8") == source
    assert source.count("import") == 1
    code = (
        f"import runpy; m = runpy.run_path({str(path)!r}); print(m['predict']([0.5, None, -1.0, 2.0]), m['FEATURES'])"
    )
    printed = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    row = np.array([[0.5, np.nan, -1.0, 2.0]], np.float32)
    assert float(printed.split()[0]) == pytest.approx(float(booster.inplace_predict(row, validate_features=False)[0]))
    assert run(source)["FEATURES"] == booster.feature_names
    assert run(load("frame").to_python())["CATEGORIES"][0] == ["bird", "cat", "dog", "eel"]
