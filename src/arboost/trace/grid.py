"""Which values of lambda, gamma and eta a page's sliders have, and their recorded runs."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product
from math import floor, log10, sqrt
from typing import Any

from arboost.params.resolve import normalize
from arboost.runtime.errors import XGBoostError
from arboost.trace.parts import Run

NAMES = ("reg_lambda", "gamma", "eta")
LAMBDAS, ETAS = (0.0, 1.0, 2.0, 5.0, 10.0), (0.1, 0.3, 0.5, 1.0)
MAX_GAMMAS = 5
MAX_RUNS = 200
BUDGET = 80_000  # candidates and rows of all runs together: some 5 MB of page
_NICE = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)

Axes = dict[str, list[float]]


def own_of(run: Run) -> dict[str, float]:
    """The run's own place on every slider."""
    return {name: _shown(run.params[name]) for name in NAMES}


def axes_of(run: Run, given: Mapping[str, Sequence[float]] | None) -> Axes:
    """The values of each slider, ascending, the run's own among them; fewer where a run is large."""
    own = own_of(run)
    if given is not None:
        wanted = normalize(given)
        unknown = sorted(set(wanted) - set(NAMES))
        if unknown:
            raise XGBoostError(f"sliders can have lambda, gamma and eta, not {', '.join(unknown)}.")
        axes = {name: _with_own([float(v) for v in wanted.get(name, ())], own[name]) for name in NAMES}
        n_runs = _count_runs(axes)
        if n_runs > MAX_RUNS:
            raise XGBoostError(
                f"The sliders' values make {n_runs} runs, at most {MAX_RUNS} can be recorded: use fewer."
            )
        return axes
    values = {"reg_lambda": list(LAMBDAS), "gamma": gammas_between(_gains(run)), "eta": list(ETAS)}
    axes = {name: _with_own(values[name], own[name]) for name in NAMES}
    most = min(MAX_RUNS, BUDGET // _size(run))
    while _count_runs(axes) > max(most, 1):
        widest = max(NAMES, key=lambda name: len(axes[name]))
        axes[widest] = _without_one(axes[widest], own[widest])
    return axes


def record(axes: Axes, run: Run, train: Callable[[Mapping[str, float]], Run]) -> list[Run]:
    """A run for every combination, the last axis (eta) changing fastest; the one that exists is taken as it is."""
    own = tuple(own_of(run).values())
    combinations = product(*(axes[name] for name in NAMES))
    return [run if values == own else train(dict(zip(NAMES, values, strict=True))) for values in combinations]


def gammas_between(gains: Sequence[float]) -> list[float]:
    """0 and a round number between each two neighbouring gains and above the last: each prunes one split more."""
    found, gains = [0.0], sorted(g for g in gains if g > 0)
    for low, high in pairwise([*gains, *(4 * gain for gain in gains[-1:])]):
        if high > low * 1.05:
            found.append(_round_between(low, high))
    while len(found) > MAX_GAMMAS:
        found.pop(len(found) // 2)
    return sorted(set(found))


def _round_between(low: float, high: float) -> float:
    """A round number between two positive ones, near their geometric mean."""
    middle = sqrt(low * high)
    unit = 10.0 ** floor(log10(middle))
    fitting = [round(n * unit, 12) for n in _NICE if low < n * unit <= high]
    return min(fitting, key=lambda x: abs(x - middle)) if fitting else float(f"{middle:.3g}")


def _shown(value: Any) -> float:
    """A float32 parameter as the number that the user wrote."""
    return float(f"{value:.7g}")


def _with_own(values: list[float], own: float) -> list[float]:
    return sorted({*values, own})


def _without_one(values: list[float], own: float) -> list[float]:
    """One value less: the farthest from the run's own, of two the larger."""
    at = values.index(own)
    gone = max(range(len(values)), key=lambda k: (abs(k - at), k))
    return values[:gone] + values[gone + 1 :]


def _count_runs(axes: Axes) -> int:
    n = 1
    for values in axes.values():
        n *= len(values)
    return n


def _gains(run: Run) -> list[float]:
    """Gains of the splits that the first round made, pruned or not."""
    nodes = [node for tree in run.rounds[0].trees for node in tree.nodes]
    return [node.candidates[node.split].gain for node in nodes if node.split >= 0]


def _size(run: Run) -> int:
    """How much there is to show of a run: candidates, and rows of every tree."""
    trees = [tree for r in run.rounds for tree in r.trees]
    return sum(len(tree.g) + sum(len(node.candidates) for node in tree.nodes) for tree in trees)
