"""What every loss is: gradients in, predictions out, an intercept, and a name in model files.

A loss is a frozen dataclass whose fields are its parameters. Margins are (n_rows, n_targets) float32, labels
(n_rows,) or (n_rows, n_targets) float32, g and h (n_targets, n_rows) float32. Formulas are in `kernels/`.
"""

import difflib
import json
import math
from collections.abc import Callable, Container
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from arboost.matrix.meta import MetaInfo, label_columns
from arboost.params.resolve import LearnerParams
from arboost.runtime import sums
from arboost.runtime.comm import LocalComm
from arboost.runtime.context import Context
from arboost.runtime.errors import ModelFileError, XGBoostError

GRAIN = 32_768  # rows below which a second thread does not pay
SERIAL = Context(comm=LocalComm())
MIN_HESSIAN_SUM = 1e-6  # XGBoost's kRtEps
DEFAULT_BASE_SCORE = 0.5  # XGBoost's, where nothing is estimated


@dataclass(frozen=True)
class Loss:
    """One objective function with its parameters.

    Attributes
    ----------
    name
        XGBoost's name, such as "reg:squarederror".
    default_metric
        Name of the metric reported when the user names none.
    leaf_alphas
        One quantile per target where leaf values are replaced by quantiles of the residuals, else None.
    """

    name: ClassVar[str]
    config_group: ClassVar[str | None] = None  # where model files keep the parameters
    # (margin, out, start, stop): entries of predictions from margins; None: they are the margins
    link: ClassVar[Any] = None

    @property
    def default_metric(self) -> str:
        raise NotImplementedError  # every loss names its own

    @property
    def leaf_alphas(self) -> tuple[float, ...] | None:
        return None

    def n_targets(self, n_label_columns: int = 1) -> int:
        """Number of margin columns for labels of this many columns."""
        return max(n_label_columns, 1)

    def check_label(self, label: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Raise XGBoostError unless this loss can be trained on these labels and weights."""
        self.n_targets(label_columns(label))  # some refuse several
        check_finite(label)
        check_weight(len(label), weight)
        if lacks_labels(label):
            label = label[~np.isnan(label)]
        if label.size:
            self._check_range(float(label.min()), float(label.max()))

    def _check_range(self, low: float, high: float) -> None:
        """Raise XGBoostError if labels between low and high are not allowed."""

    def gradient(
        self,
        ctx: Context,
        margin: np.ndarray,
        label: np.ndarray,
        weight: np.ndarray | None,
        g: np.ndarray,
        h: np.ndarray,
    ) -> None:
        """Write the weighted first and second derivative of the loss by the margin into g and h (OUT)."""
        raise NotImplementedError  # every loss has this or `gradient_of`

    # ---- the same for losses that need more of a matrix than labels and weights: groups, bounds, the round ----

    def check_info(self, info: MetaInfo) -> None:
        """Raise XGBoostError unless this loss can be trained on this matrix."""
        label = info.label
        if label is None or len(label) != info.n_rows:
            raise XGBoostError(
                f"Invalid shape of labels: training needs one label per row, got {0 if label is None else len(label)} "
                f"for {info.n_rows} rows. Pass label= to DMatrix."
            )
        self.check_label(label, info.row_weight())

    def gradient_of(
        self, ctx: Context, key: int, margin: np.ndarray, info: MetaInfo, g: np.ndarray, h: np.ndarray
    ) -> None:
        """`gradient` for a matrix that `check_info` has accepted; `key` seeds the draws of this round."""
        assert info.label is not None
        self.gradient(ctx, margin, info.label, info.row_weight(), g, h)

    def base_score_of(self, ctx: Context, info: MetaInfo) -> np.ndarray:
        """`base_score` for a matrix that `check_info` has accepted."""
        assert info.label is not None
        return self.base_score(ctx, info.label, info.row_weight())

    def detached(self) -> "Loss":
        """The same with what it has learnt so far, for another model: itself where nothing is learnt."""
        return self

    def take_over(self, earlier: "Loss", given: Container[str]) -> None:
        """Go on with what an earlier loss of this model has learnt, or was told and no parameter in `given` changes."""

    def leaf_values(
        self,
        ctx: Context,
        target: int,
        rows: np.ndarray,
        leaf_ptr: np.ndarray,
        label: np.ndarray,
        margin: np.ndarray,
        weight: np.ndarray | None,
    ) -> np.ndarray:
        """Best value of every leaf, before the learning rate; only for losses with `leaf_alphas`.

        Parameters
        ----------
        ctx
            Context: leaves are shared among its threads.
        target
            Which column of the margin (and of a label with several) the tree belongs to.
        rows
            (n,) int32 row ids, leaf after leaf; empty for all rows in order.
        leaf_ptr
            (n_leaves + 1,) int64: the rows of leaf l are rows[leaf_ptr[l] : leaf_ptr[l + 1]].
        label, margin, weight
            Of all rows; margins from before this tree.

        Returns
        -------
        numpy.ndarray
            (n_leaves,) float32; NaN for a leaf without rows, whose value is to be kept.
        """
        raise NotImplementedError  # asked only of losses that give `leaf_alphas`

    def base_score(self, ctx: Context, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """The constant prediction to start from, estimated as XGBoost does: (n_targets,) float32, output scale."""
        return newton_base_score(self, ctx, label, weight)

    def blank_base_score(self, n_targets: int) -> np.ndarray:
        """What to start from where there are no rows at all: a margin of 0, on the output scale."""
        return self.transform(np.zeros((1, n_targets), np.float32)).reshape(-1)

    def to_margin(self, base_score: np.ndarray) -> np.ndarray:
        """Margins (float32) of constant predictions; raises XGBoostError where there is none."""
        return check_base_score(base_score)

    def transform(self, margin: np.ndarray, ctx: Context = SERIAL) -> np.ndarray:
        """Predictions (n_rows, n_outputs) from margins; may be the margins themselves."""
        return margin if self.link is None else map_vector(ctx, self.link, margin)

    def eval_transform(self, margin: np.ndarray, ctx: Context = SERIAL) -> np.ndarray:
        """What metrics are given."""
        return self.transform(margin, ctx)

    def config(self) -> dict[str, Any]:
        """XGBoost's "objective" object of model files."""
        config: dict[str, Any] = {"name": self.name}
        if self.config_group is not None:
            config[self.config_group] = {f.name: _format(getattr(self, f.name)) for f in fields(self)}
        return config

    @classmethod
    def from_params(cls, params: LearnerParams) -> "Loss":
        """This loss with the user's parameters."""
        return cls(**{f.name: getattr(params, f.name) for f in fields(cls)})

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Loss":
        """This loss with the parameters of a model file; absent ones keep their defaults."""
        group = config.get(cls.config_group, {}) if cls.config_group else {}
        if not isinstance(group, dict):
            raise ModelFileError(f"learner.objective.{cls.config_group}: an object was expected.")
        kinds = {f.name: f.type for f in fields(cls)}
        values = {n: _parse(group[n], kinds[n], f"{cls.config_group}.{n}") for n in kinds if n in group}
        try:
            return cls(**values)
        except XGBoostError as error:
            raise ModelFileError(f"learner.objective.{cls.config_group}: {error}") from error


@dataclass(frozen=True)
class ElementwiseLoss(Loss):
    """A loss whose gradient at a row and target depends on that margin and label only."""

    kernel: ClassVar[Any]  # (margin, label, *kernel_args, g, h, start, stop), all vectors over rows

    def kernel_args(self, target: int) -> tuple[Any, ...]:
        """Parameters of the kernel for one target."""
        return ()

    def row_weight(self, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """Weights of the rows, one target's labels given; None for 1."""
        return weight

    def gradient(
        self,
        ctx: Context,
        margin: np.ndarray,
        label: np.ndarray,
        weight: np.ndarray | None,
        g: np.ndarray,
        h: np.ndarray,
    ) -> None:
        lacking = lacks_labels(label)
        for k in range(margin.shape[1]):
            y = column(label, k)
            args = self.kernel_args(k)
            ctx.run_ranges(len(margin), GRAIN, self.kernel, column(margin, k), y, *args, g[k], h[k])
            weigh(ctx, self.row_weight(y, weight), g[k], h[k])
            if lacking:
                no_label = np.isnan(y)
                g[k, no_label] = h[k, no_label] = 0.0


LossClass = TypeVar("LossClass", bound=type[Loss])
LOSSES: dict[str, type[Loss]] = {}
"""Every loss by XGBoost's name."""


def register(cls: LossClass) -> LossClass:
    """Class decorator: make the loss known by its name."""
    LOSSES[cls.name] = cls
    return cls


def _loss_class(name: str) -> type[Loss]:
    if name in LOSSES:
        return LOSSES[name]
    close = difflib.get_close_matches(name, LOSSES, n=1)
    hint = f" Did you mean `{close[0]}`?" if close else ""
    raise XGBoostError(
        f"Unknown objective function: `{name}`.{hint} Objective candidates: {', '.join(sorted(LOSSES))}."
    )


def make_loss(name: str, params: LearnerParams) -> Loss:
    """The loss of this name with the parameters it reads.

    Raises
    ------
    XGBoostError
        The name is unknown (the message suggests a near one) or a parameter is out of its range.
    """
    return _loss_class(name).from_params(params)


def loss_from_config(config: dict[str, Any], n_classes: int = 0) -> Loss:
    """The loss of a model file's "objective" object.

    Parameters
    ----------
    config
        As `Loss.config` makes it; parameters that are absent keep their defaults.
    n_classes
        The model's number of classes, for files whose objective does not repeat it.
    """
    name = config.get("name")
    if not isinstance(name, str):
        raise ModelFileError("learner.objective.name: a string was expected.")
    cls = _loss_class(name)
    group = cls.config_group
    if n_classes and group and "num_class" in {f.name for f in fields(cls)}:
        config = {**config, group: {"num_class": str(n_classes), **config.get(group, {})}}
    return cls.from_config(config)


def column(values: np.ndarray, k: int) -> np.ndarray:
    """Column k of (n_rows, K) as a contiguous vector; a vector is its own only column."""
    if values.ndim == 1:
        return values
    return values.reshape(-1) if values.shape[1] == 1 else np.ascontiguousarray(values[:, k])


def weigh(ctx: Context, weight: np.ndarray | None, g: np.ndarray, h: np.ndarray) -> None:
    """One target's g and h times the rows' weights, if there are any, in place."""
    if weight is not None:
        ctx.run_ranges(len(weight), GRAIN, weigh_range, weight, g, h)


def weigh_range(weight: np.ndarray, g: np.ndarray, h: np.ndarray, start: int, stop: int) -> None:
    """The same for a range of rows."""
    for values in (g[start:stop], h[start:stop]):
        np.multiply(values, weight[start:stop], out=values)


def map_vector(ctx: Context, kernel: Callable, margin: np.ndarray) -> np.ndarray:
    """kernel(margin, out, start, stop) over all entries of an array of any shape."""
    margin = np.ascontiguousarray(margin, np.float32)
    out = np.empty_like(margin)
    ctx.run_ranges(margin.size, GRAIN, kernel, margin.reshape(-1), out.reshape(-1))
    return out


def lacks_labels(label: np.ndarray) -> bool:
    """Whether some rows have no label (NaN) for some of several targets; a lone target may not lack any."""
    return label.ndim == 2 and label.shape[1] > 1 and math.isnan(np.sum(label, dtype=np.float64))


def check_finite(label: np.ndarray) -> None:
    """Raise XGBoostError on an infinite label, and on NaN where there is one target."""
    if lacks_labels(label):
        label = label[~np.isnan(label)]
    if label.size and not (math.isfinite(label.min()) and math.isfinite(label.max())):
        raise XGBoostError("Label contains NaN, infinity or a value too large.")


def check_some_labels(ctx: Context, label: np.ndarray | None) -> None:
    """Raise XGBoostError on a target of several for which no worker has a label."""
    if label is None or label.ndim == 1 or label.shape[1] == 1:
        return
    empty = np.flatnonzero(ctx.comm.allreduce_sum(np.count_nonzero(~np.isnan(label), axis=0)) == 0)
    if len(empty):
        raise XGBoostError(f"Label contains NaN only for target {empty[0]}: there is nothing to learn it from.")


def check_weight(n_rows: int, weight: np.ndarray | None) -> None:
    """Raise XGBoostError unless there is one finite, non-negative weight a row."""
    if weight is None:
        return
    if weight.shape != (n_rows,):
        raise XGBoostError(f"Size of weight must equal to the number of rows: {weight.shape} weights, {n_rows} rows.")
    if n_rows and not (weight.min() >= 0 and weight.max() < math.inf):
        raise XGBoostError("Weights must be positive values: a weight is negative, NaN or infinite.")


def check_base_score(base_score: np.ndarray) -> np.ndarray:
    """base_score as float32; raises XGBoostError if it is not finite."""
    base_score = np.atleast_1d(np.asarray(base_score, np.float32))
    if not np.isfinite(base_score).all():
        raise XGBoostError(f"base_score must be finite, found {base_score.tolist()}.")
    return base_score


def fixed_base_score(value: float | tuple[float, ...] | np.ndarray, n_targets: int) -> np.ndarray:
    """The user's base_score as (n_targets,) float32: one number serves all targets."""
    values = np.atleast_1d(np.asarray(value, np.float32))
    if len(values) == 1:
        return np.repeat(values, n_targets)
    if len(values) != n_targets:
        raise XGBoostError(
            "Invalid `base_score`, it should match the number of outputs for multi-class/target models. "
            f"`base_score` len: {len(values)}, outputs: {n_targets}."
        )
    return values


def mean_base_score(ctx: Context, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """The weighted mean label of each target, summed exactly."""
    lacking, means = lacks_labels(label), []  # other workers' rows may lack some, so all take the same steps
    for k in range(label_columns(label)):
        y, w = column(label, k), weight
        if lacking:
            rows = np.flatnonzero(~np.isnan(y))
            y, w = y[rows], None if weight is None else weight[rows]
        means.append(sums.exact_sum(ctx, y, w) / _total_weight(ctx, len(y), w))
    return np.array(means, np.float32)


def newton_base_score(loss: Loss, ctx: Context, label: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """One Newton step from a margin of 0, on the output scale."""
    _total_weight(ctx, len(label), weight)
    n_targets = loss.n_targets(label_columns(label))
    margin = np.zeros((len(label), n_targets), np.float32)
    g, h = np.empty((2, n_targets, len(label)), np.float32)
    loss.gradient(ctx, margin, label, weight, g, h)
    steps = [-sums.exact_sum(ctx, g[k]) / max(sums.exact_sum(ctx, h[k]), MIN_HESSIAN_SUM) for k in range(n_targets)]
    return loss.transform(np.array([steps], np.float32)).reshape(-1)


def _total_weight(ctx: Context, n_rows: int, weight: np.ndarray | None) -> float:
    """Sum of the weights of all workers' rows; raises XGBoostError if there is nothing to learn from."""
    total = sums.sum_weights(ctx, n_rows, weight)
    if not total > 0.0:
        what = "there are no rows" if weight is None else "the weights sum to zero"
        raise XGBoostError(f"base_score cannot be estimated: {what}. Set base_score, or give rows with weight.")
    return total


def _format(value: Any) -> str:
    """A parameter as XGBoost writes it into model files."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return "[" + ",".join(_shortest(v) for v in value) + "]"
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def _shortest(value: float) -> str:
    """The shortest decimal form of a float32, as 3E-1."""
    return np.format_float_scientific(np.float32(value), trim="-", exp_digits=1).replace("e+", "E").replace("e", "E")


def _parse(text: Any, kind: Any, field: str) -> Any:
    """A parameter of a model file; the message of a failure names the field."""
    try:
        if kind in (int, str):
            return kind(text)
        values = json.loads(text) if isinstance(text, str) else text
        if kind is float:
            return _finite(values)
        return tuple(_finite(v) for v in (values if isinstance(values, list) else [values]))
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"learner.objective.{field}: {text!r} is not valid.") from error


def _finite(value: Any) -> float:
    """A finite number as the float32 it will be; ValueError otherwise."""
    number = float(np.float32(value))
    if not math.isfinite(number):
        raise ValueError(value)
    return number
