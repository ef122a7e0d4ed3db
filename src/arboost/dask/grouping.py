"""Rows in the order of their query groups: a stable sort over all partitions, for data that does not come so.

Every partition is sorted and cut at group ids that make the new partitions about equal; piece b of all of them becomes
partition b. The result is that of sorting the whole table, whatever the partitions were.
"""

from operator import getitem
from typing import Any

import distributed
import numpy as np

from arboost.compat import concat
from arboost.dask.parts import Facts, Part, cut_part


def is_sorted(facts: list[Facts]) -> bool:
    """Whether the group ids of all rows, one partition after the other, never fall."""
    groups = [fact.groups for fact in facts if fact.groups is not None]
    ends = [end for group in groups for end in (group.first, group.last)]
    return all(group.is_sorted for group in groups) and ends == sorted(ends)


async def sort_parts(client: distributed.Client, parts: list[distributed.Future]) -> list[distributed.Future]:
    """As many partitions, of the rows sorted by `qid`; rows of a group keep their order."""
    counts = await client.gather(client.map(_count_groups, parts, pure=False), asynchronous=True)
    bounds = choose_bounds(counts, len(parts))
    cuts = client.map(cut_groups, parts, bounds=bounds, pure=False)
    return [
        client.submit(join_groups, [client.submit(getitem, cut, b, pure=False) for cut in cuts], pure=False)
        for b in range(len(bounds) + 1)
    ]


def _count_groups(part: Part) -> tuple[np.ndarray, np.ndarray]:
    """The group ids of a partition, and how many rows each has."""
    ids, counts = np.unique(np.asarray(part["qid"]), return_counts=True)
    return ids, counts


def choose_bounds(counts: list[tuple[np.ndarray, np.ndarray]], n_parts: int) -> np.ndarray:
    """The ids at which partitions begin but the first, so that they have about the same number of rows."""
    ids, place = np.unique(np.concatenate([ids for ids, _ in counts]), return_inverse=True)
    sizes = np.bincount(place, np.concatenate([sizes for _, sizes in counts]), len(ids))
    before = np.cumsum(sizes) - sizes
    first = np.searchsorted(before, sizes.sum() * np.arange(1, n_parts) / n_parts)
    return ids[np.unique(first[first < len(ids)])]


def cut_groups(part: Part, bounds: np.ndarray) -> list[Part]:
    """A partition sorted by group and cut at the bounds."""
    part = _sorted(part)
    ends = [*np.searchsorted(np.asarray(part["qid"]), bounds).tolist(), len(part["qid"])]
    return [cut_part(part, start, stop) for start, stop in zip([0, *ends[:-1]], ends, strict=True)]


def join_groups(pieces: list[Part]) -> Part:
    """Pieces of one range of groups as a partition."""
    filled = [piece for piece in pieces if len(piece["qid"])] or pieces[:1]
    return _sorted({name: concat([piece[name] for piece in filled]) for name in filled[0]})


def _sorted(part: Part) -> Part:
    order = np.argsort(np.asarray(part["qid"]), kind="stable")
    return {name: _take(values, order) for name, values in part.items()}


def _take(values: Any, order: np.ndarray) -> Any:
    return values.iloc[order] if hasattr(values, "iloc") else values[order]
