"""What a level engine is: everything below the growth loop, one level of a tree at a time.

The loop (tree/grow.py) decides which nodes are opened and which features they may use; an engine does the rest. `open`
has five steps: split (rows to children, once per page), plan (which child is built, which subtracted: from sums over
all workers), build (histograms, once per page), share (add up the workers' histograms) and find (subtract, search).
An engine does them in the order and in as few pieces as suits it: in memory all of them are one order to its threads.
Where all nodes of all levels will be opened, it may go on by itself: what it returns are nodes of the level it has come
to. Whatever it does, the tree is the same to the bit.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from arboost.levels.quantize import QuantizedGradients

NO_IDS = np.zeros(0, np.int32)
GAMMA = 4  # its place in Rules.reg


class Features(Protocol):
    """Which features the nodes of one tree may be split on."""

    differ: bool
    """Whether nodes of one tree may use different ones."""

    def of_tree(self) -> np.ndarray:
        """(1, n_features) uint8: those that the tree may use."""

    def write(self, nodes: np.ndarray, ids: np.ndarray, out: np.ndarray) -> None:
        """Masks of the nodes `ids`, one row of `out` each."""

    def drawn(self) -> tuple[int, np.ndarray, int] | None:
        """(key, features, n) where each node has n of these features, drawn by its number; else None."""

    def pass_over(self, nodes: np.ndarray, ids: np.ndarray, useless: np.ndarray) -> None:
        """Remember features, (n, n_features) bool, that cannot part the nodes `ids`: no draw below them has these."""

    def write_next(self, nodes: np.ndarray, ids: np.ndarray, out: np.ndarray, turn: int) -> bool:
        """Masks of as many features as `write` has drawn, the next ones that it would have; False: none are left."""


class TreeKind(NamedTuple):
    """What must be known of trees before the first one grows: what is not asked for is not compiled."""

    n_targets: int = 0  # how many weights a leaf holds, if it holds a vector; 0: one
    symmetric: bool = False  # all nodes of a level get the same condition: a level is opened as a whole
    counts_rows: bool = False  # children need so many rows
    draws: bool = False  # one candidate of every feature is drawn
    smooths: bool = False  # weights are drawn to those of their parents
    linear: bool = False  # leaves are fitted to the values of their rows afterwards


class Rules(NamedTuple):
    """What says how good a split is, and when to stop."""

    reg: np.ndarray  # the parameter vector of kernels/scalar.py, then gamma, g_unit, h_unit
    max_depth: int  # 0: no limit
    least_h: int  # quantised hessian of a node that can have two children of min_child_weight
    least_rows: int = 0  # of a child
    draw_key: int = 0  # seeds the draws of candidates
    path_smooth: float = 0.0  # rows at which a node's own weight counts as much as that of its parent
    opens_all: bool = False  # whether every node that has a split will be opened, on features that all may use
    opens_levels: bool = False  # whether every node that has a split will be opened, a level at a time


class Finished(NamedTuple):
    """A grown tree as arrays, one entry a node."""

    links: np.ndarray  # (4, n) int32: left, right, parent, feature
    threshold: np.ndarray  # float32; of a leaf, its weight if there is but one
    default_left: np.ndarray  # uint8
    gain: np.ndarray
    cover: np.ndarray
    base_weight: np.ndarray  # (n,), or (n, K) where leaves hold vectors
    vectors: np.ndarray | None  # (n, K): what leaves add to the margins
    set_nodes: np.ndarray = NO_IDS  # nodes that are split by a set of categories,
    set_bits: np.ndarray | None = None  # and their sets, (n_sets, n_words) uint64


class Walk(NamedTuple):
    """What a row needs to find its leaf's weight."""

    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray  # of a leaf, its weight if there is but one
    default_left: np.ndarray
    weights: np.ndarray  # of leaves: (n_nodes,), or (n_nodes, K) for all targets


class LevelEngine(Protocol):
    """One training matrix, tree after tree. Arrays are kept from one to the next."""

    @property
    def nodes(self) -> np.ndarray:
        """NODE records of the tree that is growing."""

    def start(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, rules: Rules, features: Features
    ) -> np.ndarray:
        """Begin a tree on all rows or the sampled ones; returns the root if it has a split."""

    def make_room(self, waiting: Callable[[], np.ndarray]) -> int:
        """How many nodes may be opened at once; `waiting` tells which will be later, the last one first."""

    def open(self, batch: np.ndarray) -> np.ndarray:
        """Open the batch, and find splits for its children; returns those that have one."""

    def close(self, batch: np.ndarray, partition_all: bool) -> np.ndarray:
        """Make children, all leaves; returns the nodes whose rows stay where they are, never any if `partition_all`."""

    def stop(self) -> None:
        """The last word about a tree, after an error too."""

    def finish(self, eta: np.float32) -> Finished:
        """The tree, its leaves' weights times eta."""

    def add_weights(self, walk: Walk, leaves: np.ndarray, closed: np.ndarray, margin: np.ndarray, target: int) -> None:
        """margin[r, target] += the weight of r's leaf, for all rows; `closed` are the nodes that `close` returned."""

    def leaf_rows(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the rows that the tree has seen, one leaf after the other, ascending in each."""
