"""Estimators that need no tuning: `BoostedClassifier` and `BoostedRegressor`.

`fit` sets rows aside, lets kinds of models audition on them (`recipes.py`, `audition.py`), and trains the winner again
on all rows for the rounds found; at quality 4 and 5 several members, each with other rows set aside, are averaged. What
was held out also calibrates probabilities and makes prediction intervals. All choices are in `choices_` and in files.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # type: ignore[import-untyped]
from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]

from arboost import _sklearn_fit as fitting
from arboost._sklearn_fit import Rows
from arboost.booster import Booster
from arboost.ensemble import saved, schema
from arboost.ensemble.audition import Clock, Contender, Part, Race, is_better
from arboost.ensemble.base import class_probabilities
from arboost.ensemble.heldout import fit_temperature, interval_width, residual_sample
from arboost.ensemble.recipes import (
    QUALITIES,
    Effort,
    Facts,
    Recipe,
    effort_for,
    finer,
    learning_rate,
    recipes,
    refit_effort,
    rounds_of_more_rows,
)
from arboost.ensemble.trend import Trend, fit_trend
from arboost.matrix.dmatrix import DMatrix
from arboost.runtime.errors import XGBoostError

__all__ = ["BoostedClassifier", "BoostedRegressor"]

_TREND_OBJECTIVES = ("reg:squarederror", "binary:logistic")
_FEW_ROWS = 20  # that nothing is set aside of
_FLAG_ROWS = 1000  # that tell which columns are flags
_RACE_SHARE = 0.6  # of the time limit that auditions and their winner may take, where more is to be trained
_MOST_KINDS = 3  # of members
_CLEARLY = 2.0  # standard errors that a kind must be worse by to be none of the members: different ones err differently
_TRAIN_BYTES = 14  # of memory for every value: as given, its parts for training and validation, and bins


class _Boosted(BaseEstimator):
    """What the two estimators share."""

    def __init__(
        self,
        *,
        quality: int = 3,
        n_ensembles: int | None = None,
        time_limit: float | None = None,
        memory_limit: float | None = None,
        validation_fraction: float | None = None,
        missing: float = np.nan,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        fitting.keep(self, locals())

    def __sklearn_tags__(self) -> Any:
        return fitting.tell_input(super().__sklearn_tags__(), categorical=True)

    def __sklearn_is_fitted__(self) -> bool:
        return bool(getattr(self, "members_", None))

    # ---- training ----

    def _fit(self, X: Any, label: np.ndarray, weight: Any, task: dict[str, Any], strata: np.ndarray | None) -> None:
        """Train on codes of classes, or numbers; `task` names the objective."""
        fitting.check_data(self, Rows(X, label))
        self._check_parameters()
        self._clock = Clock(self.time_limit)
        self.members_: list[Booster] = []
        self.trends_: list[Trend | None] = []
        self.choices_: dict[str, Any] = {"quality": self.quality}
        self._set_heldout(None, None)
        fields = {"missing": self.missing, "nthread": self.n_jobs, "enable_categorical": True}
        data = DMatrix(X, label, weight=weight, **fields)
        self._set_features(data)
        self._task = {**task, "seed": fitting.seed(self.random_state) or 0, "nthread": self.n_jobs, "verbosity": 0}
        try:
            self._train(data, strata)
        finally:
            del self._clock, self._task  # after an interrupt, what is best so far is the model

    def _check_parameters(self) -> None:
        if self.quality not in QUALITIES or isinstance(self.quality, bool):
            raise ValueError(f"quality must be one of {', '.join(map(str, QUALITIES))}, got {self.quality!r}.")
        for name in ("time_limit", "memory_limit"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive or None, got {value!r}.")
        if self.n_ensembles is not None and not (isinstance(self.n_ensembles, int) and self.n_ensembles >= 1):
            raise ValueError(f"n_ensembles must be a whole number >= 1 or None, got {self.n_ensembles!r}.")

    def _set_features(self, data: DMatrix) -> None:
        self.n_features_in_ = data.num_col()
        self.__dict__.pop("feature_names_in_", None)
        if data.feature_names is not None and data.is_frame:
            self.feature_names_in_ = np.array(data.feature_names, dtype=object)

    def _train(self, data: DMatrix, strata: np.ndarray | None) -> None:
        n_rows = data.num_row()
        if n_rows < _FEW_ROWS:
            self._train_few(data)
            return
        chosen, versions, effort = self._recipes(data)
        n_members = effort.members if self.n_ensembles is None else self.n_ensembles
        params = {**self._task, "eta": learning_rate(effort, n_rows)}
        self._note(eta=round(params["eta"], 6), members=n_members)
        held = self._held_rows(n_rows, effort.folds, strata)
        splits = [(data.slice(np.setdiff1d(np.arange(n_rows), rows)), data.slice(rows)) for rows in held]
        contenders = [self._contender(recipe, params | versions, splits) for recipe in chosen]
        share = _RACE_SHARE if effort.refits or n_members > 1 else 1.0
        limits = (effort.heat, effort.max_rounds, effort.patience, self._clock, share)
        ranking = Race(*limits, self._say, lambda best: self._take([best])).run(contenders)
        winner = ranking[0]
        self._take([winner])
        self._note(
            model=winner.name,
            rounds=winner.best_round + 1,
            validation_rows=sum(map(len, held)),
            folds=len(held),
            auditions={c.name: c.best_score for c in ranking},
        )
        self._hold_out([(winner, np.concatenate(held))], data)
        if n_members > 1:
            equals = [c for c in ranking[1:_MOST_KINDS] if not is_better(winner, c, _CLEARLY)]
            self._train_members(data, strata, [winner, *equals], n_members, effort)
        elif effort.refits and not self._clock.is_over(_RACE_SHARE):
            self._refit(data, winner, effort)

    def _train_few(self, data: DMatrix) -> None:
        """Too few rows to set any aside: a small model."""
        recipe = recipes(1, self._facts(data))[0]
        only = self._contender(recipe, {**self._task, "eta": 0.1}, [(data, None)])
        only.advance(50, 50, self._clock)
        self._note(model=only.name, rounds=50, members=1, validation_rows=0)
        self._take([only])

    def _facts(self, data: DMatrix) -> Facts:
        values = data.categories.values if data.categories is not None else []
        most = max((len(v) for v in values if v is not None), default=0)
        is_numeric = any(kind != "c" for kind in data.feature_types or ["float"])
        is_simple = self._task["objective"] in _TREND_OBJECTIVES and data.info.label.ndim == 1  # type: ignore[union-attr]
        has_trend = is_numeric and is_simple
        n_outputs = self._task.get("num_class") or (1 if data.info.label.ndim == 1 else data.info.label.shape[1])  # type: ignore[union-attr]
        is_classes = self._task["objective"] != "reg:squarederror"
        return Facts(data.num_row(), data.num_col(), n_outputs, most, is_classes, has_trend, _has_flags(data))

    def _recipes(self, data: DMatrix) -> tuple[list[Recipe], dict[str, Any], Effort]:
        """The contenders, what must be given up to stay within the memory limit, and the effort."""
        facts = self._facts(data)
        chosen, versions = recipes(self.quality, facts), {}
        effort = effort_for(self.quality, facts)
        room = self.memory_limit
        if room is not None:
            one = _TRAIN_BYTES * facts.n_rows * (facts.n_columns + 1) + 24 * facts.n_rows * facts.n_outputs
            if one > room:
                raise XGBoostError(
                    f"Training on {facts.n_rows} rows of {facts.n_columns} columns needs about {one / 2**20:.1f} MiB "
                    f"of memory, memory_limit is {room / 2**20:.1f} MiB. Raise it, or give fewer rows or columns."
                )
            effort = effort._replace(folds=max(1, min(effort.folds, int(room // one))))
            chosen = chosen[: max(1, int(room // (effort.folds * one)))]
            if 4 * one > room:
                versions = {"permutation_count": 1}
            self._note(memory_limit=room, estimated_bytes=one)
        return chosen, versions, effort

    def _held_rows(self, n_rows: int, n_folds: int, strata: np.ndarray | None) -> list[np.ndarray]:
        """The rows that each part of a contender is scored on."""
        seed = self._task["seed"]
        if n_folds > 1 and self.validation_fraction is None:
            return _folds(n_rows, n_folds, seed, strata)
        return [fitting.split_rows(n_rows, self._fraction(n_rows), seed, strata)[1]]

    def _contender(
        self, recipe: Recipe, params: dict[str, Any], splits: Sequence[tuple[DMatrix, DMatrix | None]]
    ) -> Contender:
        parts = []
        for train, valid in splits:
            trend = fit_trend(train, params["objective"] == "binary:logistic") if recipe.trend else None
            if trend is not None:
                train, valid = _with_margin(train, trend), None if valid is None else _with_margin(valid, trend)
            parts.append(Part(train, valid, trend))
        eta = params["eta"] * recipe.step
        return Contender(recipe.name, {**params, "eta": eta, **recipe.params}, parts)

    def _refit(self, data: DMatrix, winner: Contender, effort: Effort) -> None:
        """The winner once more on all rows, for the rounds found; if time runs out before, the winner itself stays."""
        recipe = Recipe(winner.name, {}, winner.trend is not None)
        effort = refit_effort(effort, winner.best_round + 1)
        final = self._contender(recipe, finer(winner.params, effort), [(data, None)])
        seen = np.mean([part.train.num_row() for part in winner.parts]) / data.num_row()
        n_rounds = rounds_of_more_rows(effort.finer * (winner.best_round + 1), float(seen))
        if final.advance(n_rounds, n_rounds, self._clock) and final.n_rounds == n_rounds:
            self._take([final])
            self._note(refit_rows=data.num_row(), rounds=n_rounds, eta=round(final.params["eta"], 6))

    def _train_members(
        self, data: DMatrix, strata: np.ndarray | None, kinds: list[Contender], n_members: int, effort: Effort
    ) -> None:
        """Members that each leave out another part of the rows and stop by it; kinds take turns."""
        parts: list[tuple[Contender, np.ndarray]] = []
        n_folds = max(3, n_members)
        folds = _folds(data.num_row(), n_folds, kinds[0].params["seed"], strata)
        everything = np.arange(data.num_row())
        for i in range(n_members):
            if parts and self._clock.is_over((i + 1) / (n_members + 1)):
                break
            rows = folds[i % n_folds]
            split = (data.slice(np.setdiff1d(everything, rows)), data.slice(rows))
            kind = kinds[i % len(kinds)]
            params = finer({**kind.params, "seed": kind.params["seed"] + i}, effort)
            member = self._contender(Recipe(kind.name, {}, kind.trend is not None), params, [split])
            member.about = 1.0  # a mean bears members that have learnt a little too much
            member.advance(effort.finer * effort.max_rounds, effort.finer * effort.patience, self._clock)
            self._say(f"member {i + 1}: {member.name_and_score}")
            parts.append((member, rows))
            self._take([member for member, _ in parts])
        self._note(members=len(parts), rounds=[member.best_round + 1 for member, _ in parts])
        self._note(kinds=[kind.name for kind in kinds])
        self._hold_out(parts, data)

    def _take(self, contenders: list[Contender]) -> None:
        """These are the model now."""
        self.members_ = [contender.best_model() for contender in contenders]
        self.trends_ = [contender.trend for contender in contenders]

    def _hold_out(self, parts: list[tuple[Contender, np.ndarray]], data: DMatrix) -> None:
        """Learn from what models say of rows that they have not seen."""
        margins, rows = [], []
        for contender, held in parts:
            margins.append(contender.held_out())
            rows.append(held)
        label, weight = data.info.label, data.info.row_weight()
        assert label is not None
        where = np.concatenate(rows)
        self._set_heldout(np.concatenate(margins), (label[where], None if weight is None else weight[where]))

    def _set_heldout(self, margin: np.ndarray | None, truth: Any) -> None:
        raise NotImplementedError  # each estimator learns something else

    def _fraction(self, n_rows: int) -> float:
        if self.validation_fraction is not None:
            return self.validation_fraction
        return 0.2 if n_rows < 5_000 else 0.15 if n_rows < 50_000 else 0.1

    def _note(self, **choices: Any) -> None:
        self.choices_.update(choices)

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"[{type(self).__name__}] {self._clock.spent:.1f} s: {text}", flush=True)

    # ---- prediction ----

    def _margin(self, X: Any) -> np.ndarray:
        """(n, n_outputs) float64: the mean of the members' margins."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit or load_model.")
        fitting.check_width(self, X)
        data = DMatrix(X, missing=self.missing, nthread=self.n_jobs, enable_categorical=True)
        total = np.zeros(1)
        for booster, trend in zip(self.members_, self.trends_, strict=True):
            data.info.base_margin = None if trend is None else trend.margin(booster._aligned_columns(data))
            total = total + booster.predict(data, output_margin=True, strict_shape=True).astype(np.float64)
        return total / len(self.members_)

    @property
    def feature_importances_(self) -> np.ndarray:
        """(n_features,) float32 that add up to 1: the gain of all splits, the members' mean."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("call fit or load_model beforehand")
        found = np.zeros(self.n_features_in_)
        for booster in self.members_:
            names = booster.feature_names or [f"f{f}" for f in range(self.n_features_in_)]
            scores = booster.get_score(importance_type="total_gain")
            gains = np.array([scores.get(name, 0.0) for name in names], np.float64)
            found += gains / (gains.sum() or 1.0)
        return (found / len(self.members_)).astype(np.float32)

    # ---- files ----

    def save_model(self, fname: "str | os.PathLike[str]") -> None:
        """Save all members and choices to one file, JSON or UBJSON by its ending. XGBoost does not read it."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("call fit or load_model beforehand")
        state = {
            "estimator": type(self).__name__,
            "choices": self.choices_,
            "trends": [None if trend is None else trend.to_json() for trend in self.trends_],
            "n_features_in": self.n_features_in_,
            "has_names": hasattr(self, "feature_names_in_"),
            **self._own_state(),
        }
        saved.save_members(self.members_, state, fname)

    def load_model(self, fname: "str | os.PathLike[str]") -> None:
        """Load what `save_model` has saved."""
        members, state = saved.load_members(fname, self.n_jobs)
        if state["estimator"] != type(self).__name__:
            raise TypeError(f"Loading an estimator with different type: the file holds a {state['estimator']}.")
        self._set_own_state(state, members[0]._learner.n_outputs)
        self.members_ = members
        self.trends_ = [None if trend is None else Trend.from_json(trend) for trend in state["trends"]]
        self.choices_ = state["choices"]
        self.n_features_in_ = state["n_features_in"]
        if state["has_names"]:
            self.feature_names_in_ = np.array(members[0].feature_names, dtype=object)

    def _own_state(self) -> dict[str, Any]:
        raise NotImplementedError  # classifier and regressor keep different things in their files

    def _set_own_state(self, state: dict[str, Any], n_outputs: int) -> None:
        raise NotImplementedError  # see `_own_state`


