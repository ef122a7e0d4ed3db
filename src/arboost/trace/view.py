"""`Trace`: a recorded training and its views, and the limits of what can be shown."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from arboost.booster import Booster
from arboost.matrix.dmatrix import DMatrix
from arboost.params.resolve import normalize, resolve
from arboost.runtime.drafts import write_text
from arboost.runtime.errors import XGBoostError
from arboost.trace import grid, page, text
from arboost.trace.parts import Round, Run
from arboost.trace.record import record_run

MAX_ROWS, MAX_FEATURES, MAX_ROUNDS = 5_000, 100, 20
MAX_CANDIDATES = 100_000  # of one run: some 8 MB of page
FEW_ROWS = 200  # up to so many rows a trace is `exact`; above, bins keep the candidates few enough to read
DEFAULTS: dict[str, Any] = {"max_depth": 3}
_NOT_IN_NAMES = str.maketrans({"[": "(", "]": ")", "<": "under "})  # marks that names of features may not have
MANY_ROWS: dict[str, Any] = {"tree_method": "hist", "max_bin": 32}


class Trace:
    """One small training with every number that led to it.

    `str(trace)` is the whole of it as text, `to_html` writes the interactive page, `to_dict` gives the numbers; in a
    notebook the page shows itself. Made by `arboost.trace(X, y, params)` or `arboost.trace.example(name)`.

    Attributes
    ----------
    booster : Booster
        The trained model.
    run : Run
        What was recorded (`arboost.trace.parts`).
    title : str
        A heading for the views.
    feature_names : list of str
        One name per column.
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        params: Mapping[str, Any] | None = None,
        num_boost_round: int = 3,
        *,
        feature_names: Sequence[str] | None = None,
        target_name: str | None = None,
        title: str | None = None,
        notes: str = "",
        value_names: Mapping[str, Mapping[float, str]] | None = None,
        class_names: Sequence[str] | None = None,
        sliders: Mapping[str, Sequence[float]] | None = None,
    ):
        self._data = _matrix_of(X, y, feature_names)
        _check_size(self._data, num_boost_round)
        self._class_names = [str(name) for name in class_names or ()]
        self._values = _values_of(self._data)
        self._value_names = {name: dict(values) for name, values in (value_names or {}).items()}
        self._categories: dict[str, tuple[str, str]] = {}  # columns that stand for a category: of which feature, which
        if "c" in (self._data.feature_types or ()):
            self._open_categories(num_boost_round)
        self._params = _params_for_showing(params, len(self._values))
        self._n_rounds = num_boost_round
        self.run, self.booster = self._record({})
        self.feature_names = self._data.feature_names or [f"f{i}" for i in range(self._data.num_col())]
        self.target_name = target_name or getattr(y, "name", None) or "label"
        self.title = title or f"{self.target_name}, round by round"
        self.notes = notes
        self._sliders = sliders
        self._page: str | None = None

    def _open_categories(self, n_rounds: int) -> None:
        """Put a 0/1 column for each category in the place of categorical features."""
        table, names, self._categories = _one_hot(self._data, self._values)
        coded, self._data = self._data, DMatrix(table, self._data.get_label(), feature_names=names)
        if len(sizes := coded.get_group()):
            self._data.set_info(group=sizes)
        if len(weight := coded.get_weight()):
            self._data.set_info(weight=weight)
        _check_size(self._data, n_rounds)
        self._values = table
        self._value_names |= {name: {0.0: "no", 1.0: "yes"} for name in self._categories}

    @property
    def rounds(self) -> list[Round]:
        """The recorded rounds."""
        return self.run.rounds

    def _record(self, changed: Mapping[str, float]) -> tuple[Run, Booster]:
        """Train with some parameters changed."""
        run, booster = record_run(self._data, self._values, {**self._params, **changed}, self._n_rounds)
        n = _count_candidates(run)
        if n > MAX_CANDIDATES:
            raise XGBoostError(
                f"A trace shows every candidate split, here {n:,}; at most {MAX_CANDIDATES:,} can be shown. Take fewer "
                "rows, features or rounds, a smaller max_depth, or tree_method='hist' with max_bin=32."
            )
        return run, booster

    def output_names(self) -> list[str]:
        """What the trees of a round are for."""
        n_outputs = self.run.params["n_outputs"]
        if len(self._class_names) == n_outputs:
            return [f"class {name}" for name in self._class_names]
        return [f"output {k}" for k in range(n_outputs)]

    def _groups(self) -> list[int] | None:
        """The number of every row's group, counted from 1; None without groups."""
        sizes = self._data.get_group()
        return np.repeat(np.arange(1, len(sizes) + 1), sizes).tolist() if len(sizes) else None

    # ---- views ----

    def text(self) -> str:
        """The whole trace as plain text."""
        return text.plain(self)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        shape = f"{len(self._values)} rows, {len(self.feature_names)} features, {len(self.rounds)} rounds"
        return f"<Trace {self.title!r}: {shape}>"

    def show(self) -> None:
        """Print the trace to the terminal, with colours where the package `rich` is installed."""
        text.show(self)

    def to_dict(self) -> dict[str, Any]:
        """The data and every recorded number, as plain lists and dicts; missing values are None."""
        return self._data_as_dict() | {"run": asdict(self.run)}

    def to_json(self, path: "str | os.PathLike[str] | None" = None) -> str:
        """`to_dict` as JSON, written to `path` if one is given."""
        found = json.dumps(self.to_dict(), allow_nan=False)
        if path is not None:
            write_text(path, found)
        return found

    def to_html(self, path: "str | os.PathLike[str] | None" = None) -> str:
        """The interactive page, one file that needs nothing else, written to `path` if one is given.

        Its sliders show recorded runs: the training is repeated for a grid of lambda, gamma and eta.
        """
        if self._page is None:
            axes = grid.axes_of(self.run, self._sliders)
            runs = grid.record(axes, self.run, lambda changed: self._record({**changed, "verbosity": 0})[0])
            self._page = page.render(
                self._data_as_dict() | {"axes": axes, "own": grid.own_of(self.run)}, runs, self.title
            )
        if path is not None:
            write_text(path, self._page)
        return self._page

    def _repr_html_(self) -> str:
        """What notebooks show: the page in a frame of its own."""
        return page.frame(self.to_html())

    def _data_as_dict(self) -> dict[str, Any]:
        label = self._data.get_label().reshape(len(self._values), -1)
        features = [
            {
                "name": name,
                "values": {str(float(k)): v for k, v in self._value_names.get(name, {}).items()},
                "category": list(self._categories.get(name, ())),
            }
            for name in self.feature_names
        ]
        table = self._values.astype(object)
        table[np.isnan(self._values)] = None
        return {
            "title": self.title,
            "notes": self.notes,
            "target": self.target_name,
            "features": features,
            "outputs": self.output_names(),
            "group": self._groups(),
            "X": table.tolist(),
            "y": label.tolist(),
        }


