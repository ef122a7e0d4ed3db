"""Ranking, for every back end: keys that sort, gains, what a pair of documents weighs and pulls. No loops live here.

Ranks count from 0, the highest score first. A pair adds delta * log(1 + e**-(s_high - s_low)) to the loss.
"""

from numba import float32, float64, uint32, uint64

from arboost.kernels.elementary import bits_of, exp, inlined, log1p
from arboost.kernels.jit import scalar
from arboost.kernels.scalar import mix

NDCG, MAP, PAIRWISE = 0, 1, 2  # what `delta` measures
# entries of the `settings` of gradients (int64)
KIND, N_PAIRS, AT_RANDOM, BY_DISTANCE, NORMALISE, EXP_GAIN, KEY, FIRST_ROW, N_SETTINGS = range(9)
LN2 = 0.6931471805599453
TINY = 1e-16
ROW_MASK = 0xFFFFFFFF  # of a key: the row's place in its group
_MIN_SCORE_DISTANCE = 0.01  # added to a distance of scores before it divides


@scalar
def falling_key(x):
    """A uint64 in 32 bits that is smaller for a larger float32; -0 and 0 are one, every NaN is above all numbers."""
    if x != x:  # which of the many NaN it is differs from processor to processor
        return uint64(0)
    bits = bits_of(x + float32(0.0))
    return uint64(bits if bits >> uint32(31) else bits ^ uint32(0x7FFFFFFF))


@scalar
def gain(label, exp_gain):
    """2**label - 1 for labels up to 31, or the label."""
    return float64((uint64(1) << uint64(label)) - uint64(1)) if exp_gain else float64(label)


@scalar
def precision_change(falls, hits_a, hits_b, all_hits, between, a, b):
    """Change of the average precision if ranks a < b swapped: their own terms, and those of the hits `between`.

    `hits` are those up to a rank, its own included; `falls`: the label of a is the higher one.
    """
    last = hits_b / float64(b + uint64(1))
    place = float64(a + uint64(1))
    change = hits_a / place + between - last if falls else (hits_a + 1.0) / place + between - last
    return abs(change) / all_hits


@inlined
def pair_derivatives(distance, delta, by_distance):
    """First derivative by s_high and (XGBoost's, twice the true) second of a pair, and its delta as it counts."""
    d = delta / (abs(distance) + _MIN_SCORE_DISTANCE) if by_distance else delta
    p = 1.0 / (1.0 + exp(-distance))
    curvature = p * (1.0 - p)
    return (p - 1.0) * d, (curvature if curvature > TINY else TINY) * d * 2.0, d


@scalar
def group_factor(total):
    """What normalises a group whose pairs' lambdas have this sum."""
    return log1p(total) / LN2 / total if total > 0.0 else 1.0


@scalar
def draw_partner(key, draw, first, last, n):
    """A random place in 0 .. n outside first .. last: the same for this key and draw wherever it is made."""
    others = first + (n - last)
    place = ((mix(key ^ mix(draw)) >> uint64(32)) * others) >> uint64(32)
    return place if place < first else place + (last - first)