class BoostedRegressor(RegressorMixin, _Boosted):
    """Gradient boosting for regression that needs no tuning.

    Parameters
    ----------
    quality
        1 (fast) to 5 (most accurate): how many kinds of models audition, how small the steps are, and at 4 and 5 how
        many members are averaged.
    n_ensembles
        Members; None leaves it to the quality.
    time_limit
        Seconds after which the best so far is taken; then results depend on the machine. None: no limit.
    memory_limit
        Bytes that training may take, by estimate: fewer models audition, and data that cannot fit is refused.
    validation_fraction
        Part of the rows that auditions set aside; None leaves it to the number of rows.
    missing
        Value that means "missing" besides NaN.
    n_jobs
        Threads; results do not depend on them.
    random_state
        Seed.
    verbose
        Whether choices are printed.

    Attributes
    ----------
    choices_
        What was chosen, and the scores of what was not.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BoostedRegressor":
        """Train; columns of categories of a data frame are taken as such.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C: the estimator is then fitted to the best model so far, if there was one.
        """
        fitting.check_y(self, y)
        label = fitting.number_array(y)
        self._fit(X, label, sample_weight, {"objective": "reg:squarederror"}, None)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predicted value of every row, float64."""
        margin = self._margin(X)
        return margin[:, 0] if margin.shape[1] == 1 else margin

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """(n, 2): an interval that holds the truth with this probability (split conformal, from rows held out)."""
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must be between 0 and 1 (both excluded), got {coverage!r}.")
        middle = self.predict(X)
        if not len(self._residuals):
            raise XGBoostError("There are no intervals: training had too few rows to hold some out.")
        width = interval_width(self._residuals, self._n_heldout, coverage)
        return np.column_stack([middle - width, middle + width])

    def _set_heldout(self, margin: np.ndarray | None, truth: Any) -> None:
        self._residuals, self._n_heldout = np.zeros(0), 0
        if margin is not None and margin.ndim == 1:
            errors = np.abs(truth[0].astype(np.float64) - margin)
            self._residuals, self._n_heldout = residual_sample(errors), len(errors)

    def _own_state(self) -> dict[str, Any]:
        return {"residuals": self._residuals.tolist(), "n_heldout": self._n_heldout}

    def _set_own_state(self, state: dict[str, Any], n_outputs: int) -> None:
        schema.check_residuals(state, n_outputs)
        self._residuals, self._n_heldout = np.array(state["residuals"], np.float64), state["n_heldout"]


