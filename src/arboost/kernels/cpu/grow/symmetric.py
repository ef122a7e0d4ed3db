"""One condition for all nodes of a level, by scores summed over them: symmetric trees.

A candidate's score is the sum, in the order of the level's nodes, of the scores of the two children that each of them
would have. A child that is lighter than min_child_weight gets the weight 0 and adds nothing; it forbids no condition.
A level is opened if its gain is at least gamma for every node that it opens. Categories are sorted by their sums over
the whole level. Under bounds, where the two weights of a node would go the wrong way, both get the one between.

Where leaves hold vectors, a node's score is the sum over its targets.

The order of preference is that of split.py and categories.py. Compiled only where a level's search has `symmetric`.
"""

from numba import float64, int64, uint64

from arboost.kernels.cpu.grow import bounds, categories, nodes, search, search_vectors, split, vectors
from arboost.kernels.cpu.grow import choice as choosing
from arboost.kernels.cpu.grow.arrays import Choice, Special, Vectors, is_of
from arboost.kernels.cpu.grow.jobs import FIND_JOBS, FIND_SLOTS, n_jobs
from arboost.kernels.cpu.grow.split import G_UNIT, GAMMA, H_UNIT
from arboost.kernels.cpu.grow.team import take_job
from arboost.kernels.jit import forms_of, part
from arboost.kernels.scalar import ALPHA, LAMBDA, MAX_DELTA_STEP, MIN_CHILD_WEIGHT, MIN_GAIN, leaf_score

# ---- what a node adds to a candidate's score ----


@part
def _child_score(g, h, reg):
    """The score of a child, 0 if it is too light."""
    return leaf_score(g, h, reg) if h >= reg[MIN_CHILD_WEIGHT] else 0.0


@part
def _pair_score(g_left, h_left, node, reg):
    """The scores of a node's two children together, in the form that `vectors.add_scores` has them."""
    gl, hl = float64(g_left) * reg[G_UNIT], float64(h_left) * reg[H_UNIT]
    gr, hr = float64(node.g - g_left) * reg[G_UNIT], float64(node.h - h_left) * reg[H_UNIT]
    if reg[ALPHA] != 0.0 or reg[MAX_DELTA_STEP] != 0.0:
        return _child_score(gl, hl, reg) + _child_score(gr, hr, reg)
    counts_l = hl >= reg[MIN_CHILD_WEIGHT] and hl > 0.0
    counts_r = hr >= reg[MIN_CHILD_WEIGHT] and hr > 0.0
    dl, dr = hl + reg[LAMBDA] if counts_l else 1.0, hr + reg[LAMBDA] if counts_r else 1.0
    return ((gl * gl if counts_l else 0.0) * dr + (gr * gr if counts_r else 0.0) * dl) / (dl * dr)


@part
def _bounded_gain(g_left, h_left, node, limits, reg):
    """What a node gains under its bounds; limits: see bounds.py."""
    least, largest, constraint, parent, _, smooth, above = limits
    gl, hl = float64(g_left) * reg[G_UNIT], float64(h_left) * reg[H_UNIT]
    gr, hr = float64(node.g - g_left) * reg[G_UNIT], float64(node.h - h_left) * reg[H_UNIT]
    wl = bounds.bounded_weight(gl, hl, least, largest, smooth, above, reg)
    wr = bounds.bounded_weight(gr, hr, least, largest, smooth, above, reg)
    if (constraint > 0 and wl > wr) or (constraint < 0 and wl < wr):
        wl = wr = (wl + wr) / 2.0
    return bounds.score_of_weight(gl, hl, wl, reg) + bounds.score_of_weight(gr, hr, wr, reg) - parent


@part
def _term(g_left, h_left, node, limits, reg):
    """What a node adds to the score of a candidate: without bounds its children's scores, with bounds its gain."""
    if limits[4] != 0:
        return _bounded_gain(g_left, h_left, node, limits, reg)
    return _pair_score(g_left, h_left, node, reg)


# ---- bins ----


@part
def _add_scores(g_left, h_left, n, missing, node, reg, score):
    """score[k] += the scores of a node's children when it is split after entry k; missing = (g, h) that go left too."""
    if reg[ALPHA] == 0.0 and reg[MAX_DELTA_STEP] == 0.0:
        unit = reg[G_UNIT], reg[H_UNIT]
        vectors.add_scores(g_left, h_left, n, missing, (node.g, node.h), unit, reg, score)
        return
    for k in range(uint64(n)):
        score[k] += _pair_score(g_left[k] + missing[0], h_left[k] + missing[1], node, reg)


