"""Rounds on data that has several versions, one for each permutation of its rows: every round draws one of them."""

from collections.abc import Iterable, Iterator

from arboost.boosters.gbtree import GBTree, Grower, Reviser, TreeTrainer, make_grower
from arboost.boosters.rounds import Round
from arboost.matrix.dmatrix import DMatrix
from arboost.params.resolve import TreeParams
from arboost.runtime import rng
from arboost.runtime.context import Context
from arboost.tree.model import Tree


def drawn_permutation(round_key: int, n_permutations: int) -> int:
    """The permutation of a round."""
    return rng.make_key(round_key, rng.PERMUTATIONS) % n_permutations


def versions_of_trees(model: GBTree, seed: int, n_permutations: int, first_tree: int) -> Iterator[tuple[int, slice]]:
    """(permutation, trees counted from `first_tree`): which version of the data trees were grown on, in order."""
    run: tuple[int, int, int] | None = None
    for r in range(model.n_rounds):
        start, stop = (t - first_tree for t in model.iteration_ptr[r : r + 2])
        if stop <= 0:
            continue
        drawn = drawn_permutation(rng.make_key(seed, r), n_permutations)
        if run is not None and run[0] == drawn:
            run = (drawn, run[1], stop)
            continue
        if run is not None:
            yield run[0], slice(run[1], run[2])
        run = (drawn, max(start, 0), stop)
    if run is not None:
        yield run[0], slice(run[1], run[2])


class PermutedTrainer(TreeTrainer):
    """Grows the trees of a round on the version of the data that the round draws."""

    def __init__(self, ctx: Context, data: DMatrix, params: TreeParams, reviser: Reviser | None = None):
        # the first version makes the bins of all
        self._growers = [make_grower(ctx, data.permuted(p), params) for p in range(data.n_permutations)]
        super().__init__(ctx, data.num_row(), params, self._growers[0], reviser)

    def _all_growers(self) -> Iterable[Grower]:
        return self._growers

    def _grow(self, turn: Round) -> tuple[list[Tree], list[int]]:
        self._grower = self._growers[drawn_permutation(turn.key, len(self._growers))]
        return super()._grow(turn)
