"""THE growth loop: find splits, pop the nodes to open, open them, until none is left.

It works on sets of nodes and knows neither how splits are found nor threads nor devices: those live in the growers that
fill it in, `grow.py` (histograms), `vector.py` (weights for several targets) and `local.py` (proposals of every node).
"""

from dataclasses import dataclass

import numpy as np

from arboost.kernels.cpu import expand
from arboost.kernels.dtypes import NODE
from arboost.params.resolve import TreeParams
from arboost.runtime.context import Context
from arboost.tree.columns import ColumnSampler
from arboost.tree.constraints import Interactions, interaction_sets
from arboost.tree.driver import Driver
from arboost.tree.model import NO_PARENT, Tree
from arboost.tree.quantize import QuantizedGradients

NO_IDS = np.zeros(0, np.int32)


@dataclass
class GrownTree:
    """A finished tree and where the training rows ended up in it."""

    tree: Tree
    nodes: np.ndarray
    leaves: np.ndarray  # leaves whose rows are a range of the row sets
    last_splits: np.ndarray  # nodes at the depth limit: split, but their rows were not partitioned


class GrowthLoop:
    """What all growers share: the loop, which features a node may use, and parameters as kernels need them."""

    def __init__(
        self,
        ctx: Context,
        params: TreeParams,
        n_features: int,
        feature_weights: np.ndarray | None,
        feature_names: list[str] | None,
    ):
        self._ctx = ctx
        self._params = params
        self._n_features = n_features
        self._feature_weights = feature_weights
        self._all_columns = ColumnSampler((1.0, 1.0, 1.0), n_features, None, 0)
        sets = interaction_sets(params.interaction_constraints, feature_names, n_features)
        self._interactions = Interactions(sets) if len(sets) else None
        self._nodes = np.zeros(256, NODE)
        self._evals, self._allowed = NO_IDS, np.zeros((0, n_features), np.uint8)

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change from round to round."""
        self._params = params

    def grow(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, key: int, partition_all: bool = False
    ) -> GrownTree:
        """Grow one tree; `key` seeds its draws; `partition_all` also orders the rows of the deepest leaves."""
        params = self._params
        self._columns = self._column_sampler(key)
        self._reg, self._limits = self._make_reg(gradients), self._make_limits(gradients)
        driver = Driver(params.max_leaves, params.grow_policy == "lossguide")
        last_splits = NO_IDS
        try:
            found = self._start(gradients, sampled)
            while True:
                driver.push(self._nodes, found)
                batch = driver.pop(self._make_room(driver))
                if not len(batch):
                    break
                if not partition_all and self._nodes[batch[0]]["depth"] + 1 == params.max_depth:
                    # the depth limit closes all children of this batch: their rows are scored as they lie
                    last_splits = np.concatenate([last_splits, batch])
                    self._close(batch)
                    found = NO_IDS
                else:
                    found = self._open(batch)
        finally:
            self._stop()
        return self._finish(last_splits)

    # ---- what a grower fills in ----

    def _start(self, gradients: QuantizedGradients, sampled: np.ndarray | None) -> np.ndarray:
        """The root: all (sampled) rows and their sums; returns it if it has a split."""
        raise NotImplementedError

    def _make_room(self, driver: Driver) -> int:
        """How many nodes may be opened at once."""
        raise NotImplementedError

    def _open(self, batch: np.ndarray) -> np.ndarray:
        """Open the batch, and find splits for its children; returns those that have one."""
        raise NotImplementedError

    def _close(self, batch: np.ndarray) -> None:
        """Make children, all leaves."""
        raise NotImplementedError

    def _stop(self) -> None:
        """The last word, after an error too."""

    def _finish(self, last_splits: np.ndarray) -> GrownTree:
        """The tree, given the nodes that were closed."""
        raise NotImplementedError

    def _make_tree(self, nodes: np.ndarray, cut_ptr: np.ndarray, cut_values: np.ndarray) -> Tree:
        """The finished nodes as XGBoost's arrays."""
        n = len(nodes)
        integers, floats, default_left = np.empty((4, n), np.int32), np.empty((4, n), np.float32), np.empty(n, np.uint8)
        eta = np.float32(self._params.eta)
        expand.finish_tree(nodes, cut_ptr, cut_values, self._reg, eta, integers, floats, default_left)
        left, right, parent, feature = integers
        threshold, gain, cover, base_weight = floats
        parent[0] = NO_PARENT
        return Tree(left, right, parent, feature, threshold, default_left, gain, cover, base_weight, self._n_features)

    # ---- which features a node may use ----

    @property
    def _differs_by_node(self) -> bool:
        """Whether nodes of one tree may use different features."""
        return self._columns.per_node or self._interactions is not None

    def _write_allowed(self, n_evals: int) -> None:
        """Which features the nodes to evaluate may use."""
        evals, nodes = self._evals[:n_evals], self._nodes
        if self._columns.per_node:
            self._columns.write_allowed(nodes, evals, self._allowed)
        else:
            self._allowed[:] = self._columns.allowed()
        if self._interactions is not None:
            feature_of = self._features_of_nodes()
            for row, i in zip(self._allowed, evals.tolist(), strict=False):
                row &= self._interactions.allowed(nodes, i, feature_of)

    def _features_of_nodes(self) -> np.ndarray:
        """The feature that every node is split on."""
        return self._nodes["feature"]

    def _column_sampler(self, key: int) -> ColumnSampler:
        p = self._params
        rates = (p.colsample_bytree, p.colsample_bylevel, p.colsample_bynode)
        if rates == (1.0, 1.0, 1.0):
            return self._all_columns
        return ColumnSampler(rates, self._n_features, self._feature_weights, key)

    def _make_reg(self, gradients: QuantizedGradients) -> np.ndarray:
        """The parameter vector of kernels/scalar.py and kernels/cpu/split.py."""
        p = self._params
        regularisation = [p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight]
        return np.array([*regularisation, p.gamma, gradients.g_unit, gradients.h_unit], np.float64)

    def _make_limits(self, gradients: QuantizedGradients) -> np.ndarray:
        """[max_depth, least quantised hessian of a node that can have two valid children]."""
        least = 2.0 * self._params.min_child_weight / gradients.h_unit
        return np.array([self._params.max_depth, min(np.ceil(least), 2.0**62)], np.float64).astype(np.int64)
