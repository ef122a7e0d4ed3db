"""Built-in traces: the small examples that boosting is taught with."""

from collections.abc import Callable

from arboost.runtime.errors import XGBoostError
from arboost.trace.view import Trace

_NO = {0.0: "no", 1.0: "yes"}
_MISSING = float("nan")


def _salary() -> Trace:
    age, masters = [23, 24, 26, 26, 27], [0, 1, 1, 0, 1]
    return Trace(
        [list(row) for row in zip(age, masters, strict=True)],
        [50, 70, 80, 65, 85],
        {"max_depth": 2, "reg_lambda": 1, "gamma": 50, "eta": 0.3, "min_child_weight": 0},
        feature_names=["age", "master's"],
        target_name="salary",
        title="Salary from age and a master's degree",
        notes=(
            "Squared error: a row's residual is its salary less its prediction, and its hessian is 1. The root splits "
            "on the degree, each side on age; gamma = 50 then takes the weakest split back."
        ),
        value_names={"master's": _NO},
        sliders={"reg_lambda": [0, 1, 2, 5, 10], "gamma": [0, 50, 100, 400], "eta": [0.1, 0.3, 0.5, 1]},
    )


def _dosage() -> Trace:
    return Trace(
        [[3], [8], [11]],
        [0, 1, 1],
        {
            "objective": "binary:logistic", "base_score": 0.5, "reg_lambda": 0, "eta": 0.3, "min_child_weight": 0,
            "max_depth": 1,
        },
        feature_names=["dosage"],
        target_name="effective",
        title="Does the drug work at this dosage?",
        notes=(
            "Logistic loss: predictions are log odds, a residual is the label less the probability p, and a hessian "
            "is p (1 - p). Every row starts at p = 0.5."
        ),
    )  # fmt: skip


def _missing() -> Trace:
    values = [1.3, _MISSING, 1.1, 0.2, _MISSING, 1.9, 0.5, _MISSING, 1.5, 1.8]
    return Trace(
        [[value] for value in values],
        [1, 0, 1, 0, 0, 1, 0, 0, 1, 1],
        {"objective": "binary:logistic", "base_score": 0.5, "min_child_weight": 0, "max_depth": 1},
        feature_names=["value"],
        target_name="class",
        title="Where missing values go",
        notes=(
            "Three values are missing. Every threshold is tried twice, with the missing rows on the right and on the "
            "left; the better side becomes the node's default direction."
        ),
    )


def _directions() -> Trace:
    rows = [[15, 0], [15, 1], [15, _MISSING], [25, 0], [25, 1], [25, _MISSING], [_MISSING, 0], [_MISSING, 1]]
    return Trace(
        rows,
        [2, 7, 7, 0, 0, 0, 2, 7],
        {"max_depth": 2, "reg_lambda": 0, "eta": 1, "min_child_weight": 0},
        1,
        feature_names=["age", "sex"],
        target_name="score",
        title="Every node has its own default direction",
        notes="A missing age goes with the young; a missing sex, among the young, with the female rows.",
        value_names={"sex": {0.0: "male", 1.0: "female"}},
    )


EXAMPLES: dict[str, tuple[Callable[[], Trace], str]] = {
    "salary": (_salary, "regression: salary from age and degree, a split pruned by gamma"),
    "dosage": (_dosage, "classification: log odds, probabilities, p (1 - p)"),
    "missing": (_missing, "missing values: both directions tried, the better one kept"),
    "directions": (_directions, "missing values in two features, each node with its own direction"),
}


def example(name: str = "salary") -> Trace:
    """A built-in trace.

    Parameters
    ----------
    name : str
        One of `EXAMPLES`: "salary", "dosage", "missing", "directions".

    Returns
    -------
    Trace
        The recorded training.
    """
    if name not in EXAMPLES:
        raise XGBoostError(f"There is no example {name!r}; there are {', '.join(EXAMPLES)}.")
    return EXAMPLES[name][0]()