def _matrix_of(X: Any, y: Any, feature_names: Sequence[str] | None) -> DMatrix:
    """The rows with their labels, and with weights and groups where X is a matrix that has them."""
    if not isinstance(X, DMatrix):
        names = None if feature_names is None else list(feature_names)
        return DMatrix(X, y, feature_names=names, enable_categorical=True)
    if y is not None or feature_names is not None:
        raise XGBoostError("A DMatrix has its own labels and names: leave out y and feature_names.")
    if len(X.get_base_margin()):
        raise XGBoostError("A trace starts every row at the same prediction: leave out base_margin.")
    return X


def _check_size(data: DMatrix, n_rounds: int) -> None:
    """Refuse what no one could read."""
    if isinstance(n_rounds, bool) or not isinstance(n_rounds, int | np.integer) or n_rounds < 1:
        raise XGBoostError(f"num_boost_round must be a whole number of at least 1, got {n_rounds!r}.")
    advice = {
        "rows": (data.num_row(), MAX_ROWS, "Take a sample of the rows"),
        "features": (data.num_col(), MAX_FEATURES, "Choose some of the features"),
        "rounds": (n_rounds, MAX_ROUNDS, "Set num_boost_round to a few rounds"),
    }
    for what, (n, most, hint) in advice.items():
        if n > most:
            raise XGBoostError(f"A trace shows every number: at most {most:,} {what} can be shown, got {n:,}. {hint}.")
    label = data.get_label()
    if len(label) != data.num_row() or np.isnan(label).any():
        raise XGBoostError(f"A trace needs a label for every row, and got {'NaN' if len(label) else 'none'}.")


