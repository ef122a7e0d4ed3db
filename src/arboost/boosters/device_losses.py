"""Gradients that a CUDA device finds at margins of its own: which losses have kernels, and what these are given.

A loss without one (proportional hazards, whose sums over the rows at risk are one chain of additions; expectiles;
ranking with a position bias, which is learnt between rounds; the user's own) has its gradients found by the host and
sent.
"""

from typing import Any

import numpy as np

from arboost.kernels.gpu import leaf_quantile as quantile_ops
from arboost.kernels.gpu import rank as rank_ops
from arboost.kernels.gpu import round as ops
from arboost.kernels.gpu.device import Device, Launch
from arboost.levels.device import DeviceEngine, TreeSlot
from arboost.losses.base import ElementwiseLoss, Loss, column, lacks_labels
from arboost.losses.ranking import LambdaRank
from arboost.losses.survival import AcceleratedFailureTime, bounds_of
from arboost.matrix.meta import MetaInfo
from arboost.runtime import sums
from arboost.runtime.context import Context

NO_WEIGHTS = np.zeros(0, np.float32)


class GradientSource:
    """Finds the gradients of one loss on one matrix, whose labels and weights are sent once."""

    draws = False  # whether a round's key has a say

    def __init__(self, ctx: Context, device: Device, loss: Any, info: MetaInfo):
        self._device, self._loss, self._n_rows = device, loss, info.n_rows
        self._of = _parts(loss, info)
        self._launches: dict[int, tuple[tuple, list[Launch]]] = {}

    def is_for(self, loss: Loss, info: MetaInfo) -> bool:
        """Whether it is for this loss and what the matrix holds now."""
        return all(a is b for a, b in zip(self._of, _parts(loss, info), strict=True))

    def find(self, margin: Any, key: int, g: Any, h: Any) -> None:
        """g and h (K, n) (OUT) at margin (n, K), in a round of this key; all on the device."""
        arrays = (margin, g, h)
        used, launches = self._launches.get(id(g), ((), []))
        if not used or any(a is not b for a, b in zip(used, arrays, strict=True)):
            launches = self._prepare(*arrays)
            self._launches[id(g)] = arrays, launches
        changes = self._changes(key)
        for launch in launches:
            launch(changes)

    def _prepare(self, margin: Any, g: Any, h: Any) -> list[Launch]:
        raise NotImplementedError  # every family of losses has its own

    def _changes(self, key: int) -> dict[int, int]:
        """Arguments of the launches that are others in the round of this key."""
        return {}

    def _launch(self, kernel: Any, *args: Any) -> Launch:
        """A launch with rows for every thread."""
        return self._device.prepare(kernel, self._device.blocks_of(self._n_rows), *args)

    def _sent_weight(self, weight: np.ndarray | None) -> Any:
        return self._device.upload(NO_WEIGHTS if weight is None else weight)


def source_class(loss: Loss, info: MetaInfo) -> type[GradientSource] | None:
    """What finds the gradients of a loss on a device; None: nothing."""
    if isinstance(loss, LambdaRank):
        is_one_run = info.runs is None or len(info.runs) == 1
        return _OfGroups if is_one_run and not loss.lambdarank_unbiased else None
    if isinstance(loss, AcceleratedFailureTime):
        return _OfIntervals
    if info.label is None:
        return None
    if isinstance(loss, ElementwiseLoss):
        has_one = ops.has_formula(loss.kernel) and _is_plain(loss) and not lacks_labels(info.label)
        return None if not has_one else _OfRows if loss.leaf_alphas is None else QuantileSource
    return _OfClasses if loss.name in ("multi:softprob", "multi:softmax") else None


def _parts(loss: Loss, info: MetaInfo) -> tuple:
    """What gradients depend on besides margins."""
    bounds = info.label_lower_bound, info.label_upper_bound
    return (loss, info.label, info.weight, info.group_ptr, *bounds)


def _is_plain(loss: Loss) -> bool:
    """Whether its gradients are those of its kernel and no more."""
    own = type(loss)
    return own.gradient is ElementwiseLoss.gradient and own.gradient_of is Loss.gradient_of


class _OfRows(GradientSource):
    """A formula of margin and label, target by target."""

    def __init__(self, ctx: Context, device: Device, loss: Any, info: MetaInfo):
        super().__init__(ctx, device, loss, info)
        label, weight, self._targets = _label_of(info), info.row_weight(), list[tuple]()
        for target in range(loss.n_targets(1 if label.ndim == 1 else label.shape[1])):
            own, args = column(label, target), loss.kernel_args(target)
            sent = device.upload(own), self._sent_weight(loss.row_weight(own, weight))
            self._targets.append((ops.gradient_kernel(loss.kernel.__name__, len(args)), target, *sent, *args))

    def _prepare(self, margin: Any, g: Any, h: Any) -> list[Launch]:
        return [self._launch(kernel, margin, *args, g, h) for kernel, *args in self._targets]


