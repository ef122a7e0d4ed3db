"""Data larger than memory: `ExtMemQuantileDMatrix`, whose bins lie on disk.

Labels, weights and all else that belongs to a row stay in memory; the model is that of the same data in memory, to the
byte. `store.py` has the pages.
"""

from arboost.matrix.adapt import RawData
from arboost.matrix.cuts import Cuts
from arboost.matrix.dmatrix import BinsOnly, DMatrix, cache_of
from arboost.matrix.iterator import DataIter
from arboost.matrix.page import BinnedPage
from arboost.matrix.room import Room
from arboost.matrix.store import StoredPages, store_pages
from arboost.runtime.arguments import positional_with_warning
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError, type_name
from arboost.runtime.memory import budget


class ExtMemQuantileDMatrix(BinsOnly):
    """Data for training with `tree_method="hist"` that need not fit in memory: its bins lie on disk.

    The files are gone when the matrix is, or the process, however it ends.

    Parameters
    ----------
    data
        A `DataIter`. Its `cache_prefix` says where bins go: a prefix of paths, a folder, or a list of these.
    missing, nthread, enable_categorical
        See `DMatrix`.
    max_bin, ref
        See `QuantileDMatrix`.
    max_quantile_batches, cache_host_ratio
        Accepted for compatibility.
    memory_budget
        Bytes that a training may take, also as "4GB": what it does not need else is for pages that then do not go to
        disk, and for rows that are sampled. None: that of `set_config`, else only pages being read, about 50 MB, are
        in memory.
    """

    @positional_with_warning
    def __init__(
        self,
        data: DataIter,
        *,
        missing: float | None = None,
        nthread: int | None = None,
        max_bin: int | None = None,
        ref: DMatrix | None = None,
        enable_categorical: bool = False,
        max_quantile_batches: int | None = None,
        cache_host_ratio: float | None = None,
        memory_budget: int | str | None = None,
    ) -> None:
        if not isinstance(data, DataIter):
            raise TypeError(f"ExtMemQuantileDMatrix reads a DataIter of arboost, got {type_name(data)}.")
        self._check_bins(max_bin, ref)
        super().__init__(data, missing=missing, nthread=nthread, enable_categorical=enable_categorical)
        room = Room(budget(memory_budget), cache_of(data), wants_disk=True)
        self._pages_at = room.pages_within(self.num_row(), self.num_col(), max_bin=self.max_bin)
        self._let_go(ref)

    def binned(self, ctx: Context, max_bin: int, enable_bundle: bool = False, keep_sparse: bool = False) -> BinnedPage:
        """Refused: they would not fit."""
        raise XGBoostError("The bins of an ExtMemQuantileDMatrix are not put together in memory: use QuantileDMatrix.")

    def pages(self, ctx: Context, max_bin: int, enable_bundle: bool = False, keep_sparse: bool = False) -> StoredPages:
        """The bins made at construction; every feature has a column of its own. Refuses any other `max_bin`."""
        self._check_same(max_bin)
        assert isinstance(self._bins, StoredPages)
        return self._bins

    def close(self) -> None:
        """Give the room on disk back now; nothing can be done with the matrix afterwards."""
        assert isinstance(self._bins, StoredPages)
        self._bins.close()

    def _bin(self, raw: RawData, cuts: Cuts) -> StoredPages:
        return store_pages(self._ctx, raw, cuts, self._pages_at)
