"""Tables of a report: the model, its parameters, the data, and how to make the same again."""

import platform
from contextlib import suppress
from importlib import metadata
from typing import Any

import numpy as np

from arboost.boosters.dart import Dart
from arboost.params.resolve import TreeParams
from arboost.params.table import PARAMS
from arboost.report.numbers import NO_VALUE, rounded, rounded_list, words
from arboost.report.subject import KIND_WORDS, Subject
from arboost.version import __version__

_BARS = 24  # of the little histograms
_MAX_FEATURES = 200  # rows of the table of features
_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "pandas")
# What changes no model: how many threads, how much is said.
_SAID_ELSEWHERE = ("best_iteration", "best_score", "arboost_cli")  # attributes; the last: title and names of classes
_SILENT = ("n_jobs", "nthread", "verbosity", "device", "validate_parameters")

Rows = list[tuple[str, str]]


def title_words(subject: Subject) -> str:
    """Kind and size in one line."""
    words_of_kind = KIND_WORDS[subject.kind]
    if subject.kind == "binary" and subject.n_outputs > 1:
        words_of_kind = "Multi-label classification"
    elif subject.kind == "regression" and subject.n_outputs > 1:
        words_of_kind = "Multi-target regression"
    return words_of_kind


def model_facts(subject: Subject) -> Rows:
    """What the model is."""
    booster, model = subject.whole, subject.whole._learner.model
    facts = [("Kind", title_words(subject)), ("Objective", subject.objective), ("Booster", model.kind)]
    facts += [("Features", words(booster.num_features())), ("Outputs", words(subject.n_outputs))]
    facts.append(("Rounds", words(booster.num_boosted_rounds())))
    if not subject.is_linear:
        leaves = sum(tree.n_leaves for tree in model.trees)
        deepest = max((tree.depth() for tree in model.trees), default=0)
        facts += [("Trees", words(len(model.trees))), ("Leaves", words(leaves)), ("Deepest tree", words(deepest))]
    best = booster.attr("best_iteration")
    if best is not None:
        facts.append(("Best iteration", best))
        facts.append(("Best score", booster.attr("best_score") or NO_VALUE))
    begin, end = subject.rounds
    if (begin, end) != (0, booster.num_boosted_rounds()):
        facts.append(("Rounds reported", f"{begin} to {end - 1}"))
    facts.append(("Base score", ", ".join(words(v, 6) for v in booster._learner.intercept[:6].tolist())))
    attributes = {name: value for name, value in booster.attributes().items() if name not in _SAID_ELSEWHERE}
    return facts + [(f"Attribute {name}", value) for name, value in attributes.items()]


def given_parameters(subject: Subject) -> list[tuple[str, str, str, str]]:
    """(name, value, default, meaning) of the parameters that are not at their defaults; a file brings others too."""
    rows = [_parameter_row(name, value) for name, value in sorted(_given(subject).items())]
    return [row for row in rows if row[1] != row[2]]


def all_parameters(subject: Subject) -> list[tuple[str, str, str, str]]:
    """The same of every parameter in force."""
    learner = subject.whole._learner
    resolved = learner.resolved
    groups: list[Any] = [resolved.learner, resolved.linear if subject.is_linear else learner.tree_params]
    if isinstance(learner.model, Dart):
        groups.append(resolved.dart)
    values = {name: value for group in groups for name, value in group._asdict().items()}
    return [_parameter_row(name, value) for name, value in sorted(values.items())]


def _given(subject: Subject) -> dict[str, Any]:
    return dict(subject.whole._learner.params)


def _parameter_row(name: str, value: Any) -> tuple[str, str, str, str]:
    known = PARAMS.get(name)
    default = "" if known is None else _plain(known.default)
    return name, _plain(value), default, "" if known is None else known.doc


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    return "" if value is None else str(value)


# ---- data ----


