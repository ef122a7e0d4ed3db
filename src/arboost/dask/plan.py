"""Which worker trains on which rows: those that it holds. Only a query group that goes on in a partition of another
worker is given to the worker on which it begins. No word of Dask in here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from arboost.dask.parts import Facts, Piece

Shares = dict[str, list[Piece]]  # by the worker's address, in the order of the rows


def choose_owners(n_rows: Sequence[int], holders: Sequence[Iterable[str]]) -> list[str]:
    """For each partition one of the workers that hold it: of several, the one with the fewest rows so far."""
    load: Counter[str] = Counter()
    owners = []
    for n, addresses in zip(n_rows, holders, strict=True):
        owner = min(addresses, key=lambda address: (load[address], address))
        load[owner] += n
        owners.append(owner)
    return owners


def share_out(facts: Sequence[Facts], owners: Sequence[str]) -> Shares:
    """The pieces of each worker; rows are sorted by group."""
    shares: Shares = {}
    first_id = 0
    group, group_owner = None, ""  # the last group so far, and who has it
    for number, (fact, owner) in enumerate(zip(facts, owners, strict=True)):
        start = 0
        if fact.groups is not None:
            if fact.groups.first == group and group_owner != owner:
                start = fact.groups.n_first
                shares[group_owner].append(Piece(number, 0, start, first_id))
            if fact.groups.last != group:
                group, group_owner = fact.groups.last, owner
        if fact.n_rows > start:
            shares.setdefault(owner, []).append(Piece(number, start, fact.n_rows, first_id + start))
        first_id += fact.n_rows
    return shares


def rank_workers(shares: Iterable[Mapping[str, object]], owners: Sequence[str]) -> list[str]:
    """The workers that take part, by rank; the owner of the first partition where nobody has a row."""
    return sorted(set().union(*shares)) or [owners[0]]
