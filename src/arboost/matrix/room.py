"""Memory or disk: where values and bins of data that can be read again are kept, within the memory budget.

values and bins fit      both are in memory
bins fit                 they are, values are read anew
neither                  bins lie on pages on disk, as many of them in memory as fit
rows do not fit either   refused: labels, margins, gradients and row numbers are always in memory
"""

from dataclasses import dataclass, replace
from typing import Any

from arboost.matrix.needs import bytes_needed
from arboost.matrix.page_files import places_of
from arboost.matrix.store import PageCache
from arboost.runtime import settings
from arboost.runtime.bytesize import in_words
from arboost.runtime.errors import XGBoostError
from arboost.runtime.memory import Budget, budget

_VALUE_BYTES = 4  # float32


@dataclass(frozen=True)
class Room:
    """What a matrix may take.

    Parameters
    ----------
    budget
        Bytes in memory.
    cache
        Where pages go, if they do.
    wants_disk
        Whether they do in any case.
    """

    budget: Budget
    cache: PageCache
    wants_disk: bool

    @classmethod
    def of(cls, memory_budget: Any, cache: PageCache) -> "Room":
        """The room that a user grants; a place for pages asks for them."""
        return cls(budget(memory_budget), cache, bool(cache.cache_prefix))

    def holds_values(self, n_rows: int, n_features: int) -> bool:
        """Whether so many values, and their bins, are kept in memory; refuses what cannot be trained on at all."""
        self._least(n_rows, n_features)
        limit, needed = self.budget.n_bytes, bytes_needed(n_rows, n_features).total + _VALUE_BYTES * n_rows * n_features
        if self.wants_disk or (limit is not None and needed > limit):
            return False
        what = f"arboost: {n_rows:,} rows x {n_features:,} features and their bins take {in_words(needed)} in memory"
        settings.say(2, f"{what}, {self.budget.words}: both are kept there.")
        return True

    def place_bins(self, n_rows: int, n_features: int, **asked: Any) -> PageCache | None:
        """Where the bins of a training go, None for memory; says so.

        Parameters
        ----------
        n_rows, n_features
            Of the data.
        **asked
            Of the training: see `needs.bytes_needed`.
        """
        needed, limit = bytes_needed(n_rows, n_features, **asked).total, self.budget.n_bytes
        what = f"arboost: training on {n_rows:,} rows x {n_features:,} features takes {in_words(needed)} in memory"
        if not self.wants_disk and (limit is None or needed <= limit):
            settings.say(2, f"{what}, {self.budget.words}: bins are kept in memory.")
            return None
        cache = self.pages_within(n_rows, n_features, **asked)
        folders = ", ".join(str(place.folder) for place in places_of(cache.cache_prefix))
        why = "as asked for" if self.wants_disk else self.budget.words
        settings.say(2 if self.wants_disk else 1, f"{what}, {why}: bins are kept on disk, in {folders}.")
        return cache

    def pages_within(self, n_rows: int, n_features: int, **asked: Any) -> PageCache:
        """The cache with what the budget leaves for pages; refuses what does not fit with all of them on disk."""
        rest = self._least(n_rows, n_features, **asked)
        limit = self.budget.n_bytes
        if limit is None or (self.wants_disk and not self.budget.is_given):
            return self.cache
        return replace(self.cache, memory_budget=limit - rest)

    def _least(self, n_rows: int, n_features: int, **asked: Any) -> int:
        """Bytes needed beside bins."""
        needs = bytes_needed(n_rows, n_features, **asked, cache=replace(self.cache, memory_budget=0))
        if self.budget.n_bytes is not None and needs.total > self.budget.n_bytes:
            n_outputs = asked.get("n_outputs", 1)
            outputs = f" and {n_outputs} outputs" if n_outputs > 1 else ""
            raise XGBoostError(
                f"Training on {n_rows:,} rows x {n_features:,} features{outputs} needs at least "
                f"{in_words(needs.total)} of memory with its bins on disk, {in_words(needs.rows)} of it for labels, "
                f"margins, gradients and row numbers; {self.budget.words}. Raise memory_budget, or train on fewer rows."
            )
        return needs.total - needs.bins
