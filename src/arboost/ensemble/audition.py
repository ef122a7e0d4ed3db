"""Contenders for a model: each trains on one part of the rows and is scored on another; the better ones go on.

The first heat is short and for all; half of them go on to a heat twice as long, and so forth. The last one trains until
its score has not improved for a while. Heats are counted in rounds, never in seconds: the same contender wins on any
machine, unless a time limit ends the race before.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arboost.booster import Booster
from arboost.ensemble.trend import Trend
from arboost.matrix.dmatrix import DMatrix


@dataclass
class Clock:
    """How long training may go on."""

    limit: float | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began

    def is_over(self, share: float = 1.0) -> bool:
        """Whether so much of the time has passed."""
        return self.limit is not None and self.spent >= share * self.limit


@dataclass
class Contender:
    """A kind of model in training, and its score after every round."""

    name: str
    params: dict[str, Any]
    train: DMatrix
    valid: DMatrix | None
    trend: Trend | None = None
    scores: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.booster = Booster(self.params, [self.train])

    @property
    def best_round(self) -> int:
        """Number of the round with the best score; of a contender without scores, the last one."""
        return int(np.argmin(self.scores)) if self.scores else self.booster.num_boosted_rounds() - 1

    @property
    def best_score(self) -> float:
        return min(self.scores, default=math.inf)

    @property
    def name_and_score(self) -> str:
        return f"{self.name}: {self.best_score:.6g} in round {self.best_round + 1}"

    def advance(self, n_rounds: int, patience: int, clock: Clock, share: float = 1.0) -> bool:
        """Train up to so many rounds; False if the score has not improved for `patience` of them, or time is over."""
        for _ in range(n_rounds):
            if self.scores and len(self.scores) - 1 - self.best_round >= patience:
                return False
            if self.booster.num_boosted_rounds() and clock.is_over(share):
                return False
            self.booster.update(self.train, self.booster.num_boosted_rounds())
            if self.valid is not None:
                score = self.booster._eval([(self.valid, "valid")], 0)[-1][2]
                self.scores.append(score if math.isfinite(score) else math.inf)
        return True

    def best_model(self) -> Booster:
        """The model of the rounds up to the best one, without the data."""
        return self.booster[: self.best_round + 1].reset()


def race(
    contenders: list[Contender],
    heat: int,
    max_rounds: int,
    patience: int,
    clock: Clock,
    share: float,
    say: Callable[[str], None],
    keep: Callable[[Contender], None],
) -> list[Contender]:
    """Train contenders in heats; all of them, the best first.

    Parameters
    ----------
    contenders
        Who takes part.
    heat
        Rounds of the first heat.
    max_rounds
        Most rounds of the last one standing.
    patience
        Rounds without a better score after which a contender has done all it can.
    clock, share
        When to end, whatever the heats say: at this share of the time limit.
    say
        Told who goes on.
    keep
        Told the best so far, after every heat: what is left after an interrupt.
    """
    standing = list(contenders)
    n_rounds = heat
    while True:
        for contender in standing:
            so_far = len(contender.scores)
            last = max_rounds if len(standing) == 1 else min(n_rounds, max_rounds)
            contender.advance(last - so_far, patience, clock, share)
            if contender.best_score <= min(c.best_score for c in contenders):
                keep(contender)
        standing.sort(key=lambda c: c.best_score)
        if len(standing) == 1:
            break
        say(f"after {n_rounds} rounds: " + "; ".join(c.name_and_score for c in standing))
        standing = standing[: (len(standing) + 1) // 2]
        n_rounds *= 2
    out = sorted((c for c in contenders if c is not standing[0]), key=lambda c: c.best_score)
    say(f"chosen: {standing[0].name_and_score}")
    return [standing[0], *out]
