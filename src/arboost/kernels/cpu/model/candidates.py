"""Candidate splits one by one, for showing them: the scores that the search compares, and those of each side.

The growers keep only a node's best split; `arboost.trace` asks for all of them and takes the same formulas.
`reg` is split.py's vector.
"""

from numba import float64, int64

from arboost.kernels.cpu.grow.split import G_UNIT, H_UNIT, score_all
from arboost.kernels.jit import kernel
from arboost.kernels.scalar import leaf_score, leaf_weight


@kernel
def score_candidates(g_left, h_left, g_total, h_total, reg, scores, left, right, start, stop):
    """Of splits start..stop of a node: what the search compares (scores, -1 where a side is too light), and the
    similarity of each side (left, right); g_left and h_left are integer sums, all others float64 (OUT).
    """
    n = stop - start
    score_all(g_left[start:stop], h_left[start:stop], n, int64(0), int64(0), g_total, h_total, reg, scores[start:stop])
    for k in range(start, stop):
        g, h = float64(g_left[k]) * reg[G_UNIT], float64(h_left[k]) * reg[H_UNIT]
        left[k] = leaf_score(g, h, reg)
        g, h = float64(g_total - g_left[k]) * reg[G_UNIT], float64(h_total - h_left[k]) * reg[H_UNIT]
        right[k] = leaf_score(g, h, reg)


@kernel
def score_nodes(g, h, reg, scores, weights, start, stop):
    """Similarity and leaf weight (float64, OUT) of nodes start..stop from their integer sums."""
    for i in range(start, stop):
        scores[i] = leaf_score(float64(g[i]) * reg[G_UNIT], float64(h[i]) * reg[H_UNIT], reg)
        weights[i] = leaf_weight(float64(g[i]) * reg[G_UNIT], float64(h[i]) * reg[H_UNIT], reg)