class BoostedClassifier(ClassifierMixin, _Boosted):
    """Gradient boosting for classification that needs no tuning; probabilities are calibrated on rows held out.

    Parameters and attributes are those of `BoostedRegressor`, and `classes_`.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BoostedClassifier":
        """Train on labels of any kind; see `BoostedRegressor.fit`."""
        fitting.check_y(self, y)
        labels = fitting.label_array(y, "y")
        if labels.ndim != 1:
            raise ValueError(f"y should be a 1d array, got an array of shape {labels.shape} instead.")
        self.classes_ = fitting.find_classes(labels)
        codes = fitting.encode(labels, self.classes_, "y")
        n_classes = len(self.classes_)
        task: dict[str, Any] = {"objective": "binary:logistic"}
        if n_classes > 2:
            task = {"objective": "multi:softprob", "num_class": n_classes}
        self._fit(X, codes, sample_weight, task, codes)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probability of every class, (n, n_classes) float64."""
        margin = self._margin(X) / self.temperature_
        if len(self.classes_) == 1:
            return np.ones((len(margin), 1))
        return class_probabilities(margin if margin.shape[1] > 1 else margin[:, 0])

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of every row."""
        codes = self.predict_proba(X).argmax(axis=1)
        return self.classes_[codes]

    def _set_heldout(self, margin: np.ndarray | None, truth: Any) -> None:
        self.temperature_ = 1.0
        if margin is not None:
            self.temperature_ = fit_temperature(margin.astype(np.float64), *truth)
            self._note(temperature=round(self.temperature_, 6))

    def _own_state(self) -> dict[str, Any]:
        return {"temperature": self.temperature_, "classes": saved.pack_labels(self.classes_)}

    def _set_own_state(self, state: dict[str, Any], n_outputs: int) -> None:
        schema.check_temperature(state)
        self.classes_ = schema.read_labels(state.get("classes"), n_outputs, f"{schema.PATH}.classes")
        self.temperature_ = float(state["temperature"])


def _has_flags(data: DMatrix) -> bool:
    """Whether most columns are flags: no more than two values are seen in the first rows."""
    _, values = next(data.chunks(_FLAG_ROWS))
    low, high = np.fmin.reduce(values), np.fmax.reduce(values)
    is_flag = (np.isnan(values) | (values == low) | (values == high)).all(axis=0)
    return bool(is_flag.mean() > 0.5)


def _with_margin(data: DMatrix, trend: Trend) -> DMatrix:
    """The same rows, beginning at the trend."""
    part = data.slice(np.arange(data.num_row()))
    part.set_base_margin(trend.margin(data))
    return part


def _folds(n_rows: int, n_folds: int, seed: int, strata: np.ndarray | None) -> list[np.ndarray]:
    """Rows dealt to folds at random, those of a class evenly."""
    order = np.random.RandomState(seed % 2**32).permutation(n_rows)
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
    return [np.sort(order[i::n_folds]) for i in range(n_folds)]