@part
def _add_gains(g_left, h_left, n, missing, node, limits, reg, score):
    """The same under bounds."""
    for k in range(uint64(n)):
        score[k] += _bounded_gain(g_left[k] + missing[0], h_left[k] + missing[1], node, limits, reg)


def _limits_of(extra, level_nodes, i, f, reg):
    """What bounds leave to node i: see bounds.py."""
    raise NotImplementedError  # only its compiled forms below are ever called


@forms_of(_limits_of)
def _choose_limits_of(extra, level_nodes, i, f, reg):
    if is_of(extra, Special):
        return lambda extra, level_nodes, i, f, reg: bounds.limits_of(extra.bounds, level_nodes, i, f, reg)
    return lambda extra, level_nodes, i, f, reg: (0.0, 0.0, int64(0), 0.0, int64(0), 0.0, 0.0)


@part
def _sum_scores(level, evals, f, side, work, score):
    """score (OUT) = the sum over the level's nodes for every bin, missing values on the right (0) or left (1).

    Returns the number of bins, and whether the feature misses rows.
    """
    reg, g_left, h_left = level.search.reg, work[split.G_LEFT], work[split.H_LEFT]
    n, has_missing = int64(0), False
    for e in range(evals.shape[0]):
        i = evals[e]
        node = level.nodes[i]
        n = search.sum_bins(level.page, node, level.buffers.hist[node.hist], f, g_left, h_left)
        if e == 0:
            for k in range(uint64(n)):
                score[k] = 0.0
        missing = node.g - g_left[n - 1], node.h - h_left[n - 1]
        has_missing |= (missing[0] | missing[1]) != 0
        along = missing if side == 1 else (int64(0), int64(0))
        limits = _limits_of(level.extra, level.nodes, i, f, reg)
        if limits[4] != 0:
            _add_gains(g_left, h_left, n, along, node, limits, reg, score)
        else:
            _add_scores(g_left, h_left, n, along, node, reg, score)
    return n, has_missing


def _leave_drawn(choice, node, f, n, scores):
    """Where one candidate of a feature is drawn for the level, take the others' scores away."""
    raise NotImplementedError  # only its compiled forms below are ever called


def _leave_all(choice, node, f, n, scores):
    pass


def _leave_one(choice, node, f, n, scores):
    if choice.key[0] == 0 or n < 3:
        return
    drawn = choosing.draw(choice, node.depth, f, n - 1)
    for k in range(n):
        if k != drawn:
            scores[0, k], scores[1, k] = -1.0, -1.0


@forms_of(_leave_drawn)
def _choose_leave_drawn(choice, node, f, n, scores):
    return _leave_one if is_of(choice, Choice) else _leave_all


@part
def _sum_scores_of_targets(level, evals, f, side, work, score):
    """`_sum_scores` where leaves hold vectors."""
    extra, slot_ptr, n = level.extra, level.page.slot_ptr, int64(level.page.n_bins[f])
    n_slots, has_missing = slot_ptr[slot_ptr.shape[0] - 1], False
    g_left, h_left = work[split.G_LEFT], work[split.H_LEFT]
    for k in range(uint64(n)):
        score[k] = 0.0
    for e in range(evals.shape[0]):
        out, sums = level.buffers.hist[level.nodes[evals[e]].hist], extra.sums[evals[e]]
        for t in range(extra.units.shape[0]):
            split.all_sums(out[2 * t * n_slots :], slot_ptr[f], n_slots, n, g_left, h_left)
            total = sums[2 * t], sums[2 * t + 1]
            missing = total[0] - g_left[n - 1], total[1] - h_left[n - 1]
            has_missing |= (missing[0] | missing[1]) != 0
            along = missing if side == 1 else (int64(0), int64(0))
            vectors.add_scores(g_left, h_left, n, along, total, extra.units[t], level.search.reg, score)
    return n, has_missing


def _scores_of_side(level, evals, f, side, work, score):
    """The form of `_sum_scores` for the level's leaves."""
    raise NotImplementedError  # only its two compiled forms below are ever called


def _scores_plain(level, evals, f, side, work, score):
    return _sum_scores(level, evals, f, side, work, score)


