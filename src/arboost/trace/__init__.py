"""Show me the mathematics: `arboost.trace(X, y, params)` trains a small model and shows every number of it.

Round by round: first prediction, residuals, gradients and hessians, every candidate split with the similarity of its
sides and its gain, where missing values go, why a split was made or taken back, leaf outputs, new predictions. All of
them are the engine's own, recorded and checked. The module is called like a function; `Trace` is what it returns.
"""

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from arboost.trace.examples import EXAMPLES, example
from arboost.trace.view import Trace

__all__ = ["EXAMPLES", "Trace", "example"]


class _CallableModule(ModuleType):
    """A module that is a function too."""

    def __call__(
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
    ) -> Trace:
        """Train a small model and record every number.

        Parameters
        ----------
        X : array-like, data frame or DMatrix
            Up to 5,000 rows of up to 100 numbers, NaN for missing. A DMatrix brings its labels, weights and groups.
        y : array-like
            The labels, unless X has them.
        params : dict, optional
            Parameters as for `train`. Unless they say otherwise trees have a depth of at most 3, and are grown with
            `tree_method="exact"` up to 200 rows, above with "hist" and 32 bins. Sampling, constraints and other
            boosters are refused by name: a trace shows trees that see every row and every feature.
        num_boost_round : int
            How many rounds, at most 20.
        feature_names : sequence of str, optional
            Names of the columns; a data frame has its own.
        target_name, title, notes : str, optional
            What to call the labels, and the trace; what to say about it.
        value_names : dict, optional
            Names to show for a feature's values, such as `{"master's": {0: "no", 1: "yes"}}`.
        class_names : sequence of str, optional
            Names of the classes of a `multi:` objective.
        sliders : dict, optional
            Values of "lambda", "gamma" and "eta" that the page's sliders offer; chosen from the run if not given.

        Returns
        -------
        Trace
            `print(trace)` or `trace.show()` for text, `trace.to_html("trace.html")` for the interactive page.

        Examples
        --------
        >>> import arboost
        >>> found = arboost.trace([[3], [8], [11]], [0, 1, 1], {"objective": "binary:logistic"})  # doctest: +SKIP
        >>> found.to_html("dosage.html")  # doctest: +SKIP
        """
        return Trace(
            X, y, params, num_boost_round, feature_names=feature_names, target_name=target_name, title=title,
            notes=notes, value_names=value_names, class_names=class_names, sliders=sliders,
        )  # fmt: skip


sys.modules[__name__].__class__ = _CallableModule
