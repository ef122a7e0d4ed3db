"""Any parameters and data together: a device gives the CPU's bytes, or the CPU's error."""

import warnings

import pytest

import arboost
from arboost.runtime.errors import XGBoostError
from combination_checks import train
from combinations import draw
from device_cases import IS_REAL

SEEDS = range(80) if IS_REAL else range(13, 30)


def outcome(d, device):
    params = {"verbosity": 0, "nthread": 2, **d.params, "device": device}
    params["max_bin"] = params.get("max_bin", 256) if IS_REAL else min(16, params.get("max_bin", 16))
    try:
        data = d.make_matrix(arboost)
        booster, metrics = train(arboost, d, params, data, [(data, "train")])
    except (XGBoostError, ValueError) as error:
        return str(error)
    return bytes(booster.save_raw()), metrics


@pytest.mark.parametrize("seed", SEEDS)
def test_a_draw(seed):
    d = draw(seed, largest=20_000 if IS_REAL else 60)
    if not IS_REAL:
        d.n_rounds, d.n_more_rounds = min(d.n_rounds, 2), min(d.n_more_rounds, 1)
        d.params["max_depth"] = min(4, d.params.get("max_depth") or 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_cpu, of_device = outcome(d, "cpu"), outcome(d, "cuda")
    assert str(of_device) == str(of_cpu), str(d)  # as text: a metric may be NaN