def _scores_of_vectors(level, evals, f, side, work, score):
    return _sum_scores_of_targets(level, evals, f, side, work, score)


@forms_of(_scores_of_side, optimised=True)
def _choose_scores_of_side(level, evals, f, side, work, score):
    return _scores_of_vectors if is_of(level[level.fields.index("extra")], Vectors) else _scores_plain


@part
def _find_bin(level, evals, f, thread, found):
    """The best bin of feature f for the level (found, OUT)."""
    work = level.search.scratch[thread]
    scores, score_bits = level.search.symmetric.scores[thread], level.search.symmetric.score_bits[thread]
    n, has_missing = _scores_of_side(level, evals, f, 0, work, scores[0])
    if has_missing:
        _scores_of_side(level, evals, f, 1, work, scores[1])
    _leave_drawn(level.search.choice, level.nodes[evals[0]], f, n, scores)
    search_vectors.keep_best(work[split.EVERY_BIN], n, has_missing, scores, score_bits, found)


# ---- sets of categories ----


@part
def _level_sums(level, evals, f, n, source, own, g_sums, h_sums):
    """Sums (OUT) of every category over the level's nodes; `own` = (g, h) are those of one node for a moment."""
    for c in range(n):
        g_sums[c], h_sums[c] = 0, 0
    for e in range(evals.shape[0]):
        categories.sum_categories(level.nodes[evals[e]], f, source, level.page.slot_ptr, n, own[0], own[1])
        for c in range(n):
            g_sums[c] += own[0][c]
            h_sums[c] += own[1][c]


@part
def _add_single(g_sums, h_sums, n, node, limits, reg, scores):
    """Each category alone on the right; scores[0]: missing values right, scores[1]: left."""
    g_present, h_present = int64(0), int64(0)
    for c in range(n):
        g_present += g_sums[c]
        h_present += h_sums[c]
    for c in range(n):
        scores[1, c] += _term(node.g - g_sums[c], node.h - h_sums[c], node, limits, reg)
        scores[0, c] += _term(g_present - g_sums[c], h_present - h_sums[c], node, limits, reg)


@part
def _add_ordered(g_sums, h_sums, n, order, most, node, limits, reg, scores):
    """Prefixes of the order on the right with missing values left, then suffixes on the left with these right."""
    g, h = int64(0), int64(0)
    for k in range(most - 1):
        g += g_sums[order[k]]
        h += h_sums[order[k]]
        scores[1, k + 1] += _term(node.g - g, node.h - h, node, limits, reg)
    g, h = int64(0), int64(0)
    for k in range(n - 1, n - most, -1):
        g += g_sums[order[k]]
        h += h_sums[order[k]]
        scores[0, k] += _term(g, h, node, limits, reg)


@part
def _take(score, code, default_left, found):
    if score > found.score:
        found.score, found.bin, found.default_left = score, code, default_left


@part
def _find_set(level, evals, f, source, thread, found):
    """The best set of categories for the level (found, OUT): `bin` as in categories.py."""
    extra, reg, work = level.extra, level.search.reg, level.search.scratch[thread]
    own, n = (work[split.G_SUMS], work[split.H_SUMS]), int64(level.page.n_bins[f])
    g_level, h_level = work[split.PART_G_LEFT], work[split.PART_H_LEFT]
    order, scores = extra.orders[thread, 0], level.search.symmetric.scores[thread]
    single, most = n < extra.limits[0], extra.limits[1] if extra.limits[1] < n else n
    if not single:
        _level_sums(level, evals, f, n, source, own, g_level, h_level)
        categories.sort_categories(g_level, h_level, n, reg, order, extra.orders[thread, 1], extra.weights[thread])
    for k in range(n):
        scores[0, k], scores[1, k] = 0.0, 0.0
    for e in range(evals.shape[0]):
        i = evals[e]
        node, limits = level.nodes[i], bounds.limits_of(extra.bounds, level.nodes, i, f, reg)
        categories.sum_categories(node, f, source, level.page.slot_ptr, n, own[0], own[1])
        if single:
            _add_single(own[0], own[1], n, node, limits, reg, scores)
        else:
            _add_ordered(own[0], own[1], n, order, most, node, limits, reg, scores)
    for c in range(n):  # other searches expect zeros
        own[0][c], own[1][c] = 0, 0
    if single:
        for c in range(n):
            _take(scores[1, c], c, 1, found)
            _take(scores[0, c], c, 0, found)
        return
    for k in range(1, most):
        _take(scores[1, k], k, 1, found)
    for k in range(n - 1, n - most, -1):
        _take(scores[0, k], k, 0, found)