def _values_of(data: DMatrix) -> np.ndarray:
    """(n_rows, n_features) float32, NaN for missing."""
    return np.concatenate([values.copy() for _, values in data.chunks()])


def _one_hot(data: DMatrix, values: np.ndarray) -> tuple[np.ndarray, list[str], dict[str, tuple[str, str]]]:
    """The table with a 0/1 column for each category that occurs, missing where the feature is; names; what is new."""
    types, known = data.feature_types or [], data.get_categories().values
    columns, names, categories = [], [], {}
    for f, name in enumerate(data.feature_names or [f"f{i}" for i in range(data.num_col())]):
        x = values[:, f]
        if types[f] != "c":
            columns.append(x)
            names.append(name)
            continue
        for code in np.unique(x[~np.isnan(x)]).astype(int):
            category = known[f]
            shown = str(code if category is None else category[code])
            columns.append(np.where(np.isnan(x), np.float32(np.nan), x == code).astype(np.float32))
            names.append(f"{name} = {shown}".translate(_NOT_IN_NAMES))
            categories[names[-1]] = (name, shown)
    return np.column_stack(columns), names, categories


def _params_for_showing(params: Mapping[str, Any] | None, n_rows: int) -> dict[str, Any]:
    """The parameters with a trace's own defaults; those that hide part of the data from a tree are refused by name."""
    given = normalize(params)
    defaults = DEFAULTS | ({"tree_method": "exact"} if n_rows <= FEW_ROWS else MANY_ROWS)
    merged = {**defaults, **{k: v for k, v in given.items() if (k, v) != ("tree_method", "auto")}}
    resolved = resolve(merged, warn=False)
    tree, learner = resolved.tree, resolved.learner
    refused = {
        "booster": learner.booster != "gbtree",
        "tree_method": tree.tree_method not in ("exact", "hist"),
        "subsample": tree.subsample != 1,
        "sampling_method": tree.sampling_method == "goss",
        "grow_policy": tree.grow_policy == "symmetric",
        "min_data_in_leaf": tree.min_data_in_leaf > 1,
        "extra_trees": tree.extra_trees,
        "path_smooth": tree.path_smooth > 0,
        "linear_leaves": tree.linear_leaves,
        "colsample_bytree": tree.colsample_bytree != 1,
        "colsample_bylevel": tree.colsample_bylevel != 1,
        "colsample_bynode": tree.colsample_bynode != 1,
        "num_parallel_tree": tree.num_parallel_tree != 1,
        "monotone_constraints": bool(given.get("monotone_constraints")),
        "interaction_constraints": bool(given.get("interaction_constraints")),
        "process_type": tree.process_type != "default",
        "updater": bool(tree.updater),
        "multi_strategy": learner.multi_strategy != "one_output_per_tree",
    }
    wrong = [name for name, is_refused in refused.items() if is_refused]
    if wrong:
        raise XGBoostError(
            f"A trace shows plain boosted trees that see every row and every feature (tree_method 'exact' or 'hist'): "
            f"leave out {', '.join(wrong)}."
        )
    return merged


def _count_candidates(run: Run) -> int:
    return sum(len(node.candidates) for r in run.rounds for tree in r.trees for node in tree.nodes)
