"""THE growth loop: find splits, pop the nodes to open, open them, until none is left.

It works on sets of nodes and knows neither how splits are found nor threads nor pages nor workers nor devices: those
belong to a level engine (levels/base.py). Here is what all trees share: which nodes come next, which features they may
use, and the finished tree.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np

from arboost.levels.base import NO_IDS, Finished, LevelEngine, Rules, Walk
from arboost.levels.quantize import QuantizedGradients
from arboost.params.resolve import TreeParams
from arboost.runtime import rng
from arboost.tree.column_sampling import ColumnSampler
from arboost.tree.constraints import Interactions, interaction_sets
from arboost.tree.driver import Driver
from arboost.tree.features import TreeFeatures
from arboost.tree.model import NO_PARENT, Tree


@dataclass
class GrownTree:
    """A finished tree and where the training rows ended up in it."""

    tree: Tree
    leaves: np.ndarray  # leaves whose rows the engine knows
    closed: np.ndarray  # nodes at the depth limit: split, but their rows were not parted


class Grower:
    """Grows trees with one level engine.

    Parameters
    ----------
    engine
        What moves rows and finds splits.
    params
        Parameters of the trees.
    n_features
        Of the data.
    feature_weights
        Weights with which features are drawn, or None.
    feature_names
        Names that constraints may use, or None.
    monotone
        (n_features,) the directions that weights follow, 0 where they are free; None: all are.
    """

    def __init__(
        self,
        engine: LevelEngine,
        params: TreeParams,
        n_features: int,
        feature_weights: np.ndarray | None = None,
        feature_names: list[str] | None = None,
        monotone: np.ndarray | None = None,
    ):
        self.engine = engine
        self._params = params
        self.monotone = np.zeros(n_features, np.int64) if monotone is None else monotone
        self._n_features, self._feature_weights = n_features, feature_weights
        self._all_features = TreeFeatures(ColumnSampler((1.0, 1.0, 1.0), n_features, None, 0), None)
        sets = interaction_sets(params.interaction_constraints, feature_names, n_features)
        self._interactions = None if sets is None else Interactions(sets)

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change from round to round."""
        self._params = params

    def grow(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, key: int, partition_all: bool = False
    ) -> GrownTree:
        """Grow one tree; `key` seeds its draws; `partition_all` also parts the rows of the deepest leaves."""
        engine = self.engine
        features = self.features_of(key)
        driver, closed = self._driver(), NO_IDS
        try:
            rules = self._rules(gradients)
            rules = rules._replace(draw_key=self.draw_key(key))
            found = engine.start(gradients, sampled, rules, features)
            while True:
                driver.push(engine.nodes, found)
                batch = driver.pop(engine.make_room(driver.waiting))
                if not len(batch):
                    break
                if engine.nodes[batch[0]]["depth"] + 1 == self._max_depth:
                    # the depth limit closes all children of this batch
                    closed = np.concatenate([closed, engine.close(batch, partition_all)])
                    found = NO_IDS
                else:
                    found = engine.open(batch)
        finally:
            engine.stop()
        return self._finish(self._make_tree(engine.finish(self.eta)), closed, self.eta)

    def draw_key(self, key: int) -> int:
        """What seeds the draws of candidates in the tree with this key; 0: all are tried."""
        return rng.make_key(key, rng.SPLITS) | 1 if self._params.extra_trees else 0

    @property
    def _max_depth(self) -> int:
        """The deepest level that leaves may have; 0: any."""
        return self._params.max_depth

    def _driver(self) -> Driver:
        """Which nodes come next."""
        return Driver(self._params.max_leaves, self._params.grow_policy == "lossguide")

    def _finish(self, tree: Tree, closed: np.ndarray, eta: np.float32) -> GrownTree:
        """The tree with those of its leaves that own rows."""
        is_leaf = tree.left < 0
        if len(closed):  # their children own no rows: the parent's range stands for both
            is_leaf[tree.left[closed]] = is_leaf[tree.right[closed]] = False
        return GrownTree(tree, np.flatnonzero(is_leaf).astype(np.int32), closed)

    def add_weights(self, grown: GrownTree, margin: np.ndarray, target: int) -> None:
        """Add the tree's leaf weights to every training row's margin."""
        tree = grown.tree
        weights = tree.vectors if tree.has_vectors else tree.threshold
        walk = Walk(tree.left, tree.right, tree.feature, tree.threshold, tree.default_left, weights)
        self.engine.add_weights(walk, grown.leaves, grown.closed, margin, target)

    def leaf_rows(self, grown: GrownTree) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the rows that the tree has seen, one of grown.leaves after the other."""
        return self.engine.leaf_rows(grown.leaves)

    def _make_tree(self, nodes: Finished) -> Tree:
        """The finished nodes as XGBoost's arrays."""
        left, right, parent, feature = nodes.links
        parent[0] = NO_PARENT
        weights = (nodes.gain, nodes.cover, nodes.base_weight)
        tree = Tree(left, right, parent, feature, nodes.threshold, nodes.default_left, *weights, self._n_features)
        if nodes.vectors is not None:
            tree.vectors = nodes.vectors
        if len(nodes.set_nodes):
            assert nodes.set_bits is not None
            is_member = np.unpackbits(nodes.set_bits.view(np.uint8), axis=1, bitorder="little")
            tree.take_sets(dict(zip(nodes.set_nodes.tolist(), map(np.flatnonzero, is_member), strict=True)))
        return tree

    def features_of(self, key: int) -> TreeFeatures:
        """Which features the nodes of the tree with this key may use."""
        p = self._params
        rates = (p.colsample_bytree, p.colsample_bylevel, p.colsample_bynode)
        if rates == (1.0, 1.0, 1.0):
            if self._interactions is None:
                return self._all_features
            columns = ColumnSampler(rates, self._n_features, None, 0)
        else:
            columns = ColumnSampler(rates, self._n_features, self._feature_weights, key)
        return TreeFeatures(columns, self._interactions)

    def _rules(self, gradients: QuantizedGradients) -> Rules:
        p = self._params
        reg = np.append(self.regularisation, [gradients.g_unit, gradients.h_unit])
        least = 2.0 * p.min_child_weight / gradients.h_unit
        least_h = ceil(min(least, 2.0**62))
        opens_levels = p.grow_policy != "lossguide" and not p.max_leaves
        own = (p.min_data_in_leaf, 0, p.path_smooth)
        return Rules(reg, self._max_depth, least_h, *own, self.opens_all, opens_levels)

    @property
    def opens_all(self) -> bool:
        """Whether every node that has a split is opened, level by level, and nodes share the features of their tree."""
        p = self._params
        alike = p.colsample_bylevel == 1.0 and p.colsample_bynode == 1.0 and self._interactions is None
        return alike and p.grow_policy == "depthwise" and not p.max_leaves

    @property
    def regularisation(self) -> np.ndarray:
        """The parameter vector of kernels/scalar.py, then gamma."""
        p = self._params
        penalties = [p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, p.gamma]
        return np.array(penalties, np.float64)

    @property
    def eta(self) -> np.float32:
        """What leaves' weights are scaled by."""
        return np.float32(self._params.eta)
