"""The linear booster: a round is one pass of coordinate descent over the weights (`ops.linear`).

`LinearModel` has weights (F + 1, K) float32, the last row the bias, where others have trees; `LinearTrainer` holds the
columns of one matrix. The updaters `shotgun` and `coord_descent` are one here: weights
are updated one after the other, which is what XGBoost's `shotgun` does with a single thread. Updates that race would
make the result hang on the threads.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import numpy as np

from arboost.boosters.rounds import Margins, Round
from arboost.kernels.ops import linear as ops
from arboost.matrix.adapt import SparseData
from arboost.matrix.dmatrix import DMatrix
from arboost.params.resolve import LinearParams, Resolved, TreeParams
from arboost.predict.forest import Forest
from arboost.predict.shap import Explainer
from arboost.runtime import rng
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import check_room
from arboost.tree.model import Tree

_ROW_GRAIN = 4096
_FEATURE_GRAIN = 4
_DUMP_BYTES = 100  # a weight as text, as Python holds it


@dataclass
class LinearModel:
    """Weights of features and bias, and how many rounds made them: a `Model` that has no trees."""

    kind: ClassVar[str] = "gblinear"
    starts_alike: ClassVar[bool] = True  # as in XGBoost, so that a file predicts the same in both
    weights: np.ndarray = field(default_factory=lambda: np.zeros((0, 1), np.float32))
    rounds: int = 0

    def __post_init__(self) -> None:
        self._checked: np.ndarray | None = None  # the weights when convergence was last looked at
        self._is_converged = False

    @property
    def trees(self) -> list[Tree]:
        """None: it is made of weights."""
        return []

    def as_trees(self) -> NoReturn:
        """Refused: there are none."""
        raise XGBoostError("A gblinear model has no trees; see get_dump() and get_score() for its weights.")

    def trees_per_round(self, asked: int) -> int:
        """None."""
        return 0

    @property
    def n_rounds(self) -> int:
        return self.rounds

    @property
    def is_fitted(self) -> bool:
        """Whether there are rounds."""
        return self.rounds > 0

    @property
    def n_terms(self) -> int:
        """One: the product of values and weights."""
        return 1

    @property
    def n_targets(self) -> int:
        """Outputs that there are weights for; 0 without rounds."""
        return self.weights.shape[1] if self.rounds and len(self.weights) else 0

    @property
    def version(self) -> int:
        """Every round changes the weights."""
        return self.rounds

    def add_weights(self, weights: np.ndarray) -> None:
        """Take the weights that one more round found."""
        self.weights = weights
        self.rounds += 1

    def add_blank_round(self, n_features: int, n_outputs: int, has_vectors: bool, n_parallel: int) -> None:
        """A round that changes nothing."""
        blank = np.zeros((n_features + 1, n_outputs), np.float32)
        self.add_weights(self.weights if len(self.weights) else blank)

    def is_converged(self, tolerance: float) -> bool:
        """Whether no weight moved by more than `tolerance` since this was last asked; 0 never stops."""
        if tolerance == 0 or self._is_converged:
            return self._is_converged
        before, self._checked = self._checked, self.weights
        if before is not None and before.shape == self.weights.shape:
            self._is_converged = float(np.abs(self.weights - before).max(initial=0)) <= tolerance
        return self._is_converged

    def end_update(self) -> None:
        """Nothing: `process_type` is for trees."""

    def copied(self) -> "LinearModel":
        """The same weights; they never change, every round has its own."""
        return LinearModel(self.weights, self.rounds)

    def slice_rounds(self, rounds: range) -> NoReturn:
        """Refused: a round cannot be taken out."""
        raise XGBoostError("Slice is not supported by the current booster: rounds of gblinear are one set of weights.")

    def trees_of(self, begin: int, end: int) -> slice:
        """All there is; a range must begin with the first round, its end is not looked at, as in XGBoost."""
        if begin != 0:
            raise XGBoostError("Linear booster does not support prediction range: begin with round 0.")
        return slice(None)

    def dump(self, dump_format: str, n_features: int, n_outputs: int) -> str:
        """Biases and weights, feature by feature, as text or JSON."""
        check_room(_DUMP_BYTES * n_features * n_outputs, f"The text of {n_features} weights", "The model has none yet.")
        weights = self.weights if len(self.weights) else np.zeros((n_features + 1, n_outputs), np.float32)
        bias, rest = ([f"{v:.6g}" for v in part.ravel().tolist()] for part in (weights[-1], weights[:-1]))
        if dump_format == "text":
            return "\n".join(["bias:", *bias, "weight:", *rest, ""])
        if dump_format != "json":
            raise XGBoostError(f"Dump format `{dump_format}` is not supported by the gblinear model: use text or json.")
        lists = (",\n".join(f"      {text}" for text in part) for part in (bias, rest))
        return '  {{ "bias": [\n{}\n    ],\n    "weight": [\n{}\n    ]\n  }}'.format(*lists)

    def scores(self, names: list[str] | None, importance_type: str) -> dict[str, float | list[float]]:
        """The weights by feature (None: f0, f1, ...): a number, or a list where there are several outputs."""
        if importance_type != "weight":
            raise XGBoostError("gblinear only has `weight` defined for feature importance.")
        rows = self.weights[:-1].tolist()
        names = names or [f"f{i}" for i in range(len(rows))]
        return {name: row[0] if len(row) == 1 else row for name, row in zip(names, rows, strict=False)}

    def forest(self, first_tree: int = 0) -> Forest:
        """What predicts."""
        return LinearForest(self.weights)

    def forest_of_round(self, params: Resolved, key: int, chosen: slice = slice(None)) -> None:
        """A round's gradients see all weights."""

    def saved(self) -> dict[str, Any]:
        """Its own fields of a `SavedModel`."""
        return {"linear_weights": self.weights.ravel(), "linear_rounds": self.rounds}


