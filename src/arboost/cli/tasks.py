"""What is to be learned: found from the target, kept in the model as attributes, and judged by fitting metrics."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arboost.cli.tables import JUDGED_BY, Data
from arboost.runtime.errors import XGBoostError

KINDS = ("regression", "binary", "multiclass", "ranking", "survival")
MOST_CLASSES = 30  # whole numbers with more different values are quantities
_DOUBTFUL = 200  # of so many the reader is told what was made of them
_ATTRIBUTE = "arboost_cli"
_OBJECTIVES = {
    "regression": "reg:squarederror", "binary": "binary:logistic", "multiclass": "multi:softprob",
    "ranking": "rank:ndcg", "survival": "survival:cox",
}  # fmt: skip
_OF_SEVERAL_OUTPUTS = ("reg:quantileerror", "reg:expectileerror")  # of one label: metrics of their own
_METRICS = {
    "regression": ["rmse", "mae"], "binary": ["logloss", "auc", "aucpr", "error"], "multiclass": ["mlogloss", "merror"],
    "ranking": ["ndcg", "ndcg@10", "ndcg@3"],
}  # fmt: skip


@dataclass
class Task:
    """A kind of learning, the objective for it, the classes in the order of their codes, the target's name."""

    kind: str
    objective: str
    classes: list[Any] | None = None
    target: list[str] | None = None
    doubt: str = ""  # what to do if the task was not guessed right
    columns: dict[str, str] = field(default_factory=dict)  # JUDGED_BY

    @property
    def words(self) -> str:
        """For the reader."""
        if self.classes:
            shown = ", ".join(map(str, self.classes[:6])) + (", ..." if len(self.classes) > 6 else "")
            return f"{self.kind} classification ({len(self.classes)} classes: {shown}){self.doubt}"
        return f"{self.kind}{self.doubt}"

    def params(self) -> dict[str, Any]:
        """Parameters that the task decides."""
        chosen: dict[str, Any] = {"objective": self.objective}
        if self.objective.startswith("multi:") and self.classes:
            chosen["num_class"] = len(self.classes)
        return chosen


def kind_of_objective(objective: str) -> str:
    """The kind of learning that an objective is for."""
    prefix = objective.partition(":")[0]
    kinds = {"binary": "binary", "multi": "multiclass", "rank": "ranking", "survival": "survival"}
    return kinds.get(prefix, "regression")


def find_task(data: Data, kind: str | None, objective: str | None) -> tuple[Task, np.ndarray | None]:
    """The task and the label as numbers, from what the user says and, failing that, from the target's values."""
    target = list(data.target_names)
    if objective is not None:
        kind = kind_of_objective(objective)
    elif kind is None and (data.has_groups or "qid" in data.fields):
        kind = "ranking"
    if data.target is None:
        return Task("survival", objective or "survival:aft", None, target, columns=data.columns), None
    values, doubt = _values(data.target), ""
    if kind is None:
        kind = _guess(values)
        doubt = _doubt(values, kind)
    if kind in ("binary", "multiclass"):
        classes, codes = np.unique(values, return_inverse=True)
        if len(classes) < 2:
            raise XGBoostError(f"The target has one value only, {classes[0]!s}: there is nothing to learn.")
        if kind == "binary" and len(classes) > 2:
            raise XGBoostError(f"The target has {len(classes)} classes; a binary objective learns two.")
        task = Task(kind, objective or _OBJECTIVES[kind], [_plain(c) for c in classes], target, doubt, data.columns)
        return task, codes.reshape(-1).astype(np.float32)
    if values.dtype == object:
        raise XGBoostError(f"The target {', '.join(target)} has text in it, which {kind} cannot learn.")
    return Task(kind, objective or _OBJECTIVES[kind], None, target, doubt, data.columns), np.asarray(values, np.float64)


def _values(target: Any) -> np.ndarray:
    """Numbers, or texts as objects."""
    if isinstance(target, np.ndarray):
        return target
    import pyarrow

    kind = target.type
    if pyarrow.types.is_dictionary(kind):
        target, kind = target.cast(kind.value_type), kind.value_type
    if pyarrow.types.is_boolean(kind) or pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return np.array([str(value) for value in target.to_pylist()], object)
    if pyarrow.types.is_decimal(kind):
        target = target.cast(pyarrow.float64())
    elif not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)):
        raise XGBoostError(f"The target holds {kind}: numbers or names of classes can be learned.")
    return target.to_numpy()