class QuantileSource(_OfRows):
    """The same, and leaves are quantiles of the residuals."""

    MOST_DEPTH = 9  # of trees whose leaves are counted: 4 MB of counters
    _ETA = 7  # place among the arguments of the kernel

    def __init__(self, ctx: Context, device: Device, loss: Any, info: MetaInfo):
        super().__init__(ctx, device, loss, info)
        n, weight = info.n_rows, info.row_weight()
        fixed, self._unit = (np.zeros(0, np.int64), 1.0) if weight is None else sums.fixed_point_weights(ctx, n, weight)
        self._fixed = device.upload(fixed)
        n_nodes = 2 << self.MOST_DEPTH
        self._scratch = (
            device.empty(n, np.int32),
            device.empty(n, np.uint32),
            device.empty((n_nodes, quantile_ops.DIGITS, 2), np.int64),
            device.empty((n_nodes, quantile_ops.N_FOUND), np.int64),
        )

    def solve(self, engine: DeviceEngine, slot: TreeSlot, margin: Any, target: int, eta: np.float32) -> None:
        """Have the leaves of a tree that was launched hold quantiles: at margins that it is not added to yet."""
        used, launch = slot.launches.get(("solve", target), ((), None))
        if launch is None or used[0] is not self or used[1] is not margin:
            label = self._targets[target][2]
            args = target, eta, label, margin, self._fixed, self._unit, self._loss.alpha_of(target), *self._scratch
            launch = engine.prepare_on_tree(slot, quantile_ops.solve_leaves, *args)
            slot.launches["solve", target] = (self, margin), launch
        launch({self._ETA: eta})


class _OfClasses(GradientSource):
    """Softmax over all targets."""

    def __init__(self, ctx: Context, device: Device, loss: Any, info: MetaInfo):
        super().__init__(ctx, device, loss, info)
        self._sent = device.upload(column(_label_of(info), 0)), self._sent_weight(info.row_weight())

    def _prepare(self, margin: Any, g: Any, h: Any) -> list[Launch]:
        return [self._launch(ops.softmax_gradient, margin, *self._sent, g, h)]


class _OfIntervals(GradientSource):
    """Accelerated failure time: bounds in place of labels."""

    def __init__(self, ctx: Context, device: Device, loss: Any, info: MetaInfo):
        super().__init__(ctx, device, loss, info)
        self._sent = (*map(device.upload, bounds_of(info, loss.name)), self._sent_weight(info.row_weight()))

    def _prepare(self, margin: Any, g: Any, h: Any) -> list[Launch]:
        return [self._launch(ops.aft_gradient, margin, *self._sent, *self._loss.noise(), g, h)]


class _OfGroups(GradientSource):
    """Pairs within query groups, a block a group."""

    _KEY = 6  # place among the arguments of the kernel that draws

    def __init__(self, ctx: Context, device: Device, loss: Any, info: MetaInfo):
        super().__init__(ctx, device, loss, info)
        self.draws = not loss.is_topk
        plan, n = loss.plan(ctx, info), info.n_rows
        of_plan = column(plan.label, 0), plan.group_ptr, plan.per_group, plan.discount
        self._sent = [*map(device.upload, (*of_plan, loss.settings(0, plan.runs[0].offset)))]
        self._scratch: list[Any] = [device.empty((rank_ops.N_WORK, n), np.float64)]
        if self.draws:
            self._scratch = [0, device.empty((2, n), np.uint64), device.empty(n, np.int32), *self._scratch]
        else:
            self._scratch = [device.empty((1, n), np.uint64), *self._scratch]
        self._n_blocks = device.blocks_of((len(plan.group_ptr) - 1) * device.n_threads)

    def _prepare(self, margin: Any, g: Any, h: Any) -> list[Launch]:
        kernel = rank_ops.drawn_gradients if self.draws else rank_ops.top_gradients
        args = (margin.reshape(margin.size), *self._sent, *self._scratch, g, h)
        return [self._device.prepare(kernel, self._n_blocks, *args)]

    def _changes(self, key: int) -> dict[int, int]:
        if not self.draws:
            return {}
        return {self._KEY: int(np.uint64(self._loss.pair_key(key)).view(np.int64))}


def _label_of(info: MetaInfo) -> np.ndarray:
    assert info.label is not None, "`source_class` asks for labels"
    return info.label