class LinearForest(Forest):
    """Predicts from weights what a forest predicts from trees."""

    def __init__(self, weights: np.ndarray):
        super().__init__([], [])
        self._weights = weights

    def add_margins(self, ctx: Context, data: np.ndarray, trees: slice, margin: np.ndarray) -> None:
        """margin (n, K) float32 += bias and weights times the values of `data`; missing values add nothing."""
        if len(self._weights):
            data = np.ascontiguousarray(data, np.float32)
            ctx.run_ranges(len(data), _ROW_GRAIN, ops.add_products, data, self._weights, margin)

    def find_leaves(self, ctx: Context, data: np.ndarray, trees: slice, leaves: np.ndarray) -> None:
        """Refused: there are none."""
        raise XGBoostError("gblinear does not support prediction of leaf index: a linear model has no leaves.")

    def explainer(self, n_features: int) -> Explainer:
        """A feature adds its value times its weight."""
        return LinearExplainer(self._weights, n_features)


class LinearExplainer(Explainer):
    """Contributions of a linear model: exact, and the same with `approximate`. Pairs of features add nothing."""

    def __init__(self, weights: np.ndarray, n_features: int):
        super().__init__([], [], n_features)
        self._weights = weights if len(weights) else np.zeros((n_features + 1, 1), np.float32)

    def explain(self, ctx: Context, data: np.ndarray, trees: slice, out: np.ndarray, approximate: bool) -> None:
        """out (n, K, F + 1) float32: values times weights; the bias is left to `mean`."""
        values = np.nan_to_num(data, nan=0.0, posinf=np.inf, neginf=-np.inf)
        np.multiply(values[:, None, :], self._weights[:-1].T, out=out[:, :, :-1])

    def explain_pairs(self, ctx: Context, data: np.ndarray, trees: slice, out: np.ndarray) -> None:
        """out (n, K, (F + 1) ** 2) float32: the contributions, on the diagonals."""
        width = self.n_features + 1
        alone = np.zeros((*out.shape[:2], width), np.float32)
        self.explain(ctx, data, trees, alone, False)
        out[:, :, :: width + 1] = alone

    def mean(self, trees: slice, n_targets: int) -> np.ndarray:
        """(K,): the bias."""
        return np.broadcast_to(self._weights[-1], (n_targets,))


