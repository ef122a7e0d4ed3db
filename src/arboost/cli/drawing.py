"""Pictures in files, by matplotlib."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from arboost.runtime.errors import XGBoostError

_MOST_FEATURES = 15
_MOST_POINTS = 2000  # of a feature; more make no other picture
_HEIGHT = 0.8  # of a swarm, in rows


def _pyplot() -> Any:
    """matplotlib without a window."""
    try:
        import matplotlib
    except ImportError:
        raise XGBoostError("Drawing needs matplotlib: pip install 'arboost[plot]'.") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def draw_model(model: str, kind: str, out: str, tree: int, most: int, by: str) -> None:
    """Importance or a tree of a model file, or the curves of a file of metrics."""
    pyplot = _pyplot()
    from arboost import plot_importance, plot_metric, plot_tree
    from arboost.cli.using import load_model

    if kind == "metric":
        axes = plot_metric(_history(model))
    elif kind == "tree":
        axes = plot_tree(load_model(model), tree_idx=tree, with_stats=True)
    else:
        axes = plot_importance(
            load_model(model), importance_type=by, max_num_features=most, values_format="{v:.4g}", xlabel=by
        )
    figure = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()[0].figure
    figure.savefig(out, bbox_inches="tight", dpi=150)
    pyplot.close(figure)


def _history(path: str) -> Any:
    try:
        history = json.loads(Path(path).read_text(encoding="utf-8")).get("history")
    except (ValueError, AttributeError):
        history = None
    if not history:
        raise XGBoostError(f"{path} has no scores of training: write them with `arboost train --metrics FILE`.")
    return history


def draw_shap(out: str, shap: np.ndarray, matrix: Any, names: list[str], outputs: list[str]) -> None:
    """A swarm of points for each of the features that matter most, coloured by the feature's value.

    Parameters
    ----------
    out
        The file.
    shap
        (rows, outputs, features + 1); several outputs are drawn as bars, a colour each.
    matrix
        The rows.
    names, outputs
        Of the features and the outputs.
    """
    pyplot = _pyplot()
    weight = np.abs(shap[:, :, :-1]).mean(axis=0)
    top = np.argsort(-weight.sum(axis=0), kind="stable")[:_MOST_FEATURES][::-1]
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.42 * len(top)), layout="constrained")
    if len(outputs) > 1:
        left = np.zeros(len(top))
        for k, output in enumerate(outputs):
            axes.barh(range(len(top)), weight[k, top], left=left, label=output, height=0.7)
            left += weight[k, top]
        axes.legend(frameon=False)
        axes.set_xlabel("mean |SHAP|")
    else:
        _draw_swarms(figure, axes, shap[:, 0, :-1], matrix, top)
        axes.set_xlabel("SHAP value: how much the feature moves the margin")
    axes.set_yticks(range(len(top)), [names[f] for f in top])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    figure.savefig(out, dpi=150)
    pyplot.close(figure)


def _draw_swarms(figure: Any, axes: Any, shap: np.ndarray, matrix: Any, top: np.ndarray) -> None:
    rows = np.unique(np.linspace(0, len(shap) - 1, min(len(shap), _MOST_POINTS)).astype(np.int64))
    values = np.concatenate([part.copy() for _, part in matrix.chunks()])[rows]
    axes.axvline(0, color="0.8", zorder=0)
    for y, f in enumerate(top):
        is_category = matrix.feature_types is not None and matrix.feature_types[f] == "c"  # its codes have no order
        shade = np.full(len(rows), np.nan) if is_category else _ranks(values[:, f])
        known = ~np.isnan(shade)
        heights = y + _swarm(shap[rows, f])
        axes.scatter(shap[rows, f][~known], heights[~known], s=7, color="0.7", linewidths=0)
        points = axes.scatter(
            shap[rows, f][known], heights[known], c=shade[known], cmap="coolwarm", vmin=0, vmax=1, s=7, linewidths=0
        )
    bar = figure.colorbar(points, ax=axes, ticks=[0, 1], shrink=0.6, aspect=30)
    bar.ax.set_yticklabels(["low", "high"])
    bar.set_label("value of the feature (grey: missing, or a category)")
    bar.outline.set_visible(False)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Values as shares of those below them, NaN for missing: outliers do not take all the colour."""
    ranks = np.full(len(values), np.nan)
    present = ~np.isnan(values)
    if present.any():
        found, places = np.unique(values[present], return_inverse=True)
        ranks[present] = places / max(1, len(found) - 1)
    return ranks


def _swarm(values: np.ndarray, n_bins: int = 100) -> np.ndarray:
    """Offsets that keep points of nearly the same value apart, the fuller the place the wider."""
    spread = np.ptp(values) or 1.0
    bins = ((values - values.min()) / spread * (n_bins - 1)).astype(np.int64)
    order = np.argsort(bins, kind="stable")
    counts = np.bincount(bins, minlength=n_bins)
    place = np.empty(len(values), np.int64)
    place[order] = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    side = np.where(place % 2, 1, -1) * ((place + 1) // 2)
    return side * _HEIGHT / max(int(counts.max()), 8)