@part
def _write_set(level, evals, f, chosen, source, bits):
    """bits (OUT) = the categories that the chosen candidate of feature f sends right."""
    extra, work, n = level.extra, level.search.scratch[0], int64(level.page.n_bins[f])
    bits[:] = 0
    if n < extra.limits[0]:
        bits[chosen.bin >> 6] = uint64(1) << uint64(chosen.bin & 63)
        return
    own, order = (work[split.G_SUMS], work[split.H_SUMS]), extra.orders[0, 0]
    g_level, h_level = work[split.PART_G_LEFT], work[split.PART_H_LEFT]
    _level_sums(level, evals, f, n, source, own, g_level, h_level)
    categories.sort_categories(g_level, h_level, n, level.search.reg, order, extra.orders[0, 1], extra.weights[0])
    for c in range(n):
        own[0][c], own[1][c] = 0, 0
    for j in range(chosen.bin):
        bits[order[j] >> 6] |= uint64(1) << uint64(order[j] & 63)


@part
def _sum_left_of_set(node, hist, slot_ptr, f, n, bits, default_left):
    """The left child's sums: all that is not in the set, and missing values if they go left."""
    slot, plane = slot_ptr[f], slot_ptr[slot_ptr.shape[0] - 1]
    g, h = int64(0), int64(0)
    for c in range(n):
        in_set = (bits[c >> 6] >> uint64(c & 63)) & uint64(1) != uint64(0)
        if in_set == (default_left != 0):
            g += hist[node.hist, slot + c]
            h += hist[node.hist, plane + slot + c]
    return (node.g - g, node.h - h) if default_left != 0 else (g, h)


# ---- a feature, and the level ----


def _find_condition(level, evals, f, thread, found):
    """The best condition on feature f for the level (found, OUT)."""
    raise NotImplementedError  # only its compiled forms below are ever called


def _find_plain(level, evals, f, thread, found):
    _find_bin(level, evals, f, thread, found)


def _find_special(level, evals, f, thread, found):
    if level.extra.is_category[f] != 0:
        _find_set(level, evals, f, categories.source_of(level), thread, found)
    else:
        _find_bin(level, evals, f, thread, found)


@forms_of(_find_condition, optimised=True)
def _choose_find_condition(level, evals, f, thread, found):
    return _find_special if is_of(level[level.fields.index("extra")], Special) else _find_plain


