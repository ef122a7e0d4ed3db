"""Rounds on a CUDA device: margins, gradients and rows stay there from round to round.

So do the margins of matrices that are evaluated after each (`device_scores.py`). Where a round needs the host
(sampling by gradients, leaf values by quantiles of a sample or in deep trees, losses that `device_losses.py` names, the
user's own gradients) it has it: gradients go to the device, trees are grown there, weights come back.
"""

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arboost.boosters.device_losses import GradientSource, QuantileSource, source_class
from arboost.boosters.device_scores import DeviceScores, Scored
from arboost.boosters.gbtree import GBTree, Grower, TreeTrainer
from arboost.boosters.rounds import Margins, Round
from arboost.boosters.sampling import sample_rows
from arboost.levels.device import DeviceEngine, DeviceMargin, KeptTree, check_memory
from arboost.losses.base import Loss
from arboost.matrix.dmatrix import BinsOnly, DMatrix
from arboost.matrix.meta import MetaInfo
from arboost.matrix.on_device import values_on
from arboost.metrics import Metric
from arboost.runtime import rng
from arboost.runtime.device import clear_errors
from arboost.tree.grow import Grower as TreeGrower
from arboost.tree.model import Tree

MAX_JOBS = 64  # trees of a round that are grown before the host looks at them


