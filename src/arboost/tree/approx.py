"""Approximate split finding (the paper, section 3.2), global proposals: candidates are drawn once for every tree.

They are quantiles in which a row weighs its hessian; rows that the tree does not see weigh nothing. The page is binned
at them, and the tree grown on it as always. Where no row's weight has changed since the last tree, nothing is done.
"""

import numpy as np

from arboost.kernels.ops import rebin
from arboost.levels.quantize import QuantizedGradients
from arboost.matrix.adapt import RawData
from arboost.matrix.page import make_binned
from arboost.matrix.proposed import CountedCuts, ProposedCuts, ProposedPage
from arboost.matrix.sorted import SortedPage
from arboost.params.resolve import TreeParams
from arboost.runtime.context import Context
from arboost.tree.grow import GrownTree
from arboost.tree.growers import HistogramGrower, count_bins, histogram_grower

_GRAIN = 65_536
_EVERY_ROW = np.zeros(0, np.uint8)


class ApproxGrower:
    """Grows trees on candidates proposed before each.

    Parameters
    ----------
    ctx
        Threads and communicator.
    columns
        The data as sorted columns; None where other workers have rows too, and candidates are found by counting.
    raw
        The same data by rows, where it is sparse or there are no columns: it is binned anew at other candidates, in
        memory that is proportional to its entries. None: a page is kept, and its bins are overwritten.
    params
        Parameters of the trees.
    feature_types, feature_weights, feature_names
        Of the data, or None.
    """

    def __init__(
        self,
        ctx: Context,
        columns: SortedPage | None,
        raw: RawData | None,
        params: TreeParams,
        feature_types: list[str] | None = None,
        feature_weights: np.ndarray | None = None,
        feature_names: list[str] | None = None,
    ):
        self._ctx = ctx
        self._raw, self._params, self._features = raw, params, (feature_weights, feature_names)
        self._proposed: ProposedCuts | CountedCuts
        if columns is None:
            assert raw is not None
            self._weights = np.zeros(raw.n_rows, np.int64)
            self._proposed = CountedCuts(ctx, raw, count_bins(params), feature_types)
        else:
            self._weights = np.zeros(columns.n_rows, np.int64)
            kind = ProposedCuts if raw is not None else ProposedPage
            self._proposed = kind(ctx, columns, count_bins(params), feature_types, feature_names)
        self._grower = self._make_grower()

    def _make_grower(self) -> HistogramGrower:
        """A grower on bins at the candidates as they stand."""
        if isinstance(self._proposed, ProposedPage):
            page = self._proposed.page
        else:
            assert self._raw is not None
            cuts = self._proposed.cuts()
            page = make_binned(self._ctx, self._raw, cuts, self._params.enable_bundle, keep_sparse=True)
        return histogram_grower(self._params)(self._ctx, page, self._params, *self._features)

    @property
    def monotone(self) -> np.ndarray:
        """(n_features,) int64: the constraints' directions."""
        return self._grower.monotone

    def set_params(self, params: TreeParams) -> None:
        """Take new values of parameters that may change from round to round."""
        self._params = params
        self._grower.set_params(params)

    def grow(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, key: int, partition_all: bool = False
    ) -> GrownTree:
        """Propose candidates, then grow one tree: see `HistogramGrower.grow`."""
        if not self._proposed.is_fixed and self._weigh_rows(gradients, sampled):
            self._proposed.propose(self._weights)
            if self._raw is not None:
                self._grower = self._make_grower()
        return self._grower.grow(gradients, sampled, key, partition_all)

    def add_weights(self, grown: GrownTree, margin: np.ndarray, target: int) -> None:
        """Add the tree's leaf weights to every training row's margin."""
        self._grower.add_weights(grown, margin, target)

    def leaf_rows(self, grown: GrownTree) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the training rows of grown.leaves, one leaf after the other."""
        return self._grower.leaf_rows(grown)

    def _weigh_rows(self, gradients: QuantizedGradients, sampled: np.ndarray | None) -> bool:
        """Take the rows' weights from the gradients; whether any, on any worker, is another than in the last tree."""
        n_rows, shift = len(self._weights), int(gradients.packings[0, 0])
        chosen = _EVERY_ROW
        if sampled is not None:
            chosen = np.zeros(n_rows, np.uint8)
            chosen[sampled] = 1
        mask = (1 << shift) - 1 if shift else -1
        args = (gradients.planes[-1], mask, chosen, self._weights)
        changed = any(self._ctx.run_ranges(n_rows, _GRAIN, rebin.weigh_rows, *args))
        return bool(self._ctx.comm.allreduce_max(np.array([changed], np.int64))[0])
