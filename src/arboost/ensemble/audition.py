"""Contenders for a model: each trains on some of the rows and is scored on the others; the better ones go on.

Where rows are few, a contender is a model for each of several folds that advance together, scored on all rows: one
split would tell little, of kinds and of the best round.

The champion, most promising before anything is known, trains until its score has not improved for a while. The
challengers' first heat is short; half of them go on to a heat twice as long, and so forth. Who is behind what the
champion had after as many rounds is out at once, and the last one must beat the champion by more than chance would.
Heats are counted in rounds, never in seconds: the same contender wins on any machine, unless a time limit ends the race
before.
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
BAR = 0.5  # of a standard error: what a challenger must win by


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
class Part:
    """Rows to train on, and rows to be scored on (None: nobody asks for a score)."""

    train: DMatrix
    valid: DMatrix | None
    trend: Trend | None = None


@dataclass
class Contender:
    """A kind of model in training on one part or several, and its score on all of them after every round."""

    name: str
    params: dict[str, Any]
    parts: list[Part]
    about: float = _ABOUT  # times the best score: what is as good
    scores: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._boosters = [Booster(self.params, [part.train]) for part in self.parts]
        self._is_classes = self.params["objective"] != "reg:squarederror"

    @property
    def trend(self) -> Trend | None:
        """Where the model of the first part begins."""
        return self.parts[0].trend

    @property
    def n_rounds(self) -> int:
        return self._boosters[0].num_boosted_rounds()

    @property
    def best_round(self) -> int:
        """The first round whose score is about the best: later ones may be luck. Without scores, the last one."""
        if not self.scores:
            return self.n_rounds - 1
        return int(np.argmax(np.asarray(self.scores) <= self.about * self.best_score))

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
            if self.n_rounds and clock.is_over(share):
                return False
            next_round = self.n_rounds
            for booster, part in zip(self._boosters, self.parts, strict=True):
                booster.update(part.train, next_round)
            if self.parts[0].valid is not None:
                self.scores.append(self._score())
        return True

    def _score(self) -> float:
        """The loss of the validation rows of all parts, of what has been trained."""
        total = weights = 0.0
        for booster, part in zip(self._boosters, self.parts, strict=True):
            assert part.valid is not None
            score, weight = booster._eval([(part.valid, "valid")], 0)[-1][2], _row_weight(part.valid).sum()
            total += weight * (score if self._is_classes else score**2)
            weights += weight
        mean = total / weights if weights > 0.0 else math.inf
        score = mean if self._is_classes else math.sqrt(mean)
        return score if math.isfinite(score) else math.inf

    def held_out(self) -> np.ndarray:
        """Margins of the validation rows after the best round."""
        rounds = (0, self.best_round + 1)
        found = []
        for booster, part in zip(self._boosters, self.parts, strict=True):
            assert part.valid is not None
            found.append(booster.predict(part.valid, output_margin=True, iteration_range=rounds).astype(np.float64))
        return np.concatenate(found)

    def row_losses(self) -> np.ndarray:
        """Loss of every validation row after the best round."""
        labels = [part.valid.info.label for part in self.parts if part.valid is not None]
        return row_losses(self.held_out(), np.concatenate([y for y in labels if y is not None]), self._is_classes)

    def row_weights(self) -> np.ndarray:
        """Weight of every validation row."""
        return np.concatenate([_row_weight(part.valid) for part in self.parts if part.valid is not None])

    def best_model(self) -> Booster:
        """The first part's model of the rounds up to the best one, without the data."""
        return self._boosters[0][: self.best_round + 1].reset()


def _row_weight(data: DMatrix) -> np.ndarray:
    weight = data.info.row_weight()
    return np.ones(data.num_row()) if weight is None else weight.astype(np.float64)


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
        n_rounds, goes_on = self._heat, True
        while standing and goes_on:
            n_rounds = min(n_rounds, self._max_rounds)
            unfinished = [self._train(contender, n_rounds) for contender in standing]
            goes_on = len(standing) > 1 or (unfinished[0] and n_rounds < self._max_rounds)
            self._say(f"after {n_rounds} rounds: " + "; ".join(c.name_and_score for c in standing))
            standing = sorted((c for c in standing if not _is_behind(c, champion)), key=lambda c: c.best_score)
            standing = standing[: (len(standing) + 1) // 2]
            n_rounds *= 2
        winner = champion
        if standing and is_better(standing[0], champion):
            winner = standing[0]
        self._say(f"chosen: {winner.name_and_score}")
        return [winner, *sorted((c for c in contenders if c is not winner), key=lambda c: c.best_score)]

    def _train(self, contender: Contender, last_round: int) -> bool:
        """Up to a round; False if the contender can do no more, or time is over."""
        n_rounds = last_round - len(contender.scores)
        try:
            return contender.advance(n_rounds, self._patience, self._clock, self._share)
        finally:  # what an interrupt leaves is kept too
            if contender.scores and (self._best is None or contender.best_score < self._best.best_score):
                self._best = contender
            if contender is self._best:
                self._keep(contender)


def _is_behind(challenger: Contender, champion: Contender) -> bool:
    """Whether the champion's score was better after as many rounds."""
    n_rounds = len(challenger.scores)
    return n_rounds <= len(champion.scores) and challenger.scores[-1] > champion.scores[n_rounds - 1]


def is_better(challenger: Contender, champion: Contender, bar: float = BAR) -> bool:
    """Whether a challenger's mean loss is lower by more than so many standard errors of that difference.

    Of few validation rows the lowest score is often luck.
    """
    if not math.isfinite(challenger.best_score):
        return False
    gains = champion.row_losses() - challenger.row_losses()
    weight = champion.row_weights()
    total = weight.sum()
    if not total > 0.0:
        return False
    mean = (weight * gains).sum() / total
    error = math.sqrt(float((weight**2 * (gains - mean) ** 2).sum())) / total
    return bool(mean > bar * error)
