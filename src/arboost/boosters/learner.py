"""A model in training: parameters, loss, trees, and the margins of every matrix it has seen.

The face (`booster.py`) checks what users pass and shapes what they get; everything between is here.
"""

import hashlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from arboost.boosters.dart import Dart
from arboost.boosters.gblinear import LinearModel
from arboost.boosters.gbtree import GBTree
from arboost.boosters.model import Model
from arboost.boosters.permuted import versions_of_trees
from arboost.boosters.rounds import Gradients, LeafSolver, MarginKeeper, Margins, Round, Trainer
from arboost.boosters.trainers import NO_DART, make_trainer
from arboost.boosters.update import start_update
from arboost.losses import Loss, fixed_base_score, make_loss
from arboost.losses.base import DEFAULT_BASE_SCORE, check_some_labels, lacks_labels
from arboost.matrix.categories import Categories
from arboost.matrix.dmatrix import DMatrix
from arboost.matrix.meta import MetaInfo
from arboost.matrix.statistics import TargetStatistics, make_statistics
from arboost.metrics import Metric, make_metric
from arboost.params.resolve import Resolved, TreeParams, count_permutations, merge, normalize, resolve
from arboost.predict.forest import Forest
from arboost.runtime import comm as comms
from arboost.runtime import rng, settings
from arboost.runtime.context import Context, resolve_threads
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import check_room, is_small


@dataclass
class _Margins:
    """Margins of one matrix after the first `n_trees` trees, as they were in the model's version."""

    margin: np.ndarray
    n_trees: int
    version: int
    base_margin: np.ndarray | None
    keeper: Any = None  # the MarginKeeper that has them too,
    is_behind: bool = False  # and is ahead of `margin`
    bins: Any = None  # that stand for values which are read from their source: `DMatrix.stand_in`
    bins_of: Any = None  # the session whose cuts they have

    def update(self, data: DMatrix) -> None:
        """Bring `margin` up to what its keeper has."""
        if self.is_behind:
            self.keeper.fetch(data, self.margin)
            self.is_behind = False


@dataclass
class _Session:
    """What training on one matrix keeps from round to round."""

    matrix: "weakref.ref[DMatrix]"
    trainer: Trainer
    g: np.ndarray
    h: np.ndarray
    checked: tuple  # the labels, weights, groups and bounds that were found valid
    made_for: tuple  # process_type, max_bin, threads, constraints
    n_before: int  # trees that were there when it began
    cuts: Any  # at which its own ones split, if they are grown from bins


_MARGIN_BYTES = 12  # a margin, its gradient and its hessian
_TREE_BYTES = 2000  # the smallest tree
_MADE_FOR = (  # parameters of trees that a training state is made for
    "process_type", "max_bin", "tree_method", "sketch_eps", "sketch_proposal", "extra_trees", "enable_bundle",
    "linear_leaves", "boosting_type", "permutation_count",
)  # fmt: skip
_MODELS: dict[str, Callable[[], Model]] = {"gbtree": GBTree, "dart": Dart, "gblinear": LinearModel}


