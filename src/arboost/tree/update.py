"""Old trees revisited (XGBoost's updaters `refresh` and `prune`): new statistics from new data, splits taken back.

Trees never change: what is returned is a new tree that shares the arrays that stay the same. Sums are integers, so
the result does not depend on threads. A node that pruning cuts off keeps its place, marked, as in XGBoost's files.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from arboost.kernels.ops import refresh as ops
from arboost.levels.quantize import QuantizedGradients
from arboost.params.resolve import TreeParams
from arboost.runtime.context import Context
from arboost.runtime.pool import split_range
from arboost.tree.model import DELETED, Tree

_GRAIN = 16_384


def add_leaf_sums(
    ctx: Context, leaves: np.ndarray, first_row: int, gradients: QuantizedGradients, sums: Sequence[np.ndarray]
) -> None:
    """sums[t] (n_nodes, 2) int64 += the gradients of rows first_row.., which lie in leaves (n, n_trees)."""
    shift = int(gradients.packings[0, 0])
    spans = split_range(len(leaves), ctx.n_threads, _GRAIN)
    for t, total in enumerate(sums):
        parts = [np.zeros_like(total) for _ in spans]
        ctx.run_tasks(
            ops.add_leaf_sums,
            [
                (leaves, t, gradients.planes, shift, first_row, part, a, b)
                for part, (a, b) in zip(parts, spans, strict=True)
            ],
        )
        for part in parts:
            total += part


def refresh(
    ctx: Context, tree: Tree, sums: np.ndarray, gradients: QuantizedGradients, params: TreeParams, eta: np.float32
) -> Tree:
    """The tree with statistics, and where `refresh_leaf` says so leaves, from the sums of its leaves.

    Constraints are not looked at, as in XGBoost.
    """
    sums = ctx.comm.allreduce_sum(sums)
    for nodes in reversed(levels(tree)[1:]):
        np.add.at(sums, tree.parent[nodes], sums[nodes])
    reg = [params.reg_lambda, params.reg_alpha, params.max_delta_step, params.min_child_weight]
    units = np.array([gradients.g_unit, gradients.h_unit])
    out = [np.empty(tree.n_nodes, np.float32) for _ in range(3)]
    ops.refresh_nodes(tree.left, tree.right, sums, units, np.array(reg, np.float64), *out, 0, tree.n_nodes)
    gain, cover, base_weight = out
    gone, threshold = tree.feature == DELETED, tree.threshold
    if params.refresh_leaf:
        threshold = np.where((tree.left < 0) & ~gone, base_weight * eta, threshold)
    for new, old in ((gain, tree.gain), (cover, tree.cover), (base_weight, tree.base_weight)):
        new[gone] = old[gone]
    return replace(tree, gain=gain, cover=cover, base_weight=base_weight, threshold=threshold)


def prune(tree: Tree, params: TreeParams, eta: np.float32) -> Tree:
    """The tree without splits that gain less than gamma or lie too deep, from the bottom up.

    A split goes only if both of its children are leaves, or have become leaves.
    """
    is_leaf, order = tree.left < 0, levels(tree)
    for depth in range(len(order) - 1, -1, -1):
        nodes = order[depth][~is_leaf[order[depth]]]
        too_deep = params.max_depth != 0 and depth + 1 > params.max_depth
        poor = (tree.gain[nodes] < params.gamma) | too_deep
        is_leaf[nodes[poor & is_leaf[tree.left[nodes]] & is_leaf[tree.right[nodes]]]] = True
    pruned = is_leaf & (tree.left >= 0)
    if not pruned.any():
        return tree
    gone = np.zeros(tree.n_nodes, np.bool_)
    for nodes in order[1:]:
        gone[nodes] = is_leaf[tree.parent[nodes]]
    short = replace(
        tree,
        left=np.where(is_leaf, np.int32(-1), tree.left),
        right=np.where(is_leaf, np.int32(-1), tree.right),
        feature=np.where(gone, np.int32(DELETED), tree.feature),
        threshold=np.where(pruned, tree.base_weight * eta, tree.threshold),
        default_left=np.where(gone, np.uint8(1), tree.default_left),
    )
    if pruned[tree.categories_nodes].any():
        short.take_sets({node: members for node, members in tree.sets.items() if not pruned[node]})
    return short


def levels(tree: Tree) -> list[np.ndarray]:
    """The nodes of every depth, from the root down; nodes that were cut off are in none."""
    found = [np.zeros(1, np.int64)]
    while True:
        inner = found[-1][tree.left[found[-1]] >= 0]
        if not len(inner):
            return found
        found.append(np.concatenate([tree.left[inner], tree.right[inner]]).astype(np.int64))