@part
def find_conditions(level, team, thread, n_threads):
    """search.best[0, f] = the best condition on feature f, for every feature that the level may use."""
    evals = level.plan.evals[: level.plan.counts[nodes.EVALS]]
    allowed, best = level.search.allowed, level.search.best
    n_features, n_slots, _, _ = search.row_sizes(level.page)
    most = n_jobs(evals.shape[0] * n_slots, level.plan.grains[FIND_SLOTS], n_threads)
    job = take_job(team, FIND_JOBS, int64(-1), n_threads)
    while evals.shape[0] > 0 and job < most:
        for f in range(n_features * job // most, n_features * (job + 1) // most):
            best[0, f].score = 0.0
            if allowed[0, f] != 0:
                _find_condition(level, evals, f, thread, best[0, f])
        job = take_job(team, FIND_JOBS, job, n_threads)


def _write_splits(level, evals, f, chosen):
    """Give every node of the level the chosen condition on feature f, with the sums of its left child."""
    raise NotImplementedError  # only its compiled forms below are ever called


@part
def _write_split(level, i, f, chosen, g_left, h_left):
    node, reg = level.nodes[i], level.search.reg
    limits = _limits_of(level.extra, level.nodes, i, f, reg)
    gain = _term(g_left, h_left, node, limits, reg)
    if limits[4] == 0:
        gain -= leaf_score(float64(node.g) * reg[G_UNIT], float64(node.h) * reg[H_UNIT], reg)
    node.feature, node.bin, node.default_left, node.gain = f, chosen.bin, chosen.default_left, gain
    node.g_left, node.h_left = g_left, h_left


@part
def _write_bin(level, evals, f, chosen):
    g_left, h_left = level.search.scratch[0, split.G_LEFT], level.search.scratch[0, split.H_LEFT]
    for e in range(evals.shape[0]):
        node = level.nodes[evals[e]]
        n = search.sum_bins(level.page, node, level.buffers.hist[node.hist], f, g_left, h_left)
        g, h = g_left[chosen.bin], h_left[chosen.bin]
        if chosen.default_left != 0:
            g += node.g - g_left[n - 1]
            h += node.h - h_left[n - 1]
        _write_split(level, evals[e], f, chosen, g, h)


def _write_special(level, evals, f, chosen):
    extra, page = level.extra, level.page
    is_set = extra.is_category[f]
    for e in range(evals.shape[0]):
        extra.sets.is_set[evals[e]] = is_set
    if is_set == 0:
        _write_bin(level, evals, f, chosen)
        return
    first = extra.sets.bits[evals[0]]
    _write_set(level, evals, f, chosen, categories.source_of(level), first)
    for e in range(evals.shape[0]):
        i = evals[e]
        for w in range(first.shape[0]):
            extra.sets.bits[i, w] = first[w]
        n = int64(page.n_bins[f])
        g, h = _sum_left_of_set(
            level.nodes[i], level.buffers.hist, page.slot_ptr, f, n, first, chosen.default_left
        )  # fmt: skip
        _write_split(level, i, f, chosen, g, h)


def _write_vectors(level, evals, f, chosen):
    extra, page, reg, n = level.extra, level.page, level.search.reg, int64(level.page.n_bins[f])
    for e in range(evals.shape[0]):
        node, sums, left = level.nodes[evals[e]], extra.sums[evals[e]], extra.left_sums[evals[e]]
        node.feature, node.bin, node.default_left = f, chosen.bin, chosen.default_left
        search_vectors.sum_left_by_bins(node, level.buffers.hist[node.hist], page.slot_ptr, n, sums, left)
        gain = vectors.node_score(left, extra.units, reg) - vectors.node_score(sums, extra.units, reg)
        for t in range(extra.units.shape[0]):
            g, h = float64(sums[2 * t] - left[2 * t]), float64(sums[2 * t + 1] - left[2 * t + 1])
            gain += vectors.target_score(g * extra.units[t, 0], h * extra.units[t, 1], reg)
        node.gain, node.g_left, node.h_left = gain, 0, vectors.total_hessian(left)


@forms_of(_write_splits)
def _choose_write_splits(level, evals, f, chosen):
    extra = level[level.fields.index("extra")]
    if is_of(extra, Special):
        return _write_special
    return _write_vectors if is_of(extra, Vectors) else _write_plain


def _write_plain(level, evals, f, chosen):
    _write_bin(level, evals, f, chosen)


def _score_as_leaves(level, evals):
    """The scores of the level's nodes as they are; 0 under bounds, where candidates' scores are gains already."""
    raise NotImplementedError  # only its two compiled forms below are ever called


def _score_numbers(level, evals):
    reg, total = level.search.reg, 0.0
    for e in range(evals.shape[0]):
        node = level.nodes[evals[e]]
        if _limits_of(level.extra, level.nodes, evals[e], int64(0), reg)[4] == 0:
            total += leaf_score(float64(node.g) * reg[G_UNIT], float64(node.h) * reg[H_UNIT], reg)
    return total


def _score_vectors(level, evals):
    total = 0.0
    for e in range(evals.shape[0]):
        total += vectors.node_score(level.extra.sums[evals[e]], level.extra.units, level.search.reg)
    return total


@forms_of(_score_as_leaves)
def _choose_score_as_leaves(level, evals):
    return _score_vectors if is_of(level[level.fields.index("extra")], Vectors) else _score_numbers


@part
def select_condition(level):
    """Give all nodes of the level the best condition over all features, or feature -1 if none gains enough."""
    evals = level.plan.evals[: level.plan.counts[nodes.EVALS]]
    best, top, feature = level.search.best, 0.0, int64(-1)
    for e in range(evals.shape[0]):
        level.nodes[evals[e]].feature = -1
    if evals.shape[0] == 0:
        return
    for f in range(best.shape[1]):
        if best[0, f].score > top:
            top, feature = best[0, f].score, int64(f)
    gain = top - _score_as_leaves(level, evals)
    if feature >= 0 and gain > MIN_GAIN and gain >= level.search.reg[GAMMA] * evals.shape[0]:
        _write_splits(level, evals, feature, best[0, feature])
