"""Margins of trees with linear leaves, from the leaves that rows end in.

A leaf adds its weight c, and for its terms i the sum of w_i (x_i - m_i), with x_i kept within the values that training
has seen in the leaf. A row that lacks one of the features gets c alone.
"""

from numba import float32, float64, uint64

from arboost.kernels.jit import kernel


@kernel
def add_leaf_values(data, leaves, records, targets, terms, nodes, margin, start, stop):
    """margin[r, target] (OUT) += the values of row r's leaves, tree after tree, rounded to float32.

    leaves (n, n_trees) int32: node numbers; nodes (n_trees,) int64: where the trees' LINEAR_LEAF records begin.
    """
    for r in range(uint64(start), uint64(stop)):
        for t in range(uint64(nodes.shape[0])):
            leaf = records[uint64(nodes[t]) + uint64(leaves[r, t])]
            value, whole = float64(0.0), True
            for i in range(uint64(leaf.first), uint64(leaf.first) + uint64(leaf.count)):
                term = terms[i]
                x = data[r, uint64(term.feature)]
                whole &= x == x
                value += float64(term.weight) * (float64(min(max(x, term.low), term.high)) - float64(term.mean))
            margin[r, uint64(targets[t])] += float32(float64(leaf.value) + (value if whole else 0.0))


@kernel
def add_term_values(data, leaves, records, targets, terms, nodes, out, start, stop):
    """out[r, target, feature] (OUT) += what each term adds to the values of row r's leaves; see `add_leaf_values`."""
    for r in range(uint64(start), uint64(stop)):
        for t in range(uint64(nodes.shape[0])):
            leaf = records[uint64(nodes[t]) + uint64(leaves[r, t])]
            first, last = uint64(leaf.first), uint64(leaf.first) + uint64(leaf.count)
            whole = True
            for i in range(first, last):
                x = data[r, uint64(terms[i].feature)]
                whole &= x == x
            if not whole:
                continue
            for i in range(first, last):
                term = terms[i]
                x = min(max(data[r, uint64(term.feature)], term.low), term.high)
                value = float64(term.weight) * (float64(x) - float64(term.mean))
                out[r, uint64(targets[t]), uint64(term.feature)] += float32(value)
