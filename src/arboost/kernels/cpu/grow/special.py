"""The search of features that have one of their own: categorical ones, and all where weights are bounded.

Compiled only where a level's `extra` is Special.
"""

from numba import int64

from arboost.kernels.cpu.grow import bounds, categories, nodes, split
from arboost.kernels.jit import part


@part
def _set_scratch(level, thread):
    """(g sums, h sums, weights, order, spare) for categories.py."""
    work, extra = level.search.scratch[thread], level.extra
    return (
        work[split.G_SUMS],
        work[split.H_SUMS],
        extra.weights[thread],
        extra.orders[thread, 0],
        extra.orders[thread, 1],
    )


@part
def find_special(level, thread, n_threads):
    """Every thread its part of the pairs of evaluated nodes and features searched here."""
    extra, page, source = level.extra, level.page, categories.source_of(level)
    evals = level.plan.evals[: level.plan.counts[nodes.EVALS]]
    allowed, reg, work = level.search.allowed, level.search.reg, level.search.scratch[thread]
    of_sets = _set_scratch(level, thread)
    n_features, last_allowed = extra.features.shape[0], allowed.shape[0] - 1
    n = evals.shape[0] * n_features
    for pair in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        e, f = pair // n_features, int64(extra.features[pair % n_features])
        if allowed[e if e < last_allowed else last_allowed, f] != 0:
            i = evals[e]
            node, found = level.nodes[i], level.search.best[e, f]
            found.score = 0.0
            limits = bounds.limits_of(extra.bounds, level.nodes, i, f, reg)
            n_bins = int64(page.n_bins[f])
            if extra.is_category[f]:
                categories.find_set(node, f, source, page.slot_ptr, n_bins, extra.limits, limits, reg, of_sets, found)
            else:
                bounds.find_bounded(node, f, source, page.slot_ptr, n_bins, limits, reg, work, found)


@part
def select_splits(level):
    """Give every evaluated node its best split; write down the sets of those that split by one."""
    extra, reg, best, page = level.extra, level.search.reg, level.search.best, level.page
    evals = level.plan.evals[: level.plan.counts[nodes.EVALS]]
    if extra.bounds.in_force[0] == 0:
        split.select_splits(level.nodes, evals, best, reg, int64(0), int64(evals.shape[0]))
    else:
        bounds.select_by_gain(level.nodes, evals, best, reg)
    source, of_sets = categories.source_of(level), _set_scratch(level, 0)
    for e in range(evals.shape[0]):
        i = evals[e]
        node = level.nodes[i]
        extra.sets.is_set[i] = 0
        if node.feature >= 0 and extra.is_category[node.feature]:
            f = int64(node.feature)
            bits = extra.sets.bits[i]
            categories.keep_set(node, f, source, page.slot_ptr, int64(page.n_bins[f]), extra.limits, reg, of_sets, bits)
            extra.sets.is_set[i] = 1