class LinearTrainer:
    """Updates weights on one matrix, whose columns it keeps."""

    takes_split = False
    keeps_margins = False

    def __init__(self, ctx: Context, data: DMatrix):
        if data.raw is None:
            raise XGBoostError(
                f"Not implemented for `{type(data).__name__}`: gblinear needs the values themselves, use DMatrix."
            )
        if "c" in (data.feature_types or ()):
            raise XGBoostError("`gblinear` doesn't support categorical features.")
        self._ctx = ctx
        self._columns = _columns_of(data)

    def set_params(self, params: TreeParams) -> None:
        """Nothing: the parameters of linear models come with every round."""

    def train_round(self, model: LinearModel, turn: Round) -> Margins:
        """One pass over the weights."""
        weight = turn.data.info.weight
        mass = turn.data.num_row() if weight is None else float(np.sum(weight, dtype=np.float64))
        self.step(model, turn.params.linear, turn.g, turn.h, turn.key, mass)
        return Margins.VOID

    def step(
        self, model: LinearModel, params: LinearParams, g: np.ndarray, h: np.ndarray, key: int, mass: float
    ) -> None:
        """One round from gradients (K, n), which are changed; `mass` is the sum of row weights."""
        n_features, n_targets = len(self._columns[0]) - 1, len(g)
        weights = model.weights.copy() if len(model.weights) else np.zeros((n_features + 1, n_targets), np.float32)
        if not model.is_converged(params.tolerance):
            penalties = np.array([params.reg_lambda, params.reg_alpha], np.float32) * np.float32(mass)
            state = (np.append(np.float64(params.eta), penalties), g, h, weights)
            self._ctx.run_ranges(n_targets, 1, ops.update_bias, *state)
            if params.feature_selector == "greedy":
                self._update_greedily(params.top_k, state)
            else:
                order = self._order(params, rng.make_key(key, rng.WEIGHTS), state)
                self._update(order, state, 0, n_targets)
        if not np.isfinite(weights).all():
            raise XGBoostError(
                "booster='gblinear': a weight is no longer a finite number, the steps have grown without end. Lower "
                "eta, raise lambda, or scale the features; check them for huge values."
            )
        model.add_weights(weights)

    def _update(self, order: np.ndarray, state: tuple, first: int, last: int) -> None:
        """Update weights in the order (K, m) for targets first..last."""
        spans = [(*self._columns, order, *state, k, k + 1) for k in range(first, last)]
        self._ctx.run_tasks(ops.update_weights, spans)

    def _order(self, params: LinearParams, key: int, state: tuple) -> np.ndarray:
        """Features in the order of their update, for every target (K, m)."""
        *_, weights = state
        n_features, n_targets = len(weights) - 1, weights.shape[1]
        features = np.arange(n_features)
        if params.feature_selector == "shuffle":
            features = np.argsort(rng.uniform(key, features), kind="stable")
        elif params.feature_selector == "random":
            draws = [rng.uniform(rng.make_key(key, k), features) for k in range(n_targets)]
            return (np.stack(draws) * n_features).astype(np.int64)
        elif params.feature_selector == "thrifty":
            changes = np.stack([self._changes(k, state) for k in range(n_targets)])
            return np.argsort(-np.abs(changes), axis=1, kind="stable")[:, : _n_updates(params.top_k, n_features)]
        return np.broadcast_to(features, (n_targets, n_features)).copy()

    def _update_greedily(self, top_k: int, state: tuple) -> None:
        """Always the weight that would change most; every choice looks at all features."""
        *_, weights = state
        order = np.zeros((weights.shape[1], 1), np.int64)
        for k in range(weights.shape[1]):
            for _ in range(_n_updates(top_k, len(weights) - 1)):
                order[k] = np.argmax(np.abs(self._changes(k, state)))
                self._update(order, state, k, k + 1)

    def _changes(self, k: int, state: tuple) -> np.ndarray:
        """(F,) float64: how target k's weights would change now."""
        changes = np.empty(len(self._columns[0]) - 1)
        self._ctx.run_ranges(len(changes), _FEATURE_GRAIN, ops.find_changes, *self._columns, k, *state, changes)
        return changes


def _n_updates(top_k: int, n_features: int) -> int:
    """Updates of a target in a round: XGBoost's count of features ends one before the last."""
    return min(top_k or n_features, n_features - 1)


def _columns_of(data: DMatrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """col_ptr int64, rows int32 and values float32 of a matrix; missing values are absent or 0, which adds nothing."""
    raw: Any = data.raw
    if isinstance(raw, SparseData):
        import scipy.sparse

        values = np.where(np.isnan(raw.values), np.float32(0), raw.values)
        matrix = scipy.sparse.csr_matrix((values, raw.indices, raw.row_ptr), shape=(raw.n_rows, raw.n_features))
    else:
        matrix = data.get_data()
    columns = matrix.tocsc()
    return columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data
