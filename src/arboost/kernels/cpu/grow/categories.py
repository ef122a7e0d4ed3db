"""Splits of a feature's categories into two sets: one against the rest, or by an order of the categories.

A category's bin is its code. With fewer than `max_cat_to_onehot` categories each is tried alone on the right. Otherwise
they are sorted by the weight each would have as a leaf (Fisher's order), and prefixes of that order are tried on the
right with missing values on the left, then suffixes on the left with missing values on the right; at most
`max_cat_threshold` categories from either end. That is XGBoost's search, in its order of preference.

A candidate's `bin` is the category alone on the right, or the length of the prefix that goes right. A chosen node
gets its set as a bitset (routes.py).
"""

from numba import float32, float64, int64, uint64

from arboost.kernels.cpu.grow.bounds import offer
from arboost.kernels.cpu.grow.split import G_UNIT, H_UNIT
from arboost.kernels.dtypes import BY_ROWS
from arboost.kernels.jit import part
from arboost.kernels.scalar import leaf_weight


@part
def source_of(level):
    """Where a node's sums come from: (histograms, columns, row ids, gradients, hessians, shift)."""
    planes = level.gradients.planes
    of_rows = level.rows.ids, planes[0], planes[1 if planes.shape[0] > 1 else 0], level.gradients.packings[0, 0]
    return level.buffers.hist, level.page.columns, of_rows[0], of_rows[1], of_rows[2], of_rows[3]


@part
def sum_categories(node, f, source, slot_ptr, n, g_sums, h_sums):
    """Integer sums of every category in a node: from its histogram, or from its few rows."""
    hist, columns, rows, g_values, h_values, shift = source
    if node.hist != BY_ROWS:
        plane = slot_ptr[slot_ptr.shape[0] - 1]
        for c in range(n):
            g_sums[c], h_sums[c] = hist[node.hist, slot_ptr[f] + c], hist[node.hist, plane + slot_ptr[f] + c]
        return
    mask = (int64(1) << shift) - 1
    for c in range(n):
        g_sums[c], h_sums[c] = 0, 0
    for i in range(node.start, node.stop):
        r = int64(rows[i])
        c = int64(columns[f, r])
        if c < n:
            g_sums[c] += g_values[r] >> shift if shift > 0 else g_values[r]
            h_sums[c] += g_values[r] & mask if shift > 0 else h_values[r]


@part
def sort_categories(g_sums, h_sums, n, reg, order, spare, weights):
    """order[:n] = the categories by ascending leaf weight, equal ones by code: a merge sort from the bottom up."""
    for c in range(n):
        weights[c] = float32(leaf_weight(float64(g_sums[c]) * reg[G_UNIT], float64(h_sums[c]) * reg[H_UNIT], reg))
        order[c] = c
    width = 1
    while width < n:
        for first in range(0, n, 2 * width):
            middle = first + width if first + width < n else n
            end = middle + width if middle + width < n else n
            a, b = first, middle
            for k in range(first, end):
                if a < middle and (b >= end or weights[order[a]] <= weights[order[b]]):
                    spare[k] = order[a]
                    a += 1
                else:
                    spare[k] = order[b]
                    b += 1
        for k in range(n):
            order[k] = spare[k]
        width *= 2


@part
def _try_single(g_sums, h_sums, n, node, bounds, reg, found):
    """Each category alone on the right; missing values left, then right."""
    g_present, h_present = int64(0), int64(0)
    for c in range(n):
        g_present += g_sums[c]
        h_present += h_sums[c]
    for c in range(n):
        offer(node.g - g_sums[c], node.h - h_sums[c], node, bounds, reg, c, 1, found)
        offer(g_present - g_sums[c], h_present - h_sums[c], node, bounds, reg, c, 0, found)


@part
def _try_ordered(g_sums, h_sums, n, order, threshold, node, bounds, reg, found):
    """Prefixes of the order on the right, then suffixes on the left."""
    most = threshold if threshold < n else n
    g, h = int64(0), int64(0)
    for k in range(most - 1):
        g += g_sums[order[k]]
        h += h_sums[order[k]]
        offer(node.g - g, node.h - h, node, bounds, reg, k + 1, 1, found)
    g, h = int64(0), int64(0)
    for k in range(n - 1, n - most, -1):
        g += g_sums[order[k]]
        h += h_sums[order[k]]
        offer(g, h, node, bounds, reg, k, 0, found)


@part
def find_set(node, f, source, slot_ptr, n, limits, bounds, reg, scratch, found):
    """The best split of a node on a categorical feature of n categories (found, OUT).

    limits = [max_cat_to_onehot, max_cat_threshold]; scratch = (g sums, h sums, weights, order, spare).
    """
    g_sums, h_sums, weights, order, spare = scratch
    sum_categories(node, f, source, slot_ptr, n, g_sums, h_sums)
    if n < limits[0]:
        _try_single(g_sums, h_sums, n, node, bounds, reg, found)
    else:
        sort_categories(g_sums, h_sums, n, reg, order, spare, weights)
        _try_ordered(g_sums, h_sums, n, order, limits[1], node, bounds, reg, found)
    for c in range(n):  # other searches expect zeros
        g_sums[c], h_sums[c] = 0, 0


@part
def keep_set(node, f, source, slot_ptr, n, limits, reg, scratch, bits):
    """bits (OUT) = the set of categories that goes right in a node's chosen split."""
    g_sums, h_sums, weights, order, spare = scratch
    bits[:] = 0
    if n < limits[0]:
        bits[node.bin >> 6] = uint64(1) << uint64(node.bin & 63)
        return
    sum_categories(node, f, source, slot_ptr, n, g_sums, h_sums)
    sort_categories(g_sums, h_sums, n, reg, order, spare, weights)
    for j in range(node.bin):
        bits[order[j] >> 6] |= uint64(1) << uint64(order[j] & 63)
    for c in range(n):
        g_sums[c], h_sums[c] = 0, 0