class Learner:
    """Parameters and model; `base_score` is None until it is given, estimated or loaded."""

    def __init__(self, params: Any = None):
        self.params = merge({}, params)
        self.model: Model = GBTree()
        self.base_score: np.ndarray | None = None
        self.boost_from_average = True
        self.n_features = 0
        self.n_label_columns = 1
        self.categories: Categories | None = None  # of the training data, as model files hold them
        self.statistics: TargetStatistics | None = None  # in whose columns the trees split
        self._needs_statistics = True  # until training data has been looked at
        self._resolved: Resolved | None = None
        self._warned = False
        self._ctx: Context | None = None
        self._base_margin: tuple[np.ndarray | None, np.ndarray] | None = None  # made from this base_score
        self._loss: Loss | None = None
        self._outputs: tuple[Loss, int, int] | None = None  # n_outputs of this loss and so many label columns
        self.earlier_loss: Loss | None = None  # whose state the next one takes over
        self._metrics: list[Metric] | None = None
        self._margins: weakref.WeakKeyDictionary[DMatrix, _Margins] = weakref.WeakKeyDictionary()
        self._session: _Session | None = None
        self._forest: tuple[tuple[int, int, int], Forest] | None = None

    def copy(self) -> "Learner":
        """The same parameters and trees, nothing of the data."""
        twin = Learner(self.params)
        twin.model = self.model.copied()
        twin.base_score, twin.boost_from_average = self.base_score, self.boost_from_average
        twin.n_features, twin.n_label_columns = self.n_features, self.n_label_columns
        twin.categories = self.categories
        twin.statistics = None if self.statistics is None else self.statistics.bare()
        earlier = self._loss or self.earlier_loss
        twin.earlier_loss = None if earlier is None else earlier.detached()
        return twin

    # ---- parameters ----

    def set_params(self, params: Any) -> None:
        """Merge new parameters; only what depends on them is made anew."""
        merged = merge(self.params, params)
        self._warned = self._warned and merged.keys() <= self.params.keys()  # a new name is looked at once
        self.params = merged
        self.earlier_loss = self._loss or self.earlier_loss
        self._resolved = self._ctx = self._metrics = self._loss = self._base_margin = None
        self._needs_statistics = True
        if "base_score" in normalize(params):
            self.base_score = None  # the given one is in force from now on, also in a trained model
            self._margins.clear()

    @property
    def resolved(self) -> Resolved:
        if self._resolved is None:
            self._resolved = resolve(self.params, warn=not self._warned)
            self._warned = True
        return self._resolved

    @property
    def tree_params(self) -> TreeParams:
        """The trees' parameters, as the model can go on with them."""
        params = self.resolved.tree
        return params._replace(num_parallel_tree=self.model.trees_per_round(params.num_parallel_tree))

    @property
    def ctx(self) -> Context:
        if self._ctx is None or self._ctx.comm is not comms.current():
            p = self.resolved.learner
            threads = resolve_threads(p.nthread)
            self._ctx = Context(n_threads=threads, device=p.device, seed=p.seed, verbosity=p.verbosity)
        return self._ctx

    @property
    def loss(self) -> Loss:
        if self._loss is None:
            self._loss = make_loss(self.resolved.learner.objective, self.resolved.learner)
            if self.earlier_loss is not None:
                self._loss.take_over(self.earlier_loss, self.resolved.given)
        return self._loss

    @property
    def n_outputs(self) -> int:
        """Columns of the margin: classes, quantiles or label columns; a custom objective may have `num_class`."""
        kept = self._outputs  # asked for in every prediction of a row
        if kept is None or kept[0] is not self._loss or kept[1] != self.n_label_columns:
            n_outputs = max(self._n_loss_outputs(self.loss), self.resolved.learner.num_class)
            kept = self._outputs = (self.loss, self.n_label_columns, n_outputs)
        return kept[2]

    @property
    def n_classes(self) -> int:
        """XGBoost's num_class as it is in force; 0 where the outputs are no classes."""
        n_outputs = self.n_outputs
        return n_outputs if self.loss.name.startswith("multi:") or n_outputs > self._n_loss_outputs(self.loss) else 0

    def _n_loss_outputs(self, loss: Loss) -> int:
        return loss.n_targets(self.n_label_columns)

    @property
    def metrics(self) -> list[Metric]:
        """The metrics to evaluate: the given ones, or the loss's own."""
        if self._metrics is None:
            p = self.resolved.learner
            names = list(p.eval_metric)
            if not names and not p.disable_default_eval_metric:
                names = [self.loss.default_metric]
            self._metrics = [make_metric(name, p) for name in names]
        return self._metrics

    # ---- margins ----

    @property
    def intercept(self) -> np.ndarray:
        """base_score as it stands, float32: found in training or loaded, else the given one, else XGBoost's default."""
        if self.base_score is not None:
            return self.base_score
        given = self.resolved.learner.base_score
        return np.atleast_1d(np.asarray(DEFAULT_BASE_SCORE if given is None else given, np.float32))

    def base_margin(self) -> np.ndarray:
        """(K,) float32: where every row's margin starts."""
        kept = self._base_margin
        if kept is None or kept[0] is not self.base_score:
            start = fixed_base_score(self.loss.to_margin(self.intercept), self.n_outputs)
            if self.model.starts_alike:
                start = np.full_like(start, start[0])
            kept = (self.base_score, start)
            self._base_margin = kept if self.base_score is not None else None
        return kept[1]

    def start_margin(self, n_rows: int, base_margin: np.ndarray | None) -> np.ndarray:
        """(n, K) float32 margins before any tree: the rows' own base_margin, or the model's intercept."""
        n_outputs = self.n_outputs
        if not is_small(_MARGIN_BYTES * n_rows * n_outputs):  # a row alone is served in microseconds
            self._check_room(n_rows, 0)
        if base_margin is None or base_margin.size == 0:
            return np.full((n_rows, n_outputs), self.base_margin())
        if base_margin.size != n_rows * n_outputs:
            raise XGBoostError(
                f"base_margin has {base_margin.size} values; {n_rows} rows x {n_outputs} outputs are expected."
            )
        return np.ascontiguousarray(base_margin, np.float32).reshape(n_rows, n_outputs).copy()

    def _check_room(self, n_rows: int, n_parallel: int) -> None:
        """Refuse margins and gradients, and a round of trees, that cannot fit: nothing of them is made yet."""
        n_outputs = self.n_outputs
        n_trees = n_parallel * n_outputs
        n_bytes = _MARGIN_BYTES * n_rows * n_outputs + _TREE_BYTES * n_trees
        trees = f" and {n_trees} trees a round (num_parallel_tree={n_parallel})" if n_trees else ""
        what = f"A model of {n_outputs} outputs (num_class, quantiles or label columns){trees} on {n_rows} rows"
        check_room(n_bytes, what, "Lower them.")

    def margins(self, data: DMatrix) -> np.ndarray:
        """Margins of `data` under all trees, kept and brought up to date tree by tree. Do not modify."""
        known = self._margins.get(data)
        version = self.model.version
        if known is None or known.base_margin is not data.info.base_margin or known.version != version:
            start = self.start_margin(data.num_row(), data.info.base_margin)
            known = self._margins[data] = _Margins(start, 0, version, data.info.base_margin)
        try:
            known.update(data)
        except BaseException:
            del self._margins[data]  # the device has failed that had them: they are made anew when needed
            self._session = None
            raise
        n_trees = self.model.n_terms
        if known.n_trees < n_trees:
            known.keeper = None
            forest, bins = self.model.forest(known.n_trees), self._stand_in(data, known)
            if bins is not None:
                self._add_trees(bins.chunks(), known.margin, forest, slice(None))
            else:
                for of_trees, trees in self._versions(data, known.n_trees):
                    self.add_trees(of_trees, known.margin, forest, trees)
            known.n_trees = n_trees
        return known.margin

    def _stand_in(self, data: DMatrix, known: _Margins) -> Any:
        """Bins to walk the newest trees with, where that spares reading values from their source every round."""
        session, params = self._session, self.tree_params
        trained = None if session is None else session.matrix()
        if session is None or trained is None or trained is data or known.n_trees < session.n_before:
            return None
        is_plain = self.model.kind == "gbtree" and params.process_type != "update" and not params.linear_leaves
        if params.tree_method in ("approx", "exact") or not is_plain or data.n_permutations > 1:
            return None
        if known.bins_of is not session:
            known.bins_of, known.bins = session, data.stand_in(self.ctx, session.cuts, params.max_bin)
        return known.bins

    def _versions(self, data: DMatrix, first_tree: int) -> Iterator[tuple[DMatrix, slice]]:
        """(data, trees from `first_tree` on): each tree with the version of the data that it was grown on."""
        if data.n_permutations == 1:
            yield data, slice(None)
            return
        drawn = (self.ctx.seed, data.n_permutations)
        for permutation, trees in versions_of_trees(self.model.as_trees(), *drawn, first_tree):
            yield data.permuted(permutation), trees

    def training_margins(self, data: DMatrix) -> np.ndarray:
        """Margins that the next round's gradients are taken at: without the trees it drops. Do not modify."""
        forest = self._forest_of_round(slice(None))
        if forest is None:
            return self.margins(data)
        margin = self.start_margin(data.num_row(), data.info.base_margin)
        self.add_trees(data, margin, forest, slice(None))
        return margin

    def _forest_of_round(self, trees: slice) -> Forest | None:
        """Those of the trees that the next round does not drop; None: all of them."""
        return self.model.forest_of_round(self.resolved, rng.make_key(self.ctx.seed, self.model.n_rounds), trees)

    def add_trees(self, data: DMatrix, margin: np.ndarray, forest: Forest, trees: slice) -> None:
        """margin += trees, chunk by chunk of raw values."""
        forest.check_values(data)
        self._add_trees(data.chunks_for(self.ctx), margin, forest, trees)

    def _add_trees(self, chunks: Iterable[tuple[int, Any]], margin: np.ndarray, forest: Forest, trees: slice) -> None:
        for first, values in chunks:
            forest.add_margins(self.ctx, values, trees, margin[first : first + len(values)])

    def predict_margins(self, data: DMatrix, trees: slice, training: bool = False) -> np.ndarray:
        """(n, K) margins of the chosen trees, from scratch; safe to call from several threads unless `training`.

        With `training`, trees that the next round drops are left out.
        """
        margin = self.start_margin(data.num_row(), data.info.base_margin)
        rest = self._forest_of_round(trees) if training else None
        self.add_trees(data, margin, rest or self.forest(), trees if rest is None else slice(None))
        return margin

    def forest(self) -> Forest:
        """All trees packed, kept until trees are added."""
        packed, state = self._forest, (self.model.n_terms, self.model.version, self.n_outputs)
        if packed is None or packed[0] != state:
            self._check_outputs()
            packed = self._forest = (state, self.model.forest())
        return packed[1]

    # ---- target statistics in place of categories ----

    @property
    def n_columns(self) -> int:
        """Columns that data must have; the trees may see others."""
        return self.n_features if self.statistics is None else self.statistics.n_columns

    def encoded(self, data: DMatrix) -> DMatrix:
        """The data in the columns that the trees see."""
        return data if self.statistics is None else self.statistics.encoded(data)

    def encoded_for_training(self, data: DMatrix) -> DMatrix:
        """The same for rows to learn from, whose statistics do not hold their own labels."""
        params, model = self.tree_params, self.model
        is_new = self.statistics is None and self._needs_statistics and not model.is_fitted
        if is_new and params.cat_strategy == "ordered_ts" and self.resolved.learner.booster != "gblinear":
            self._needs_statistics = False
            if self.loss.name.startswith("survival:"):
                raise XGBoostError(
                    f"cat_strategy='ordered_ts' makes means of labels, which {self.loss.name!r} has none of: use "
                    "'partition'."
                )
            limits = (params.max_cat_to_onehot, params.max_cat_combination)
            self.statistics = make_statistics(self.ctx, data, self.n_classes, *limits)
        if self.statistics is None:
            return data
        n_permutations = 1 if self.resolved.learner.booster == "dart" else count_permutations(params)
        return self.statistics.for_training(self.ctx, data, self.n_classes, n_permutations)

    # ---- training ----

    def accept(self, data: DMatrix) -> int:
        """Check the columns of `data` against the model's; a model without trees takes those of the data.

        Returns the number of rows of all workers.
        """
        n_columns = data.num_col()
        if n_columns == 0:
            raise XGBoostError("0 feature is supplied: the data must have at least one column.")
        data.info.check_groups()
        n_all_rows = data.agree(self.ctx, None if self.ctx.is_alone else self._common())
        self._choose_model()
        if not self.model.is_fitted:
            self.n_features = n_columns
            self.n_label_columns = data.info.n_label_columns or self.n_label_columns
        elif n_columns != self.n_features:
            raise XGBoostError(
                f"Feature shape mismatch, expected: {self.n_features}, got {n_columns}: the data must have the "
                "columns that the model was trained on."
            )
        else:
            self._check_targets(data, (1, self.n_label_columns))
            self._check_outputs()
        return n_all_rows

    def _common(self) -> dict[str, dict[str, str]]:
        """What all workers must have alike besides the columns of their data: parameters, and the trees so far.

        The last tree stands for those before it: each round's was compared before the next.
        """
        own = {"nthread", "verbosity", "device", "validate_parameters"}  # every worker's own business
        given = {name: repr(value) for name, value in self.resolved.given.items() if name not in own}
        trees = {"the number of rounds": str(self.model.n_rounds)}
        if self.model.trees:
            last = self.model.trees[-1]
            parts = (
                last.left,
                last.feature,
                last.threshold,
                last.default_left,
                last.cover,
                last.categories,
                last.vectors,
                last.terms,
            )
            trees["the last tree"] = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
        return {"parameters": given, "trees": trees}

    def _check_outputs(self) -> None:
        """Refuse an objective with another number of outputs than the model's trees have."""
        n_targets = self.model.n_targets
        if n_targets not in (0, self.n_outputs):
            raise XGBoostError(
                f"The model has {n_targets} outputs, objective {self.loss.name!r} has {self.n_outputs}: leave "
                "`objective` and `num_class` as the model was trained, or begin a new model."
            )

    def _check_classes(self, loss: Loss) -> None:
        """Refuse `num_class` with a loss that knows no classes: only gradients of the user's own can have them."""
        n_outputs = self._n_loss_outputs(loss)
        if n_outputs != self.n_outputs:
            raise XGBoostError(
                f"Invalid shape of labels: num_class is {self.n_outputs}, but objective {loss.name!r} has {n_outputs} "
                "output(s). Leave `num_class` out, or use multi:softprob or a custom objective."
            )

    def _check_targets(self, data: DMatrix, allowed: tuple[int, ...]) -> None:
        """Refuse labels of other targets than the model's."""
        n_columns = data.info.n_label_columns or 1
        if n_columns not in allowed:
            raise XGBoostError(
                f"Invalid shape of labels: inconsistent labels, the data has {n_columns} a row, the model "
                f"{self.n_label_columns}."
            )

    def _choose_model(self) -> None:
        """Make the kind of model that `booster` names; trees grown without dropout may go on with it."""
        kind, model = self.resolved.learner.booster, self.model
        if kind == "dart" and any(tree.has_vectors for tree in model.trees):
            raise XGBoostError(NO_DART)
        if model.kind == kind:
            return
        if not model.is_fitted:
            self.model = _MODELS[kind]()
        elif (model.kind, kind) == ("gbtree", "dart"):
            self.model = Dart.of_trees(model.as_trees())
        else:
            raise XGBoostError(
                f"booster is {kind!r} but the model was trained with {model.kind!r}: leave `booster` as it was, or "
                "begin a new model."
            )
        self._base_margin = None
        self.forget_data()

    def _prepare(self, data: DMatrix, estimate: bool) -> int:
        """Check `data` against the model, fix the intercept before the first tree; returns the rows of all workers."""
        n_all_rows = self.accept(data)
        if self._session is None or self._session.matrix() is not data:
            _ = self.metrics  # refuses unknown ones, also where nothing is evaluated
            self._check_room(data.num_row(), self.tree_params.num_parallel_tree)
        if self.base_score is not None and (self.model.is_fitted or not self.boost_from_average):
            return n_all_rows
        if self.resolved.learner.base_score is not None:
            self.base_score, self.boost_from_average = self.intercept, False
        elif estimate and not n_all_rows:
            self.base_score = self.loss.blank_base_score(self.n_outputs)
        elif estimate:
            self.loss.check_info(data.info)
            check_some_labels(self.ctx, data.info.label)
            self.base_score = self.loss.base_score_of(self.ctx, data.info)
        else:
            self.base_score = np.full(1, DEFAULT_BASE_SCORE, np.float32)
        self.base_margin()  # refuses a base_score that the loss cannot have
        self._margins.clear()
        return n_all_rows

    def _session_for(self, data: DMatrix) -> _Session:
        """The training state for `data`, made on its first round."""
        tree_params, ctx = self.tree_params, self.ctx
        made_for: tuple = (self.model.kind, self._grows_vectors, self.n_outputs, ctx.n_threads, ctx.comm, ctx.device)
        made_for += tuple(getattr(tree_params, name) for name in _MADE_FOR)
        made_for += (tree_params.min_data_in_leaf > 1, tree_params.path_smooth > 0)
        made_for += (tree_params.grow_policy == "symmetric",)
        made_for += (repr(tree_params.monotone_constraints), repr(tree_params.interaction_constraints))
        session = self._session
        if session is None or session.matrix() is not data or session.made_for != made_for:
            data.make_room(
                max_bin=tree_params.max_bin, n_outputs=self.n_outputs, max_depth=tree_params.max_depth,
                subsample=tree_params.subsample < 1,
            )  # fmt: skip
            trainer = make_trainer(ctx, data, self.model, tree_params, self.n_outputs if self._grows_vectors else 0)
            shape = (self.n_outputs, data.num_row())
            g, h = np.empty(shape, np.float32), np.empty(shape, np.float32)
            session = self._session = _Session(
                weakref.ref(data), trainer, g, h, (), made_for, self.model.n_terms, data.kept_cuts
            )
        session.trainer.set_params(tree_params)
        return session

    @property
    def _grows_vectors(self) -> bool:
        """Whether trees are to have a weight for every output in their leaves."""
        return self.resolved.learner.multi_strategy == "multi_output_tree" and self.n_outputs > 1

    @contextmanager
    def whole_round(self) -> Iterator[None]:
        """Around one round: where `process_type` is "update" the first one sets the model's trees aside.

        If it fails, they are back.
        """
        self._choose_model()
        before = self.model
        if self.tree_params.process_type == "update":
            self.model = start_update(before.as_trees())
        else:
            before.end_update()
        try:
            yield
        except BaseException:
            if self.model is not before:
                self.model = before
                self.forget_data()
            raise

    def end_process(self) -> None:
        """Forget `process_type` and `updater`, which are for one training, as XGBoost does."""
        names = ("process_type", "updater")
        if self.model.kind != "gblinear" and any(name in self.params for name in names):
            self.params = {name: value for name, value in self.params.items() if name not in names}
            self._resolved = None
            self.model.end_update()

    def update(self, data: DMatrix, custom: Loss | None = None) -> None:
        """One round of boosting on the model's own loss, or on a custom one."""
        with self.whole_round():
            self._update(data, custom)

    def _update(self, data: DMatrix, custom: Loss | None) -> None:
        loss = custom or self.loss
        n_all_rows = self._prepare(data, estimate=custom is None)
        self._check_classes(loss)
        if not n_all_rows:
            self._add_blank_round(data)
            return
        self._check_targets(data, (self.n_label_columns,))
        session = self._session_for(data)
        info = data.info
        targets = (info.label, info.weight, info.group_ptr, info.label_lower_bound, info.label_upper_bound)
        if not session.checked or any(a is not b for a, b in zip(session.checked, targets, strict=True)):
            loss.check_info(info)
            check_some_labels(self.ctx, info.label)
            session.checked = targets
        key = rng.make_key(self.ctx.seed, self.model.n_rounds)
        trainer: Any = session.trainer
        if trainer.keeps_margins and self.model.kind == "gbtree" and trainer.can_keep(loss, info):
            self._boost(data, session, self._kept_margins(data, trainer), None, loss=loss, keeper=trainer)
            return
        margin = self.training_margins(data)
        loss.gradient_of(self.ctx, key, margin, info, session.g, session.h)
        self._boost(data, session, margin, self._leaf_solver(data.info), loss=loss)

    def _kept_margins(self, data: DMatrix, keeper: MarginKeeper) -> np.ndarray:
        """The margins that stand for those the keeper has, which may be ahead of them."""
        if not self._is_kept(data, keeper):
            keeper.hold(data, self.margins(data))
            self._margins[data].keeper = keeper
        return self._margins[data].margin

    def _is_kept(self, data: DMatrix, keeper: MarginKeeper) -> bool:
        """Whether the keeper has the margins of this matrix under all trees."""
        known, model = self._margins.get(data), self.model
        return (
            known is not None
            and known.keeper is keeper
            and (known.n_trees, known.version) == (model.n_terms, model.version)
            and known.base_margin is data.info.base_margin
        )

    def last_gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies of the gradients and hessians (K, n) that the last round was grown from, for who shows them."""
        if self._session is None:
            raise XGBoostError("No round has been trained, or its data was forgotten: there are no gradients.")
        trainer: Any = self._session.trainer
        if trainer.keeps_margins and trainer.has_gradients:
            found: tuple[np.ndarray, np.ndarray] = trainer.last_gradients()
            return found
        return self._session.g.copy(), self._session.h.copy()

    def boost(self, data: DMatrix, grad: np.ndarray, hess: np.ndarray, split: Gradients | None = None) -> None:
        """One round of boosting on given gradients (n, K); `split`: others, (n, J), to find splits on."""
        if not self._prepare(data, estimate=False):
            self._add_blank_round(data)
            return
        session = self._session_for(data)
        if split is not None and not session.trainer.takes_split:
            raise XGBoostError(
                "split_grad is for trees with vectors in their leaves, of several outputs: set "
                "multi_strategy='multi_output_tree', or let split_grad return None."
            )
        session.g[:], session.h[:] = grad.T, hess.T
        label = data.info.label
        if label is not None and label.shape == grad.shape and lacks_labels(label):
            session.g[np.isnan(label.T)] = session.h[np.isnan(label.T)] = 0.0
        self._boost(data, session, self.margins(data), self._leaf_solver(data.info), split)

    def _add_blank_round(self, data: DMatrix) -> None:
        """A round that adds nothing: there are no rows to learn from."""
        if data not in self._margins:  # once for a training
            settings.warn("Empty dataset: there are no rows to learn from, so the rounds add nothing.")
        self.model.add_blank_round(
            self.n_features, self.n_outputs, self._grows_vectors, self.tree_params.num_parallel_tree
        )  # fmt: skip
        self.margins(data)

    def _leaf_solver(self, info: MetaInfo) -> LeafSolver | None:
        """How leaves are found where the objective has its own way, also with a custom objective's gradients.

        XGBoost does it so: who wants Newton steps leaves the parameter `objective` at a loss that takes them.
        """
        loss, label = self.loss, info.label
        if loss.leaf_alphas is None or label is None or len(label) != info.n_rows:
            return None

        def solver(target: int, rows: np.ndarray, leaf_ptr: np.ndarray, margin: np.ndarray) -> np.ndarray:
            return loss.leaf_values(self.ctx, target, rows, leaf_ptr, label, margin, info.row_weight())

        return solver

    def _boost(
        self,
        data: DMatrix,
        session: _Session,
        margin: np.ndarray,
        solver: LeafSolver | None,
        split: Gradients | None = None,
        loss: Loss | None = None,
        keeper: MarginKeeper | None = None,
    ) -> None:
        key = rng.make_key(self.ctx.seed, self.model.n_rounds)
        turn = Round(data, session.g, session.h, margin, key, solver, split, self.resolved, loss)
        try:
            if keeper is None:
                left = session.trainer.train_round(self.model, turn)
            else:
                left = keeper.train_kept_round(self.model, turn)
        except BaseException:
            # the round is lost, the model is whole: margins that hold half a round are made anew when needed
            self._margins.pop(data, None)
            self._drop_kept()
            raise
        known = self._margins.get(data)
        is_kept = known is not None and known.margin is margin and known.version == self.model.version
        if known is not None and is_kept and left is Margins.ADDED:
            known.n_trees, known.keeper = self.model.n_terms, keeper
            for other, its in self._margins.items() if keeper is not None else ():
                if its.keeper is keeper and keeper.holds(other):
                    its.n_trees, its.is_behind = self.model.n_terms, True
        elif left is not Margins.BEHIND:
            self._margins.pop(data, None)  # or weights of earlier trees have changed

    def _drop_kept(self) -> None:
        """Forget the training state, and all margins that its trainer keeps."""
        self._session = None
        for data in [data for data, known in self._margins.items() if known.keeper is not None]:
            del self._margins[data]

    def evaluate(self, data: DMatrix) -> list[tuple[str, float]]:
        """(metric name, value) of every metric on `data`."""
        return self.evaluate_all([data])[0]

    def evaluate_all(self, matrices: Sequence[DMatrix]) -> list[list[tuple[str, float]]]:
        """The same for several matrices: who keeps their margins finds what it can of all of them at once."""
        is_blank = [not self.accept(data) for data in matrices]
        scores = self._kept_scores([data for data, blank in zip(matrices, is_blank, strict=True) if not blank])
        names = [metric.name for metric in self.metrics]
        values = [
            [metric.blank_value for metric in self.metrics] if blank else self._evaluate(data, scores.get(data))
            for data, blank in zip(matrices, is_blank, strict=True)
        ]
        return [list(zip(names, row, strict=True)) for row in values]

    def _evaluate(self, data: DMatrix, known: list[float | None] | None) -> list[float]:
        """Every metric on `data`; some may be known."""
        values, prediction = list[float](), None
        for metric, value in zip(self.metrics, known or [None] * len(self.metrics), strict=True):
            if value is None:
                if prediction is None:
                    prediction = self.loss.eval_transform(self.margins(data), self.ctx)
                value = metric.evaluate_info(self.ctx, prediction, data.info)
            values.append(value)
        return values

    def _kept_scores(self, matrices: list[DMatrix]) -> dict[DMatrix, list[float | None]]:
        """Metrics of those matrices whose margins the trainer keeps, or takes over now."""
        session = self._session
        trained = None if session is None else session.matrix()
        trainer: Any = None if session is None else session.trainer
        if trained is None or not trainer.keeps_margins or not self._is_kept(trained, trainer):
            return {}
        try:
            kept = [data for data in matrices if self._takes_over(data, trainer)]
            values = trainer.score(self.loss, self.metrics, kept) if kept else []
        except BaseException:
            self._drop_kept()
            raise
        return dict(zip(kept, values, strict=True))

    def _takes_over(self, data: DMatrix, keeper: MarginKeeper) -> bool:
        """Whether the keeper has the margins of this matrix, or takes them now: it is evaluated round after round."""
        if self._is_kept(data, keeper):
            return True
        if (data not in self._margins and self.model.n_rounds > 1) or not keeper.hold(data, self.margins(data)):
            return False
        self._margins[data].keeper = keeper
        return True

    def forget_data(self) -> None:
        """Drop everything that belongs to matrices: margins, bins in use, packed trees."""
        self._margins.clear()
        self._session = None
        self._forest = None
        if self.statistics is not None:
            self.statistics.forget()
