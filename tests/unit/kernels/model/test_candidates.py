"""Candidates one by one against the formulas in plain Python."""

import numpy as np
import pytest

from arboost.kernels.cpu.model import candidates


def score(g, h, lam):
    return g * g / (h + lam) if h > 0 else 0.0


@pytest.mark.parametrize("least", [0.0, 4.0])
def test_scores_of_both_sides(least):
    g_left, h_left = np.array([-8, 3, 12, 7]), np.array([2, 5, 9, 16])
    g_unit, h_unit, lam = 0.5, 0.25, 1.5
    reg = np.array([lam, 0.0, 0.0, least, 0.0, g_unit, h_unit])
    total = 7, 20
    scores, left, right = np.full(4, np.nan), np.full(4, np.nan), np.full(4, np.nan)
    for start, stop in ((0, 1), (1, 4)):  # however the range is cut
        candidates.score_candidates(g_left, h_left, *total, reg, scores, left, right, start, stop)
    for k in range(4):
        gl, hl = g_left[k] * g_unit, h_left[k] * h_unit
        gr, hr = total[0] * g_unit - gl, total[1] * h_unit - hl
        assert left[k] == pytest.approx(score(gl, hl, lam))
        assert right[k] == pytest.approx(score(gr, hr, lam))
        light = min(hl, hr) < least
        assert scores[k] == (-1 if light else pytest.approx(left[k] + right[k]))


def test_nodes():
    g, h = np.array([-8, 0, 5]), np.array([4, 0, 2])
    reg = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.5, 0.5])
    scores, weights = np.empty(3), np.empty(3)
    candidates.score_nodes(g, h, reg, scores, weights, 0, 3)
    assert scores.tolist() == [16 / 3, 0, 6.25 / 2]
    assert weights.tolist() == [4 / 3, 0, -2.5 / 2]
