"""`level.carry_out` for categorical features and constraints: compiled only where there are some.

To the arrays of level.py comes general = (categories, bounds, allowed, scratch) with
    categories = (features, is_category (n_features,) uint8, limits, feature_of, default_of, bits)
    bounds     = (constraints (n_features,) int64, least, largest, [1 if there are any])
    scratch    = (weights (n_threads, widest) float32, orders (n_threads, 2, widest) int64)
`features` are those searched here instead of in split.py: categorical ones, all if there are bounds. feature_of[i] is
the feature of a node that is split by a set of categories, else -1; such a node is split on a made column, page[4][0],
that holds 0 where a row goes left and 1 where it goes right. Its number is that of features.
"""

from numba import int64, uint64

from arboost.kernels.cpu import category, constrained, expand, split
from arboost.kernels.cpu.level import FIND, OPEN, OPEN_AND_FIND, open_batch, search_bins
from arboost.kernels.cpu.team import STOP, await_order, barrier, post
from arboost.kernels.jit import kernel, part, section

SIDES = OPEN_AND_FIND + 1  # write the made column for the batch, no more


@part
def _bounds_of(node, i, f, bounds, reg):
    constraints, least, largest, any_bounds = bounds
    if any_bounds[0] == 0:
        return 0.0, 0.0, int64(0), 0.0, int64(0)
    parent = constrained.node_score(node, least[i], largest[i], reg)
    return least[i], largest[i], constraints[f], parent, int64(1)


@section
def _find(page, nodes, source, plan, search, general, thread, n_threads):
    """Every thread its part of the pairs of evaluated nodes and features searched here."""
    evals = plan[4][: plan[5][expand.EVALS]]
    categories, bounds, allowed, scratch = general
    features, is_category, limits = categories[0], categories[1], categories[2]
    reg, best, rows = search[3], search[4], search[5][thread]
    sums = rows[split.G_SUMS], rows[split.H_SUMS]
    of_bins = rows[split.BINS], rows[split.G_LEFT], rows[split.H_LEFT], sums[0], sums[1], rows[split.OCCUPIED]
    of_sets = sums[0], sums[1], scratch[0][thread], scratch[1][thread, 0], scratch[1][thread, 1]
    n_features, last_allowed = features.shape[0], allowed.shape[0] - 1
    n = evals.shape[0] * n_features
    for pair in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        e, f = pair // n_features, int64(features[pair % n_features])
        if allowed[e if e < last_allowed else last_allowed, f] != 0:
            i = evals[e]
            node, found = nodes[i], best[e, f]
            found.score = 0.0
            bound = _bounds_of(node, i, f, bounds, reg)
            n_bins = int64(page[3][f])
            if is_category[f]:
                category.find_set(node, f, source, page[2], n_bins, limits, bound, reg, of_sets, found)
            else:
                constrained.find_bounded(node, f, source, page[2], n_bins, bound, reg, of_bins, found)


@section
def _choose(page, nodes, source, plan, search, general):
    """Give every evaluated node its best split; write down the sets of those that split by one."""
    categories, bounds, _, scratch = general
    _, is_category, limits, feature_of, default_of, bits = categories
    evals = plan[4][: plan[5][expand.EVALS]]
    reg, rows = search[3], search[5][0]
    if bounds[3][0] == 0:
        split.select_splits(nodes, evals, search[4], reg, int64(0), int64(evals.shape[0]))
    else:
        constrained.select_by_gain(nodes, evals, search[4], reg)
    expand.open_nodes(nodes, evals, plan[1], plan[5], search[1])
    of_sets = rows[split.G_SUMS], rows[split.H_SUMS], scratch[0][0], scratch[1][0, 0], scratch[1][0, 1]
    for e in range(evals.shape[0]):
        i = evals[e]
        node = nodes[i]
        feature_of[i] = -1
        if node.feature >= 0 and is_category[node.feature]:
            f = int64(node.feature)
            category.keep_set(node, f, source, page[2], int64(page[3][f]), limits, reg, of_sets, bits[i])
            feature_of[i], default_of[i] = f, node.default_left
            node.feature, node.bin, node.default_left = page[3].shape[0], 0, 0


@section
def _write_sides(page, nodes, rowsets, missing_code, plan, search, categories, thread, n_threads):
    """Every thread its part of the batch's rows: where they go at categorical nodes.

    Nodes of a tree own different rows, so one column serves them all, and keeps what was written for closed nodes.
    """
    batch = search[0][: plan[5][expand.BATCH]]
    rows = rowsets[0][: plan[5][expand.ORDERED_ROWS]]
    feature_of, default_of, bits = categories[3], categories[4], categories[5]
    columns, side = page[1], page[4][0]
    for b in range(batch.shape[0]):
        i = batch[b]
        if feature_of[i] >= 0:
            node, column, default_left = nodes[i], columns[feature_of[i]], default_of[i]
            n = node.stop - node.start
            for j in range(node.start + n * thread // n_threads, node.start + n * (thread + 1) // n_threads):
                r = uint64(j) if rows.shape[0] == 0 else uint64(rows[j])
                side[r] = category.goes_right(bits, i, uint64(column[r]), default_left, uint64(missing_code))


@kernel
def carry_out(
    order, page, nodes, rowsets, missing_code, gradients, plan, store, search, general, team, thread, n_threads
):
    """The leader (thread 0) carries out one order; a follower all orders until it is sent home."""
    if thread == 0:
        post(team, order, n_threads)
    n_seen = order
    while True:
        if thread > 0:
            order = await_order(team, n_seen)
            n_seen += 1
        if order == OPEN or order == SIDES:
            _write_sides(page, nodes, rowsets, missing_code, plan, search, general[0], thread, n_threads)
            if barrier(team, n_threads):
                return
        if order == OPEN:
            open_batch(page, nodes, rowsets, missing_code, gradients, plan, store, search, team, thread, n_threads)
        elif order == FIND:
            rows = rowsets[0][: plan[5][expand.ORDERED_ROWS]]
            planes = gradients[0]
            source = (store[3], page[1], rows, planes[0], planes[planes.shape[0] - 1], gradients[1][0, 0])
            search_bins(page, nodes, rowsets, gradients, plan, store[3], search, team, thread, n_threads)
            if barrier(team, n_threads):  # split.py's zeros are written before they are replaced here
                return
            _find(page, nodes, source, plan, search, general, thread, n_threads)
            if barrier(team, n_threads):
                return
            if thread == 0:
                _choose(page, nodes, source, plan, search, general)
        if order == STOP or barrier(team, n_threads) or thread == 0:
            return


@kernel
def add_tree_by_sets(bins, nodes, weights, skip, missing_code, categories, target, margin, start, stop):
    """`add_tree_by_bins` for a tree that may have categorical nodes."""
    feature_of, default_of, bits = categories[3], categories[4], categories[5]
    for r in range(uint64(start), uint64(stop)):
        if skip[r]:
            continue
        i = int64(0)
        while nodes[i].left >= 0:
            node = nodes[i]
            if feature_of[i] >= 0:
                code = uint64(bins[r, uint64(feature_of[i])])
                goes_left = category.goes_right(bits, i, code, default_of[i], uint64(missing_code)) == 0
            else:
                code = uint64(bins[r, uint64(node.feature)])
                goes_left = (int64(code) <= node.bin) | ((code == uint64(missing_code)) & (node.default_left != 0))
            i = int64(node.left if goes_left else node.right)
        margin[r, uint64(target)] += weights[i]