def _guess(values: np.ndarray) -> str:
    if values.ndim > 1:
        return "regression"
    if values.dtype != object:
        if not (np.isfinite(values).all() and (values == np.floor(values)).all()):
            return "regression"
        n_values = len(np.unique(values))
        if n_values > 2 and (n_values > MOST_CLASSES or n_values > len(values) // 5 or values.min() < 0):
            return "regression"
        return "binary" if n_values <= 2 else "multiclass"
    return "binary" if len(set(values.tolist())) <= 2 else "multiclass"


def _doubt(values: np.ndarray, kind: str) -> str:
    """A hint where whole numbers may be quantities or classes."""
    if values.dtype == object or values.ndim > 1 or kind == "binary" or not (values == np.floor(values)).all():
        return ""
    if kind == "multiclass":
        return "; if they are quantities: --task regression"
    return "; if the numbers are classes: --task multiclass" if len(np.unique(values)) <= _DOUBTFUL else ""


def _plain(value: Any) -> Any:
    """A class as JSON can hold it; whole numbers without a point."""
    if isinstance(value, str):
        return value
    return int(value) if float(value).is_integer() else float(value)


def keep(booster: Any, task: Task) -> None:
    """Write the task into the model, where XGBoost passes over it."""
    facts = {"task": task.kind, "target": task.target, "classes": task.classes} | task.columns
    booster.set_attr(**{_ATTRIBUTE: json.dumps(facts, ensure_ascii=False)})


def task_of(booster: Any) -> Task:
    """The task of a model; one that was trained elsewhere has no names of classes."""
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    kept = booster.attr(_ATTRIBUTE)
    try:
        facts = json.loads(kept) if kept else {}
    except ValueError:
        facts = {}
    columns = {role: facts[role] for role in JUDGED_BY if role in facts}
    return Task(kind_of_objective(objective), objective, facts.get("classes"), facts.get("target"), columns=columns)


def label_codes(task: Task, data: Data) -> np.ndarray | None:
    """The label in the model's codes; refuses classes that the model does not know."""
    if data.target is None:
        return None
    values = _values(data.target)
    if not task.classes:
        if values.dtype == object:
            raise XGBoostError("The target has text in it, and the model knows no names of classes.")
        return np.asarray(values, np.float64)
    code_of = {str(name): code for code, name in enumerate(task.classes)}
    texts = [str(value if isinstance(value, str) else _plain(value)) for value in values.tolist()]
    unknown = sorted(set(texts) - set(code_of))
    if unknown:
        raise XGBoostError(
            f"The target has classes that the model was not trained on: {', '.join(unknown[:5])}; it knows "
            f"{', '.join(list(code_of)[:10])}."
        )
    return np.array([code_of[text] for text in texts], np.float32)


def judge(booster: Any, task: Task, matrix: Any) -> dict[str, float]:
    """Metrics that fit the task, of a matrix with labels."""
    metrics = _METRICS.get(task.kind)
    has_several = task.objective in _OF_SEVERAL_OUTPUTS or matrix.get_label().ndim > 1
    if metrics is None or has_several:
        found = parse_scores(booster.eval(matrix, "data"))
        return found | (_concordance(booster, task, matrix) if task.kind == "survival" else {})
    if task.objective == "multi:softmax":  # it gives classes, of which no loss is known
        metrics = ["merror"]
    twin = booster.copy()
    twin.set_param({"eval_metric": metrics})
    found = parse_scores(twin.eval(matrix, "data"))
    for name in ("error", "merror"):
        if name in found:
            found["accuracy"] = 1.0 - found.pop(name)
    if task.kind == "regression":
        found["r2"] = _r2(twin.predict(matrix), matrix)
    return {name: value for name, value in found.items() if np.isfinite(value)}


def _concordance(booster: Any, task: Task, matrix: Any) -> dict[str, float]:
    """The share of pairs of rows in the right order: 0.5 is chance, 1 perfect."""
    from arboost.report.survival import signed_times
    from arboost.survival import concordance_index

    is_cox = task.objective == "survival:cox"
    times = signed_times(matrix.info, is_cox)
    if times is None:
        return {}
    prediction = booster.predict(matrix)
    value = concordance_index(times, prediction if is_cox else -prediction)
    return {"concordance": value} if np.isfinite(value) else {}


def parse_scores(line: str) -> dict[str, float]:
    """The scores in a line such as "[0]\\ttest-auc:0.5"; parts of data must have no "-" in their names."""
    pairs = [word.rpartition(":") for word in line.split("\t")[1:]]
    return {name.partition("-")[2]: float(value) for name, _, value in pairs}


def _r2(prediction: np.ndarray, matrix: Any) -> float:
    label = matrix.get_label().astype(np.float64)
    weight = matrix.get_weight() if len(matrix.get_weight()) else np.ones(len(label))
    if prediction.shape != label.shape:
        return np.nan
    residual = np.average((label - prediction) ** 2, weights=weight)
    spread = np.average((label - np.average(label, weights=weight)) ** 2, weights=weight)
    return float(1 - residual / spread) if spread > 0 else np.nan


def split_rows(
    label: np.ndarray | None, qid: np.ndarray | None, n_rows: int, share: float, stratify: bool, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows held out: whole groups, or of every class the same share."""
    rng = np.random.default_rng(seed)
    if qid is not None:
        groups = np.unique(qid)
        held = rng.permutation(groups)[: max(1, round(share * len(groups)))]
        is_held = np.isin(qid, held)
    else:
        is_held = np.zeros(n_rows, bool)
        parts = [np.flatnonzero(label == c) for c in np.unique(label)] if stratify and label is not None else []
        for rows in parts or [np.arange(n_rows)]:
            is_held[rng.permutation(rows)[: round(share * len(rows))]] = True
    if is_held.all() or not is_held.any():
        raise XGBoostError(f"{n_rows} rows cannot be split with --split {share:g}: use --split 0 to train on all.")
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)
