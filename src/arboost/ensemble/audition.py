"""Contenders for a model: each trains on one part of the rows and is scored on another; the better ones go on.

The champion, most promising before anything is known, trains until its score has not improved for a while. The
challengers' first heat is short; half of them go on to a heat twice as long, and so forth; the last one must beat the
champion by more than chance would. Heats are counted in rounds, never in seconds: the same contender wins on any
machine, unless a time limit ends the race before.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arboost.booster import Booster
from arboost.ensemble.heldout import row_losses
from arboost.ensemble.trend import Trend
from arboost.matrix.dmatrix import DMatrix

_ABOUT = 1.002  # times the best score


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
        """The first round whose score is about the best: later ones may be luck. Without scores, the last one."""
        if not self.scores:
            return self.booster.num_boosted_rounds() - 1
        return int(np.argmax(np.asarray(self.scores) <= _ABOUT * self.best_score))

    @property
    def best_score(self) -> float:
        return min(self.scores, default=math.inf)

    @property
    def name_and_score(self) -> str:
        return f"{self.name}: {self.best_score:.6g} in round {self.best_round + 1}"

    def advance(self, n_rounds: int, patience: int, clock: Clock, share: float = 1.0) -> bool:
        """Train up to so many rounds; False if the score has not improved for `patience` of them, or time is over."""
        for _ in range(n_rounds):
            if self.scores and len(self.scores) - 1 - int(np.argmin(self.scores)) >= patience:
                return False
            if self.booster.num_boosted_rounds() and clock.is_over(share):
                return False
            self.booster.update(self.train, self.booster.num_boosted_rounds())
            if self.valid is not None:
                score = self.booster._eval([(self.valid, "valid")], 0)[-1][2]
                self.scores.append(score if math.isfinite(score) else math.inf)
        return True

    def held_out(self) -> np.ndarray:
        """Margins of the validation rows after the best round."""
        assert self.valid is not None
        rounds = (0, self.best_round + 1)
        return self.booster.predict(self.valid, output_margin=True, iteration_range=rounds).astype(np.float64)

    def row_losses(self) -> np.ndarray:
        """Loss of every validation row after the best round."""
        assert self.valid is not None
        label = self.valid.info.label
        assert label is not None
        return row_losses(self.held_out(), label, self.params["objective"] != "reg:squarederror")

    def best_model(self) -> Booster:
        """The model of the rounds up to the best one, without the data."""
        return self.booster[: self.best_round + 1].reset()


class Race:
    """A champion, who trains until it is done, and challengers, who go on in heats; one of them may take its place.

    Parameters
    ----------
    heat
        Rounds of the first heat.
    max_rounds
        Most rounds of anybody.
    patience
        Rounds without a better score after which a contender has done all it can.
    clock, share
        When to end, whatever the heats say: at this share of the time limit.
    say
        Told how heats end.
    keep
        Told the best so far, after every turn: what is left after an interrupt.
    """

    def __init__(
        self,
        heat: int,
        max_rounds: int,
        patience: int,
        clock: Clock,
        share: float,
        say: Callable[[str], None],
        keep: Callable[[Contender], None],
    ):
        self._heat, self._max_rounds, self._patience = heat, max_rounds, patience
        self._clock, self._share = clock, share
        self._say, self._keep = say, keep
        self._best: Contender | None = None

    def run(self, contenders: list[Contender]) -> list[Contender]:
        """All contenders, the winner first; the first one given is the champion."""
        champion, standing = contenders[0], contenders[1:]
        self._train(champion, self._max_rounds)
        n_rounds = self._heat
        while standing:
            for contender in standing:
                self._train(contender, self._max_rounds if len(standing) == 1 else n_rounds)
            standing.sort(key=lambda c: c.best_score)
            if len(standing) == 1:
                break
            self._say(f"after {n_rounds} rounds: " + "; ".join(c.name_and_score for c in standing))
            standing = standing[: (len(standing) + 1) // 2]
            n_rounds *= 2
        winner = champion
        if standing and is_better(standing[0], champion):
            winner = standing[0]
        self._say(f"chosen: {winner.name_and_score}")
        return [winner, *sorted((c for c in contenders if c is not winner), key=lambda c: c.best_score)]

    def _train(self, contender: Contender, last_round: int) -> None:
        contender.advance(last_round - len(contender.scores), self._patience, self._clock, self._share)
        if self._best is None or contender.best_score < self._best.best_score:
            self._best = contender
        if contender is self._best:
            self._keep(contender)


def is_better(challenger: Contender, champion: Contender) -> bool:
    """Whether a challenger's mean loss is lower by more than that difference's own standard error.

    Of few validation rows the lowest score is often luck.
    """
    if not math.isfinite(challenger.best_score):
        return False
    gains = champion.row_losses() - challenger.row_losses()
    weight = champion.valid.info.row_weight() if champion.valid is not None else None
    weight = np.ones(len(gains)) if weight is None else weight.astype(np.float64)
    total = weight.sum()
    if not total > 0.0:
        return False
    mean = (weight * gains).sum() / total
    error = math.sqrt(float((weight**2 * (gains - mean) ** 2).sum())) / total
    return bool(mean > error)
