"""The formulas of boosting, once, for every back end: gain, weight, direction, hash.

Chen & Guestrin (2016), equations 5-7, with XGBoost's conventions: gain carries no factor 1/2, `reg` is the vector
[lambda, alpha, max_delta_step, min_child_weight]. Plain IEEE float64, no fused operations.
"""

from numba import int64, uint64

from arboost.kernels.jit import scalar

LAMBDA, ALPHA, MAX_DELTA_STEP, MIN_CHILD_WEIGHT = 0, 1, 2, 3
MIN_GAIN = 1e-6  # XGBoost's kRtEps: a split must gain more than this


@scalar
def clip(x, n):
    """The integer x kept within 0 .. n."""
    return int64(0) if x < 0 else n if x > n else x


@scalar
def soft_threshold(g, alpha):
    """The gradient sum after the L1 penalty: shrunk towards zero by alpha."""
    if g > alpha:
        return g - alpha
    if g < -alpha:
        return g + alpha
    return 0.0


@scalar
def leaf_weight(g, h, reg):
    """The weight that minimises the regularised second-order loss of a leaf with sums g and h."""
    if h < reg[MIN_CHILD_WEIGHT] or h <= 0.0:
        return 0.0
    weight = -soft_threshold(g, reg[ALPHA]) / (h + reg[LAMBDA])
    limit = reg[MAX_DELTA_STEP]
    if limit != 0.0 and abs(weight) > limit:
        weight = limit if weight > 0.0 else -limit
    return weight


@scalar
def leaf_score(g, h, reg):
    """The loss reduction of a leaf with sums g and h (the similarity score of a node)."""
    if h <= 0.0:
        return 0.0
    if reg[MAX_DELTA_STEP] == 0.0:
        shrunk = soft_threshold(g, reg[ALPHA])
        return shrunk * shrunk / (h + reg[LAMBDA])
    weight = leaf_weight(g, h, reg)
    return -(2.0 * g * weight + (h + reg[LAMBDA]) * weight * weight)


@scalar
def bounded_weight(g, h, least, largest, smooth, above, reg):
    """The best weight of a leaf within bounds, drawn to the weight `above` it."""
    weight = leaf_weight(g, h, reg)
    if smooth > 0.0 and h >= 0.0:
        weight = (weight * h + above * smooth) / (h + smooth)
    return least if weight < least else largest if weight > largest else weight


@scalar
def score_of_weight(g, h, weight, reg):
    """The loss reduction of a leaf that takes this weight."""
    return -(2.0 * g * weight + (h + reg[LAMBDA]) * weight * weight) if h > 0.0 else 0.0


@scalar
def mix(x):
    """A 64-bit finaliser (splitmix64): every input bit reaches every output bit."""
    x = uint64(x) + uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
    return x ^ (x >> uint64(31))
