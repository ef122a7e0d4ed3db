"""The formulas of boosting against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from arboost.kernels import scalar
from arboost.runtime import rng
from pages import compiled

leaf_weight, leaf_score, mix = compiled(scalar.leaf_weight), compiled(scalar.leaf_score), compiled(scalar.mix)
sums = st.floats(-1e6, 1e6)
hessians = st.floats(-1, 1e6)
parameters = st.builds(
    naive.Params,
    reg_lambda=st.floats(0, 10),
    reg_alpha=st.sampled_from([0.0, 0.5, 100.0]),
    max_delta_step=st.sampled_from([0.0, 0.7]),
    min_child_weight=st.sampled_from([0.0, 1.0, 50.0]),
)


def vector(p):
    return np.array([p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight])


@given(sums, hessians, parameters)
def test_weight_and_score_to_the_bit(g, h, p):
    assert leaf_weight(g, h, vector(p)) == naive.leaf_weight(g, h, p)
    assert leaf_score(g, h, vector(p)) == naive.leaf_score(g, h, p)


@given(sums, st.floats(0.5, 1e6), st.floats(0.5, 10), st.sampled_from([0.0, 0.5]), st.floats(-1, 1))
def test_the_weight_is_the_minimum(g, h, lam, alpha, step):
    """g w + (h + lambda) w**2 / 2 + alpha |w| is nowhere lower, and the score is twice what it saves."""

    def loss(w):
        return g * w + (h + lam) * w * w / 2 + alpha * abs(w)

    p = naive.Params(reg_lambda=lam, reg_alpha=alpha, min_child_weight=0.0)
    w = leaf_weight(g, h, vector(p))
    scale = abs(g * w) + (h + lam) * w * w + 1e-300
    assert loss(w) <= loss(w + step) + 1e-12 * scale
    assert leaf_score(g, h, vector(p)) == pytest.approx(-2 * loss(w), rel=1e-9, abs=1e-9 * scale)


def test_light_leaves_weigh_nothing():
    reg = vector(naive.Params(min_child_weight=2.0))
    assert leaf_weight(-3.0, 1.9, reg) == 0
    assert leaf_weight(-3.0, 2.0, reg) == 1
    assert leaf_weight(-3.0, 0.0, vector(naive.Params(min_child_weight=0.0, reg_lambda=0.0))) == 0
    assert leaf_score(-3.0, -1.0, reg) == 0


def test_max_delta_step_clips_both_ways():
    reg = vector(naive.Params(max_delta_step=0.5))
    assert leaf_weight(-30.0, 2.0, reg) == 0.5
    assert leaf_weight(30.0, 2.0, reg) == -0.5
    assert leaf_weight(0.3, 2.0, reg) == -0.3 / 3


@given(st.integers(0, 2**64 - 1))
def test_the_hash_is_the_same_everywhere(x):
    assert int(mix(np.uint64(x))) == naive.mix(x) == int(rng.mix(np.uint64(x)))


def test_the_hash_is_splitmix64():
    """The published first outputs for the seeds 0 and 1234567."""
    assert naive.mix(0) == 0xE220A8397B1DCDAF
    assert naive.mix(1234567) == 6457827717110365317
