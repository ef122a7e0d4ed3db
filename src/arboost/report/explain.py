"""What the model looks at: importance of every kind, SHAP values of a sample, and single rows taken apart."""

from typing import Any

import numpy as np
import scipy.stats

from arboost.matrix.dmatrix import DMatrix
from arboost.report.numbers import exact, rounded, rounded_list, thinned, words
from arboost.report.subject import Subject

_FEATURES = 12  # in the SHAP charts
_MAX_OUTPUTS = 8
_MAX_POINTS = 60_000  # rows x features x outputs of the SHAP charts: about half a megabyte
_MAX_ROWS = 600
_BARS = 30
_SPREAD_ROWS, _FAR_ROWS = 16, 4  # rows to look at one by one: over the range of predictions, and far off
_STEPS = 9  # features of a row that are named
_LEAST_PARTNER = 0.01  # share of the spread that another feature must explain to colour the dots
_KIND_WORDS = {
    "shap": "mean |SHAP|", "gain": "gain", "total_gain": "total gain", "weight": "weight (splits)",
    "cover": "cover", "total_cover": "total cover",
}  # fmt: skip


class Explanation:
    """SHAP values of some sampled rows.

    Attributes
    ----------
    subject
        The model and its sample.
    chosen
        Positions in the sample of the rows that are explained.
    values
        (n, n_features) float32 values of these rows.
    shap
        (n, n_outputs, n_features + 1) float32; the bias is last.
    """

    def __init__(self, subject: Subject):
        self.subject = subject
        self.outputs = list(range(min(subject.n_outputs, _MAX_OUTPUTS)))
        limit = max(60, min(_MAX_ROWS, _MAX_POINTS // (_FEATURES * len(self.outputs))))
        self.chosen = thinned(len(subject.sample), limit)
        self.values = subject.values[self.chosen]
        self.matrix = sample_matrix(subject, self.chosen)
        self.shap = subject.nameless.predict(self.matrix, pred_contribs=True, strict_shape=True)
        self.strength = abs(self.shap[:, :, :-1]).mean(axis=0, dtype=np.float64)  # (n_outputs, n_features)

    @property
    def rows(self) -> np.ndarray:
        """Row numbers in the data."""
        return self.subject.sample[self.chosen]


def sample_matrix(subject: Subject, chosen: np.ndarray) -> DMatrix:
    """Some sampled rows as a matrix in the model's codes."""
    margin = subject.info.base_margin
    return DMatrix(
        subject.values[chosen],
        base_margin=None if margin is None else margin[subject.sample[chosen]],
        feature_types=subject.booster.feature_types,
    )


def importance(subject: Subject, explanation: Explanation | None) -> dict[str, Any]:
    """{kinds: {kind: {title, names, values}}, order}: every kind sorted, the largest first."""
    names = subject.names
    kinds: dict[str, np.ndarray] = {}
    if explanation is not None:
        kinds["shap"] = explanation.strength.sum(axis=0)
    if subject.is_linear:
        kinds["weight"] = abs(subject.booster.linear_weights()[:-1]).sum(axis=1).astype(np.float64)
    else:
        for kind in ("gain", "total_gain", "weight", "cover", "total_cover"):
            scores = subject.booster.get_score(importance_type=kind)
            kinds[kind] = np.array([scores.get(name, 0.0) for name in names], np.float64)
    titles = _KIND_WORDS | ({"weight": "|weight|"} if subject.is_linear else {})
    shown: dict[str, Any] = {}
    for kind, values in kinds.items():
        top = np.argsort(-values, kind="stable")[:_BARS]
        top = top[values[top] > 0]
        digits = 9 if kind != "shap" else 6
        shown[kind] = {
            "title": titles[kind],
            "names": [names[f] for f in top],
            "values": rounded_list(values[top], digits),
        }
    main = kinds.get("shap", kinds.get("total_gain", kinds.get("weight")))
    assert main is not None
    return {"kinds": shown, "order": np.argsort(-main, kind="stable").tolist()}


def shap_charts(explanation: Explanation) -> dict[str, Any]:
    """The values and SHAP values of the strongest features, and whose value colours whose dependence plot."""
    subject = explanation.subject
    top = np.argsort(-explanation.strength.sum(axis=0), kind="stable")[:_FEATURES]
    top = top[explanation.strength.sum(axis=0)[top] > 0]
    features = []
    for f in top.tolist():
        entry: dict[str, Any] = {"name": subject.names[f], "values": rounded_list(explanation.values[:, f], 4)}
        if subject.types[f] == "c":
            entry["categories"] = _category_names(subject, f, explanation.values[:, f])
        features.append(entry)
    outputs = subject.output_names()
    return {
        "features": features,
        "rows": explanation.rows.tolist(),
        "outputs": [
            {
                "name": outputs[k],
                "shap": [rounded_list(explanation.shap[:, k, f], 4) for f in top],
                "partner": [_partner(explanation, k, f, top) for f in top],
            }
            for k in explanation.outputs
        ],
        "note": _sample_words(explanation),
    }


def _category_names(subject: Subject, feature: int, values: np.ndarray) -> dict[str, str]:
    """Names by code, of the categories that occur."""
    codes = np.unique(values[np.isfinite(values)]).tolist()
    return {str(int(code)): subject.value_words(feature, code) for code in codes}


def _sample_words(explanation: Explanation) -> str:
    subject = explanation.subject
    shown, total = len(explanation.chosen), subject.info.n_rows
    text = f"{shown:,} rows" if shown == total else f"A sample of {shown:,} of {total:,} rows"
    if subject.n_outputs > len(explanation.outputs):
        text += f"; the first {len(explanation.outputs)} of {subject.n_outputs} outputs"
    return text + ". SHAP values add up to the margin (the raw score)."


def _partner(explanation: Explanation, output: int, feature: int, top: np.ndarray) -> int | None:
    """Position in `top` of the feature whose value best explains what the feature's own value leaves open.

    Rows are cut into runs of like values of the feature; in each the SHAP values are correlated with the other's.
    """
    x, phi = explanation.values[:, feature], explanation.shap[:, output, feature].astype(np.float64)
    order = np.argsort(x, kind="stable")
    runs = [run for run in np.array_split(order, max(1, len(order) // 60)) if len(run) > 5]
    best, chosen = _LEAST_PARTNER * float(phi.std()) * len(runs), None
    for position, other in enumerate(top.tolist()):
        if other == feature:
            continue
        z = scipy.stats.rankdata(np.nan_to_num(explanation.values[:, other]))  # an outlier makes no correlation
        strength = sum(_correlation(phi[run], z[run]) * float(phi[run].std()) for run in runs)
        if strength > best:
            best, chosen = strength, position
    return chosen


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    chance = 0.8 / np.sqrt(len(a))  # what unrelated values show on average
    return max(0.0, abs(float(a @ b)) / scale - chance) if scale > 0 else 0.0


# ---- single rows ----


def single_rows(explanation: Explanation, n_trees: int) -> list[dict[str, Any]]:
    """Rows to take apart: what each feature adds to the margin, and the leaves of the first `n_trees` trees."""
    subject = explanation.subject
    picked = _pick(explanation)
    leaves = np.zeros((len(explanation.chosen), 0))
    if n_trees:
        leaves = subject.nameless.predict(explanation.matrix, pred_leaf=True).reshape(len(explanation.chosen), -1)
    rows = []
    for position, tag in picked:
        row = int(explanation.rows[position])
        rows.append(
            {
                "row": row,
                "tag": tag,
                "label": _label_words(subject, row),
                "prediction": _prediction_words(subject, row),
                "outputs": [_steps(explanation, position, k) for k in explanation.outputs],
                "leaves": [int(leaf) for leaf in leaves[position, :n_trees]],
            }
        )
    return rows


def _pick(explanation: Explanation) -> list[tuple[int, str]]:
    """Positions of the rows, and why: spread over the range of predictions, and those furthest off."""
    subject = explanation.subject
    score = (
        subject.margin[explanation.rows].max(axis=1) if subject.n_outputs > 1 else subject.margin[explanation.rows, 0]
    )
    order = np.argsort(-score, kind="stable")
    picked = {int(order[i]): "" for i in thinned(len(order), _SPREAD_ROWS)}
    label = subject.label()
    if label is not None and subject.kind in ("binary", "multiclass", "regression", "counts"):
        found, actual = subject.prediction[explanation.rows], label[explanation.rows]
        if subject.kind == "multiclass":
            error = 1.0 - np.take_along_axis(found, actual.astype(np.int64), axis=1)[:, 0]
        else:
            error = np.nan_to_num(abs(found[:, : actual.shape[1]] - actual[:, : found.shape[1]])).max(axis=1)
        for position in np.argsort(-error, kind="stable")[:_FAR_ROWS].tolist():
            picked.setdefault(position, "far off")
    return list(picked.items())


def _label_words(subject: Subject, row: int) -> str:
    label = subject.label()
    if label is None:
        return ""
    if subject.class_names and label.shape[1] == 1:
        return subject.class_names[int(label[row, 0])]
    return ", ".join(words(v) for v in label[row].tolist()[:_MAX_OUTPUTS])


def _prediction_words(subject: Subject, row: int) -> str:
    found = subject.prediction[row].tolist()
    if subject.kind == "multiclass":
        best = int(np.argmax(found))
        return f"{subject.class_names[best]} ({found[best]:.1%})"
    return ", ".join(words(v, 4) for v in found[:_MAX_OUTPUTS])


def _steps(explanation: Explanation, position: int, output: int) -> dict[str, Any]:
    """From the bias to the margin: the largest contributions one by one, the others together."""
    subject, phi = explanation.subject, explanation.shap[position, output].astype(np.float64)
    order = np.argsort(-abs(phi[:-1]), kind="stable")
    shown = [f for f in order[:_STEPS].tolist() if phi[f] != 0.0]
    rest = float(phi[:-1].sum() - phi[shown].sum()) if shown else 0.0
    return {
        "bias": exact(phi[-1]),
        "margin": exact(subject.margin[explanation.rows[position], output]),
        "steps": [
            [subject.names[f], subject.value_words(f, float(explanation.values[position, f])), exact(phi[f])]
            for f in shown
        ],
        "rest": rounded(rest, 7),
        "n_rest": int(np.count_nonzero(phi[:-1])) - len(shown),
    }
