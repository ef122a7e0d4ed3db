"""Trees on a sample of the rows of pages on disk: the sample is gathered in memory once for a tree, if it fits.

Its levels then need no page at all; one more reading gives all rows their weights. Sums are those of the same integers
and bins, so the tree is the same to the bit. The idea is XGBoost's for GPUs (Ou 2020, "Out-of-core GPU gradient
boosting").
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from arboost.levels.base import Features, Finished, Rules, TreeKind, Walk
from arboost.levels.histogram import PLAIN_TREES, HistogramEngine
from arboost.levels.quantize import QuantizedGradients
from arboost.levels.vectors import VectorGradients
from arboost.matrix.page import BinnedPage
from arboost.matrix.store import StoredPages
from arboost.runtime.context import Context
from arboost.runtime.device import clear_errors, device, ordinal_of

if TYPE_CHECKING:
    from arboost.levels.device import DeviceEngine

_ROW_BYTES = 12  # a sampled row's number, twice, and room to part it


class GatheringEngine:
    """A `HistogramEngine` on pages from disk, or, for a tree on a sample that fits, one on the sample.

    Parameters
    ----------
    ctx, pages, monotone, kind
        See `HistogramEngine`.
    """

    def __init__(self, ctx: Context, pages: StoredPages, monotone: np.ndarray | None, kind: TreeKind):
        self._ctx, self._pages, self._kind = ctx, pages, (monotone, kind)
        self._on_pages = self._now = HistogramEngine(ctx, pages, monotone, kind)
        self._sampled: np.ndarray | None = None  # the rows that are gathered
        self._category_limits = (0, 0)

    @property
    def nodes(self) -> np.ndarray:
        """NODE records of the tree that is growing."""
        return self._now.nodes

    def set_category_limits(self, max_cat_to_onehot: int, max_cat_threshold: int) -> None:
        """Take the limits of the search for sets of categories."""
        self._category_limits = max_cat_to_onehot, max_cat_threshold
        self._now.set_category_limits(*self._category_limits)

    def start(
        self, gradients: QuantizedGradients, sampled: np.ndarray | None, rules: Rules, features: Features
    ) -> np.ndarray:
        """Begin a tree on all rows or the sampled ones; returns the root if it has a split."""
        self._now, self._sampled = self._on_pages, None  # the last sample's memory is free
        more_bytes = _ROW_BYTES + 8 * len(gradients.planes)
        if sampled is not None and len(sampled) and self._pages.can_gather(len(sampled), more_bytes):
            self._now = HistogramEngine(self._ctx, [self._pages.gather(self._ctx, sampled)], *self._kind)
            gradients, self._sampled, sampled = gradients.take(sampled), sampled, None
        self._now.set_category_limits(*self._category_limits)
        return self._now.start(gradients, sampled, rules, features)

    def make_room(self, waiting: Callable[[], np.ndarray]) -> int:
        """How many nodes may be opened at once; see `HistogramEngine`."""
        return self._now.make_room(waiting)

    def open(self, batch: np.ndarray) -> np.ndarray:
        """Open the batch, and find splits for its children; returns those that have one."""
        return self._now.open(batch)

    def close(self, batch: np.ndarray, partition_all: bool) -> np.ndarray:
        """Make children, all leaves; returns the nodes whose rows stay where they are, never any if `partition_all`."""
        return self._now.close(batch, partition_all)

    def stop(self) -> None:
        """Send other threads home."""
        self._now.stop()

    def finish(self, eta: np.float32) -> Finished:
        """The tree, its leaves' weights times eta."""
        return self._now.finish(eta)

    def weigh_again(self, gradients: VectorGradients, leaves: np.ndarray, eta: np.float32) -> Finished:
        """The tree with the weights that other gradients ask for; the rows of all leaves are parted."""
        own = gradients if self._sampled is None else gradients.take(self._sampled)
        return self._now.weigh_again(own, leaves, eta)

    def add_weights(self, walk: Walk, leaves: np.ndarray, closed: np.ndarray, margin: np.ndarray, target: int) -> None:
        """margin[r, target] += the weight of r's leaf, for all rows; `closed` are the nodes that `close` returned."""
        if self._sampled is None:
            self._now.add_weights(walk, leaves, closed, margin, target)
        else:
            self._now.walk(self._pages, np.zeros(self._pages.n_rows, np.uint8), walk.weights, margin, target)

    def leaf_rows(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leaf_ptr): the rows that the tree has seen, one leaf after the other, ascending in each."""
        rows, leaf_ptr = self._now.leaf_rows(leaves)
        return rows if self._sampled is None else self._sampled[rows], leaf_ptr


def make_engine(
    ctx: Context, pages: Sequence[BinnedPage], monotone: np.ndarray | None = None, kind: TreeKind = PLAIN_TREES
) -> "HistogramEngine | GatheringEngine | DeviceEngine":
    """The engine on histograms for pages of any kind, on the device that the context names."""
    if not ctx.is_on_cpu:
        ctx = ctx.leave_device(_why_on_cpu(ctx, pages, kind))
    if not ctx.is_on_cpu:
        from arboost.levels.device import DeviceEngine

        with clear_errors(ordinal_of(ctx.device)):
            page = pages[0].unbundled(ctx)
            free = np.zeros(page.n_features, np.int64)
            return DeviceEngine(ctx, device(ctx.device), page, free if monotone is None else monotone, kind)
    if isinstance(pages, StoredPages) and len(pages) > 1:
        return GatheringEngine(ctx, pages, monotone, kind)
    return HistogramEngine(ctx, pages, monotone, kind)


def _why_on_cpu(ctx: Context, pages: Sequence[BinnedPage], kind: TreeKind) -> str:
    """What keeps trees on bins from a device; empty: nothing."""
    reasons = {
        "data on several pages": len(pages) > 1,
        "several workers": not ctx.is_alone,
        "multi_strategy='multi_output_tree'": kind.n_targets > 0,
        "grow_policy='symmetric'": kind.symmetric,
        "linear_leaves": kind.linear,
    }
    return ", ".join(name for name, holds in reasons.items() if holds)