class DeviceTrainer(TreeTrainer):
    """Grows rounds of trees on the device of its grower's engine."""

    keeps_margins = True
    _grower: TreeGrower

    def __init__(self, *args: Any, engine: DeviceEngine, data: DMatrix, **options: Any):
        super().__init__(*args, **options)
        self._engine, self._device = engine, engine.device
        self._matrix, self._margin = weakref.ref(data), DeviceMargin(None)
        self._scored: weakref.WeakKeyDictionary[DMatrix, Scored] = weakref.WeakKeyDictionary()
        self._scores = DeviceScores(self._ctx, self._device)
        self._source: GradientSource | None = None
        self._gradients: dict[int, _Gradients] = {}
        self._solved: dict[int, np.ndarray] = {}  # weights of leaves by quantiles, slot by slot, on the host
        self._turn = 0  # which of two gradients are the latest
        self._fetched = self._device.make_event()  # when the trees that are waited for have arrived
        self._begun: tuple | None = None  # what the round that the device is at was begun with
        self.has_gradients = False  # whether the last round's are here

    def can_keep(self, loss: Loss, info: MetaInfo) -> bool:
        """Whether the gradients of this loss are found on the device."""
        params = self._params
        if "refresh" in params.updater or (loss.leaf_alphas is not None and not self._can_solve(loss, info)):
            return False
        if not (self._grower.opens_all and self._engine.reserve_ahead(params.max_depth)):
            return False
        if (params.subsample < 1.0 and params.sampling_method != "uniform") or params.sampling_method == "goss":
            return False
        return source_class(loss, info) is not None

    def _can_solve(self, loss: Loss, info: MetaInfo) -> bool:
        """Whether leaf values by quantiles are found on the device: of all rows, and before any tree is added."""
        params, label = self._params, info.label
        n_trees = loss.n_targets(1 if label is None or label.ndim == 1 else label.shape[1]) * params.num_parallel_tree
        is_free = params.subsample >= 1.0 and not np.any(self._grower.monotone)
        return is_free and params.max_depth <= QuantileSource.MOST_DEPTH and n_trees <= MAX_JOBS

    def hold(self, data: DMatrix, margin: np.ndarray) -> bool:
        """Take margins over to the device; False: rows of this matrix cannot walk trees there."""
        is_trained = data is self._matrix()
        if is_trained:
            self._begun = None
        with clear_errors(self._device.ordinal):
            self._device.use()
            known = self._scored.get(data)
            if known is not None and known.margin.values.shape == margin.shape:
                known.margin.values.copy_to_device(margin)
                known.has_last_round = known.is_asked = True
                self._scores.forget()
                return True
            if is_trained:  # beside them two pairs of gradients
                check_memory(self._device, 5 * margin.nbytes, f"margins and gradients of {margin.shape[1]} outputs")
            walk = None if is_trained else self._walk_of(data, margin.nbytes)
            if walk is None and not is_trained:
                return False
            known = self._scored[data] = Scored(DeviceMargin(self._device.upload(margin), walk))
            if is_trained:
                self._margin = known.margin
        return True

    def _walk_of(self, data: DMatrix, n_bytes: int) -> tuple[Any, tuple] | None:
        """How rows of another matrix walk trees, if they fit beside so many bytes: their values or bins go there."""
        if data.raw is not None:
            values = values_on(self._ctx, data.raw, data.feature_types)
            return None if values is None else self._engine.walk_of(values)
        assert isinstance(data, BinsOnly)
        pages = data.pages(self._ctx, data.max_bin)
        page = pages[0] if len(pages) == 1 else None
        if page is None or page.nbytes + n_bytes > self._device.free_bytes():
            return None
        return self._engine.walk_of(page)

    def holds(self, data: DMatrix) -> bool:
        """Whether the device has the margins of a matrix, with all that the last round has added."""
        known = self._scored.get(data)
        return known is not None and known.has_last_round

    def fetch(self, data: DMatrix, margin: np.ndarray) -> None:
        """Bring the margins of a matrix back (OUT)."""
        with clear_errors(self._device.ordinal):
            self._device.use()
            self._scored[data].margin.values.copy_to_host(margin)

    def score(self, loss: Loss, metrics: Sequence[Metric], matrices: Sequence[DMatrix]) -> list[list[float | None]]:
        """The metrics of matrices that are held; None for those that the device has no kernel for."""
        with clear_errors(self._device.ordinal):
            self._device.use()
            return self._scores.ask(loss, metrics, [(self._scored[data], data.info) for data in matrices])

    def train_kept_round(self, model: GBTree, turn: Round) -> Margins:
        """One round at the margins that the device holds.

        Before the host waits for the trees of a round it has the device add them to the margins and grow the trees of
        the next, as they would be if nothing changed: if it is otherwise, they are thrown away, and nothing else has
        happened. So the device has always something to do.
        """
        with clear_errors(self._device.ordinal):
            self._device.use()
            trees, targets = self._grow_kept(turn)
        model.num_parallel_tree = self._params.num_parallel_tree
        model.add_round(trees, targets)
        return Margins.ADDED

    def _grow_kept(self, turn: Round) -> tuple[list[Tree], list[int]]:
        """The trees of a round and their targets."""
        source = self._source_of(turn)
        state = (source, self._params)
        trees, targets = list[Tree](), list[int]()
        jobs = self._jobs(turn.key, self._margin.values.shape[1])
        if not self._has_begun(state):
            self._engine.forget_failed()
            self._begin_round(source, turn.key)
            self._launch_jobs(jobs[:MAX_JOBS])
        self._begun = None
        self._choose_scored()
        self.has_gradients, self._last = True, self._gradients[self._turn]
        for first in range(0, len(jobs), MAX_JOBS):
            some, later = jobs[first : first + MAX_JOBS], jobs[first + MAX_JOBS : first + 2 * MAX_JOBS]
            self._add_jobs(some, is_last=not later)
            if not later and len(jobs) <= MAX_JOBS and self._is_predictable and not source.draws:
                self._begin_round(source, turn.key)
                self._launch_jobs(some)
                self._begun = state
            kept = self._wait_for_jobs(some, is_last=not later)
            for job, tree in zip(some, kept, strict=True):
                grown = self._grower.grow(tree, job.sampled, job.key).tree  # type: ignore[arg-type]
                if isinstance(source, QuantileSource):
                    leaves = np.flatnonzero(grown.left < 0)
                    grown.threshold[leaves] = self._solved[job.slot][leaves]
                trees.append(grown)
                targets.append(job.target)
            if later:
                self._launch_jobs(later)
        return trees, targets

    def _has_begun(self, state: tuple) -> bool:
        """Whether the device is at the round that is asked for."""
        return self._begun is not None and self._begun[0] is state[0] and self._begun[1] == state[1]

    def _jobs(self, key: int, n_targets: int) -> list["_Job"]:
        """The trees of a round."""
        params, jobs = self._params, list[_Job]()
        for target in range(n_targets):
            for parallel in range(params.num_parallel_tree):
                tree_key = rng.make_key(key, target, parallel)
                sampled = sample_rows(self._ctx, self._n_rows, params.subsample, tree_key, self._runs)
                jobs.append(_Job(target, tree_key, sampled, len(jobs) % MAX_JOBS))
        return jobs

    def _source_of(self, turn: Round) -> GradientSource:
        """What finds the gradients of a round: the last round's, unless loss, labels or weights are others."""
        loss, info = turn.loss, turn.data.info
        assert loss is not None
        if self._source is None or not self._source.is_for(loss, info):
            kind = source_class(loss, info)
            assert kind is not None, "`can_keep` is asked first"
            self._source = kind(self._ctx, self._device, loss, info)
        return self._source

    def _begin_round(self, source: GradientSource, key: int) -> None:
        """Gradients of the next trees: those of the last round stay as they are."""
        n_targets, n = self._margin.values.shape[1], self._n_rows
        self._turn = 1 - self._turn
        if self._turn not in self._gradients:
            g, h = (self._device.empty((n_targets, n), np.float32) for _ in range(2))
            rows = [(g[k], h[k]) for k in range(n_targets)]
            self._gradients[self._turn] = _Gradients(g, h, rows)
        found = self._gradients[self._turn]
        source.find(self._margin.values, key, found.g, found.h)

    def _launch_jobs(self, jobs: list["_Job"]) -> None:
        grower, params = self._grower, self._params
        for job in jobs:
            slot, (g, h) = self._engine.slot(job.slot), self._gradients[self._turn].rows[job.target]
            masks = grower.features_of(job.key).of_tree()
            of_tree = (masks, grower.regularisation, params.path_smooth, params.max_depth, grower.eta)
            choice = params.min_data_in_leaf, grower.draw_key(job.key)
            self._engine.launch_tree(slot, g, h, job.sampled, *of_tree, *choice)
            if isinstance(self._source, QuantileSource):
                self._source.solve(self._engine, slot, self._margin.values, job.target, grower.eta)

    def _choose_scored(self) -> None:
        """Rounds are added to margins of other matrices for as long as these are evaluated after each."""
        for scored in self._scored.values():
            is_trained = scored.margin is self._margin
            scored.has_last_round = is_trained or (scored.has_last_round and scored.is_asked)
            scored.is_asked = False

    def _add_jobs(self, jobs: list["_Job"], is_last: bool) -> None:
        """Have the trees' weights added to the margins, the trees fetched, and after the last ones metrics found."""
        for job in jobs:
            self._engine.add_kept(self._engine.slot(job.slot), self._margin, job.target)
        for job in jobs:
            slot = self._engine.slot(job.slot)
            slot.fetch_later(self._device)
            if isinstance(self._source, QuantileSource):
                if job.slot not in self._solved or len(self._solved[job.slot]) != slot.capacity:
                    self._solved[job.slot] = self._device.pinned(slot.capacity, np.float32)
                self._device.copy_later(slot.weights, self._solved[job.slot])
        self._device.mark(self._fetched)
        for scored in self._scored.values():
            if scored.has_last_round and scored.margin is not self._margin:
                for job in jobs:
                    self._engine.add_kept(self._engine.slot(job.slot), scored.margin, job.target)
        if is_last:
            self._scores.launch_again()

    def _wait_for_jobs(self, jobs: list["_Job"], is_last: bool) -> list[KeptTree]:
        """The trees; where some need a plane each for gradients and hessians, all of them are grown anew."""
        self._fetched.synchronize()
        kept = [self._engine.fetched_tree(self._engine.slot(job.slot)) for job in jobs]
        if any(tree is None for tree in kept):
            if self._begun is not None:
                self._begun, self._turn = None, 1 - self._turn
            self._launch_jobs(jobs)
            self._add_jobs(jobs, is_last)
            return self._wait_for_jobs(jobs, is_last)
        return kept  # type: ignore[return-value]

    @property
    def _is_predictable(self) -> bool:
        """Whether the next round's trees are grown on the rows, features and candidates of this one's."""
        params = self._params
        return params.subsample >= 1.0 and params.colsample_bytree >= 1.0 and not params.extra_trees

    def train_round(self, model: GBTree, turn: Round) -> Margins:
        """One round from gradients of the host."""
        self.has_gradients = False
        self._begun = None
        for scored in self._scored.values():
            scored.has_last_round = False
        with clear_errors(self._device.ordinal):
            self._device.use()
            return super().train_round(model, turn)

    def last_gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies of the gradients and hessians of the last round."""
        return self._last.g.copy_to_host(), self._last.h.copy_to_host()


class _Job(NamedTuple):
    """One tree of a round, which the device grows."""

    target: int
    key: int
    sampled: np.ndarray | None
    slot: int


class _Gradients(NamedTuple):
    """Of one round, (K, n) float32 on the device, and the rows of both for every target."""

    g: Any
    h: Any
    rows: list[tuple[Any, Any]]


def engine_of(grower: Grower) -> DeviceEngine | None:
    """The device engine of a grower, if it has one."""
    engine = getattr(grower, "engine", None)
    return engine if isinstance(engine, DeviceEngine) else None
