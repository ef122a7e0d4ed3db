"""The nodes of a grown tree as arrays: one way for all engines."""

import numpy as np

from arboost.kernels.cpu.grow.finish import finish_tree
from arboost.levels.base import Finished


def finish_nodes(
    nodes: np.ndarray,
    cuts: tuple[np.ndarray, ...] | np.ndarray,
    extra: tuple,
    reg: np.ndarray,
    eta: np.float32,
    keep_base: bool = False,
    n_targets: int = 0,
) -> Finished:
    """The tree, its leaves' weights times eta.

    Parameters
    ----------
    nodes
        NODE records.
    cuts
        (ptr, values, min_values) of bins, or a threshold for every node.
    extra
        What is special about this kind of tree, as the kernels see it.
    reg
        The parameter vector of kernels/scalar.py, then gamma and units.
    eta
        What leaves' weights are scaled by.
    keep_base
        Whether a leaf's base_weight is not: so exact trees are in XGBoost's files.
    n_targets
        How many weights a leaf holds, if it holds a vector; 0: one.
    """
    n = len(nodes)
    links, default_left = np.empty((4, n), np.int32), np.empty(n, np.uint8)
    gain_cover, threshold = np.empty((2, n), np.float32), np.empty(n, np.float32)
    base_weight = np.empty((n, n_targets) if n_targets else n, np.float32)
    weights = np.empty_like(base_weight) if n_targets else threshold
    out = (links, threshold, default_left, gain_cover, base_weight, weights)
    finish_tree(nodes, cuts, extra, reg, eta, keep_base, *out)
    gain, cover = gain_cover
    return Finished(links, threshold, default_left, gain, cover, base_weight, weights if n_targets else None)
