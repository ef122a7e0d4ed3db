"""Every record that kernels and orchestration share. Aligned, so that a field is one machine load."""

import numpy as np

NODE = np.dtype(
    [
        ("start", "i8"),  # its rows are rows[start:stop]
        ("stop", "i8"),
        ("g", "i8"),  # integer sums of its rows' gradients and hessians, over all workers;
        ("h", "i8"),  # where leaves hold vectors, h is the sum over targets and g is 0
        ("g_left", "i8"),  # the left child's sums under the best split
        ("h_left", "i8"),
        ("gain", "f8"),  # of the best split; 0 if there is none
        ("feature", "i4"),  # best split, -1 if there is none
        ("bin", "i4"),  # rows with a bin <= this go left; on sorted columns, entries of its run up to this one
        ("default_left", "i4"),
        ("parent", "i4"),
        ("left", "i4"),  # -1 while a leaf
        ("right", "i4"),
        ("depth", "i4"),
        ("hist", "i4"),  # its histogram's buffer, NO_HIST or BY_ROWS; on sorted columns, the slot of its runs
    ],
    align=True,
)
"""A node while its tree grows."""

BUILD = np.dtype(
    [
        ("start", "i8"),  # the rows that are added up,
        ("stop", "i8"),
        ("first", "i8"),  # the rows of the builds before this one,
        ("hist", "i4"),  # the buffer they are added to,
        ("sign", "i4"),  # 1, or -1 to take them away,
        ("fresh", "i4"),  # 1 if the buffer is to be set instead;
        ("node", "i4"),  # whose rows they are,
        ("place", "i4"),  # and its parent's place in the batch, -1 for the root
    ],
    align=True,
)
"""One buffer's sums over the rows of one node."""

SUBTRACT = np.dtype([("large", "i4"), ("small", "i4")], align=True)
"""Buffer `large` (the parent's) -= buffer `small`: what remains is the larger child's histogram."""

PIECE = np.dtype([(name, "i8") for name in ("node", "start", "stop", "n_left", "left_at", "right_at")], align=True)
"""A part of the rows of the batch's node number `node` in a partition: one thread's, or a page's; -1: unused. Of a
page's part it is also known where its lefts and rights go."""

CANDIDATE = np.dtype(
    [("score", "f8"), ("g_left", "i8"), ("h_left", "i8"), ("bin", "i4"), ("default_left", "i4")], align=True
)
"""The best split of one node on one feature; score 0 if there is none."""

NO_HIST, BY_ROWS = -1, -2
FEW_ROWS = 64  # a node of so few rows is evaluated from its rows: cheaper than clearing and scanning a histogram

MISSING_U8 = 255
# Accumulator slots per feature while one-byte bins are summed: eight more than there are codes. With 256, the slots of
# one code lie a multiple of 2048 bytes apart in all features. Where most rows have the same code in many (zeros,
# few values), a processor takes stores and loads there for those of one address, and they wait for one another.
STRIDE = 264
BLOCK_FEATURES = 64  # features that one pass over the rows sums: one cache line of one-byte bins

PACKED_TREE = np.dtype([("node", "i8"), ("leaf", "i8"), ("depth", "i4"), ("target", "i4")], align=True)
"""Where a tree lies in a packed forest: its first node and leaf; depth -1 marks the general layout."""

LINEAR_TERM = np.dtype(
    [("node", "i4"), ("feature", "i4"), ("weight", "f4"), ("mean", "f4"), ("low", "f4"), ("high", "f4")], align=True
)
"""One feature's part of a leaf's value: weight * (x - mean), where x is kept within low .. high."""

LINEAR_LEAF = np.dtype([("first", "i8"), ("value", "f4"), ("count", "i4")], align=True)
"""A node's constant value and its terms, LINEAR_TERM records from `first` on."""