def data_facts(subject: Subject) -> Rows:
    """Size of the data, and what belongs to it."""
    if subject.data is None:
        return []
    data, info = subject.data, subject.info
    n_values = data.num_row() * data.num_col()
    missing = 1.0 - data.num_nonmissing() / max(1, n_values)
    facts = [("Rows", words(data.num_row())), ("Features", words(data.num_col())), ("Missing values", f"{missing:.2%}")]
    if subject.types.count("c"):
        facts.append(("Categorical features", words(subject.types.count("c"))))
    if info.group_ptr is not None:
        facts.append(("Groups", words(len(info.group_ptr) - 1)))
    if info.weight is not None:
        facts.append(("Weights", f"{words(float(info.weight.min()))} to {words(float(info.weight.max()))}"))
    label = subject.label()
    facts.append(("Labels", "none" if label is None and info.label_lower_bound is None else "given"))
    if subject.kind == "cox" and label is not None:
        facts.append(("Events", f"{float((label > 0).mean()):.1%} of the rows"))
    return facts


def feature_table(subject: Subject, order: list[int]) -> list[dict[str, Any]]:
    """Every feature, the most important first: type, share of missing values, range, a small histogram."""
    table: list[dict[str, Any]] = [{"name": subject.names[f], "type": _type_words(subject, f)} for f in order]
    table = table[:_MAX_FEATURES]
    if subject.data is None:
        return table
    count, low, high, total = _ranges(subject)
    n_rows = subject.data.num_row()
    for row, f in zip(table, order):
        row["missing"] = 1.0 - float(count[f]) / n_rows
        row["bars"] = _bars(subject, f)
        known = subject.category_words(f)
        if subject.types[f] == "c":
            row["range"] = f"{len(known):,} categories" if known is not None else f"codes up to {high[f]:.0f}"
        elif count[f]:
            mean = float(total[f] / count[f])
            row["range"] = f"{words(float(low[f]), 4)} … {words(float(high[f]), 4)}"
            row["mean"] = words(float(f"{mean:.4g}"), 4)
    return table


def _type_words(subject: Subject, feature: int) -> str:
    return {"c": "category", "int": "integer", "i": "indicator"}.get(subject.types[feature], "number")


def _ranges(subject: Subject) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Number of values, smallest, largest and sum of every feature, over all rows."""
    assert subject.data is not None
    n_features = subject.data.num_col()
    count, total = np.zeros(n_features, np.int64), np.zeros(n_features)
    low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    for _, values in subject.data.chunks():
        count += (~np.isnan(values)).sum(axis=0)
        total += np.nansum(values, axis=0, dtype=np.float64)
        low = np.fmin(low, np.fmin.reduce(values, axis=0))
        high = np.fmax(high, np.fmax.reduce(values, axis=0))
    return count, low, high, total


def _bars(subject: Subject, feature: int) -> list[int]:
    """Counts of the sampled values: of each of the commonest categories, or of equal steps between outliers."""
    values = subject.values[:, feature]
    values = values[np.isfinite(values)].astype(np.float64)
    if not len(values):
        return []
    if subject.types[feature] == "c":
        counts = np.sort(np.bincount(values.astype(np.int64)))[::-1]
        return [int(n) for n in counts[:_BARS] if n]
    low, high = np.percentile(values, (1, 99)) if len(np.unique(values)) > _BARS else (values.min(), values.max())
    if high <= low:
        return [len(values)]
    return [int(n) for n in np.histogram(np.clip(values, low, high), _BARS, (low, high))[0]]


def label_charts(subject: Subject) -> list[dict[str, Any]]:
    """How labels are distributed."""
    label = subject.label()
    if label is None:
        return []
    if subject.kind in ("binary", "multiclass") and label.shape[1] == 1:
        counts = np.bincount(label[:, 0].astype(np.int64), subject.weight, len(subject.class_names))
        return [
            {
                "type": "columns",
                "title": "Rows of each class",
                "x": {"label": "class"},
                "y": {"label": "rows" if subject.info.weight is None else "weight"},
                "names": subject.class_names[:60],
                "series": [{"name": "rows", "y": rounded_list(counts[:60], 9)}],
            }
        ]
    names = [f"target {k}" for k in range(label.shape[1])] if label.shape[1] > 1 else ["label"]
    return [_label_histogram(label[:, k], name) for k, name in enumerate(names[:6])]


def _label_histogram(label: np.ndarray, name: str) -> dict[str, Any]:
    known = label[np.isfinite(label)].astype(np.float64)
    distinct = np.unique(known)
    if len(distinct) <= 20:
        of_value = [int((known == value).sum()) for value in distinct]
        shape = {"type": "columns", "names": [words(float(v)) for v in distinct]}
        return {
            **shape,
            "title": f"Rows by {name}",
            "x": {"label": name},
            "y": {"label": "rows"},
            "series": [{"name": "rows", "y": of_value}],
        }
    counts, edges = np.histogram(known, 40)
    return {
        "type": "histogram",
        "title": f"Distribution of the {name}",
        "x": {"label": name},
        "y": {"label": "rows"},
        "edges": rounded_list(edges),
        "series": [{"name": "rows", "y": [int(n) for n in counts]}],
    }


# ---- the same again ----


def versions(subject: Subject) -> Rows:
    """What the report was made with."""
    found = [("arboost", __version__), ("Python", platform.python_version())]
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found.append((name, metadata.version(name)))
    found.append(("Platform", f"{platform.system()} {platform.machine()}"))
    return [*found, ("Seed", str(subject.whole._learner.resolved.learner.seed)), ("Digest", subject.digest)]


def code(subject: Subject) -> str:
    """A program that trains the same model, as far as the model knows how it was trained."""
    head = "import hashlib\n\nimport arboost as xgb\n\n"
    if subject.estimator is not None:
        body, name = _estimator_code(subject), "model.get_booster()"
    else:
        body, name = _booster_code(subject), "booster"
    check = f'digest = hashlib.sha256({name}.save_raw()).hexdigest()\nassert digest == "{subject.digest}"'
    return head + body + check


def _estimator_code(subject: Subject) -> str:
    estimator = subject.estimator
    usual = type(estimator)().get_params()
    chosen = {k: v for k, v in estimator.get_params().items() if repr(v) != repr(usual.get(k)) and k not in _SILENT}
    arguments = "".join(f"    {_argument(name + '=', value)}\n" for name, value in sorted(chosen.items()))
    watched = ", eval_set=[(X_valid, y_valid)]" if hasattr(estimator, "evals_result_") else ""
    fit = f"model.fit(X, y{watched})\n"
    return f"model = xgb.{type(estimator).__name__}(\n{arguments})\n" + fit


def _booster_code(subject: Subject) -> str:
    given = {name: value for name, value in _given(subject).items() if name not in _SILENT}
    if "booster" in given and not given.keys() - {"booster", "objective"} & {*TreeParams._fields, "seed"}:
        note = "# Of its training the model knows the objective only, as one that was loaded from a file.\n"
        return note + 'booster = xgb.Booster(model_file="model.json")\n'
    lines = "".join(f"    {_argument(repr(name) + ': ', value)}\n" for name, value in sorted(given.items()))
    rounds, attributes = subject.whole.num_boosted_rounds(), subject.whole.attributes()
    body = f"params = {{\n{lines}}}\ndtrain = xgb.DMatrix(X, label=y)\n"
    body += f"booster = xgb.train(params, dtrain, num_boost_round={rounds})\n"
    if attributes:
        body += f"booster.set_attr(**{attributes!r})  # as early stopping, or you, left them\n"
    return body


def _argument(name: str, value: Any) -> str:
    """One line of arguments; what has no literal is left to the reader."""
    if isinstance(value, str | int | float | list | tuple | dict | None):
        return f"{name}{value!r},"
    return f"{name}...,  # {type(value).__name__}"


def headline(subject: Subject, metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The few numbers to see first."""
    tiles: list[dict[str, Any]] = [
        {"name": row["name"], "value": words(row["value"], 4), "exact": row["value"], "note": _against(row)}
        for row in metrics[:3]
    ]
    booster = subject.whole
    n_trees = len(booster._learner.model.trees)
    note = f"{words(n_trees)} trees" if n_trees else "linear model"
    tiles.append({"name": "rounds", "value": words(booster.num_boosted_rounds()), "note": note})
    tiles.append({"name": "features", "value": words(booster.num_features()), "note": subject.objective})
    if subject.data is not None:
        missing = 1 - subject.data.num_nonmissing() / max(1, subject.data.num_row() * subject.data.num_col())
        tiles.append({"name": "rows", "value": words(subject.data.num_row()), "note": f"{missing:.1%} missing"})
    return tiles


def _against(row: dict[str, Any]) -> str:
    baseline = row.get("baseline")
    return "" if baseline is None else f"baseline {words(rounded(baseline, 4))}"
