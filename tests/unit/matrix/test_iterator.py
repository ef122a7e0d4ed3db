"""Data that comes batch by batch gives what the whole table gives, and only one batch is alive at a time."""

import gc
import inspect
import itertools
import weakref

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost

from arboost.matrix import adapt as adapt_module
from arboost.matrix import cuts as cuts_module
from arboost.matrix import iterator as iterator_module
from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.matrix.iterator import BatchedData, DataIter, batches_of, read_batches
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError


class Batches(DataIter):
    """Hands over dicts of arguments."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches
        self.at = 0
        self.n_resets = 0

    def reset(self):
        self.at = 0
        self.n_resets += 1

    def next(self, input_data):
        if self.at == len(self.batches):
            return False
        input_data(**self.batches[self.at])
        self.at += 1
        return True


def table(n_rows=300, n_features=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 1] = np.round(X[:, 1])
    return X


def parts(X, *ends, **fields):
    """X cut into batches at these rows."""
    edges = [0, *ends, len(X)]
    return [
        {"data": X[a:b], **{name: values[a:b] for name, values in fields.items()}} for a, b in itertools.pairwise(edges)
    ]


def read(batches, missing=None, ctx=None):
    return read_batches(batches_of(Batches(batches), missing), ctx or Context(), missing)


def dense(raw, rows=None):
    return np.concatenate([values.copy() for _, values in raw.chunks(rows)])


def test_constructor_is_xgboosts():
    def shape(kind):
        return [(p.name, p.kind, p.default) for p in inspect.signature(kind.__init__).parameters.values()]

    assert shape(DataIter) == shape(xgboost.DataIter)
    made = Batches([])
    assert (made.cache_prefix, made.release_data, made.on_host, made.min_cache_page_bytes) == (None, True, True, None)
    with pytest.raises(TypeError, match="abstract"):
        DataIter()


@pytest.mark.parametrize("chunk_values", [20, 1 << 21])
def test_values_of_all_batches(chunk_values, monkeypatch):
    for module in (adapt_module, iterator_module):
        monkeypatch.setattr(module, "CHUNK_VALUES", chunk_values)
    X = table()
    raw, fields = read(parts(X, 100, 110, 250))
    assert isinstance(raw, BatchedData)
    assert (raw.n_rows, raw.n_features, fields) == (300, 5, {})
    np.testing.assert_array_equal(dense(raw), X)
    np.testing.assert_array_equal(dense(raw, 7), X)
    np.testing.assert_array_equal(raw.scan(Context()), (~np.isnan(X)).sum(axis=0))
    for first_row, values, column in raw.tiles(2, 4):
        np.testing.assert_array_equal(values[:, column : column + 2], X[first_row : first_row + len(values), 2:4])
    rows = np.array([299, 0, 105, 105, 104])
    np.testing.assert_array_equal(dense(raw.take(rows)), X[rows])


@pytest.mark.parametrize("chunk_values", [40, 1 << 21])
@pytest.mark.parametrize("sort_rows", [10, 1 << 16], ids=["counting", "sorting"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cuts_and_bins_are_those_of_the_whole(chunk_values, sort_rows, weighted, monkeypatch):
    for module in (adapt_module, iterator_module):
        monkeypatch.setattr(module, "CHUNK_VALUES", chunk_values)
    monkeypatch.setattr(cuts_module, "_SORT_ROWS", sort_rows)
    X = table()
    fields = {"label": np.arange(300.0)} | ({"weight": np.linspace(0, 3, 300)} if weighted else {})
    for max_bin in (7, 256):
        whole = QuantileDMatrix(X, **fields, max_bin=max_bin)
        batched = QuantileDMatrix(Batches(parts(X, 1, 100, 290, **fields)), max_bin=max_bin)
        for mine, theirs in zip(batched.get_quantile_cut(), whole.get_quantile_cut(), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(batched._bins.words, whole._bins.words)
        np.testing.assert_array_equal(batched._bins.columns, whole._bins.columns)


def test_few_passes(monkeypatch):
    """One pass to look, three to count, one to bin; with the bins of another matrix, two."""
    for module in (adapt_module, iterator_module):
        monkeypatch.setattr(module, "CHUNK_VALUES", 1000)
    monkeypatch.setattr(cuts_module, "_SORT_ROWS", 10)
    source = Batches(parts(table(3000, 30), 1000))
    QuantileDMatrix(source)
    assert source.n_resets == 5
    source.n_resets = 0
    QuantileDMatrix(source, ref=QuantileDMatrix(table(3000, 30)))
    assert source.n_resets == 2


@pytest.mark.parametrize("by_sorting", [False, True])
def test_few_passes_even_with_many_features(by_sorting):
    """Tiles of features grow with the page to come, where each of them is a pass."""
    n_rows = 50_000 if by_sorting else 1_000_000
    n_tiles = {
        is_streamed: len(
            cuts_module._tiles(
                500,
                cuts_module._Shares(by_sorting, False, 500 * n_rows if is_streamed else 0),
                256,
                np.full(500 if by_sorting else 0, n_rows),
            )
        )
        for is_streamed in (False, True)
    }
    assert n_tiles[False] > 10
    assert n_tiles[True] <= 3


@pytest.mark.parametrize("by_sorting", [False, True])
def test_tables_for_cuts_are_bounded(by_sorting):
    """However large the data is: pages that go to disk may be larger than memory."""
    n_features, n_rows = 10_000, 60_000 if by_sorting else 10**9
    lengths = np.full(n_features if by_sorting else 0, n_rows)
    tiles = cuts_module._tiles(n_features, cuts_module._Shares(by_sorting, False, n_features * n_rows), 256, lengths)
    widest = max(stop - first for first, stop in tiles)
    cells = n_rows if by_sorting else cuts_module.cells_of_feature(256)
    assert 0.9 * cuts_module.STREAMED_CELLS < widest * cells < 1.1 * cuts_module.STREAMED_CELLS


def test_bins_of_a_quantile_matrix_stay_in_memory(tmp_path):
    source = Batches(parts(table(), 100))
    source.cache_prefix = str(tmp_path / "cache")
    assert len(QuantileDMatrix(source).pages(Context(), 256)) == 1
    assert not QuantileDMatrix(source)._cache


class Watched(DataIter):
    """Makes a new array for every batch and counts those that are alive when the next one is made."""

    def __init__(self, X, n_batches, convert):
        super().__init__()
        self.rows = np.array_split(np.arange(len(X)), n_batches)
        self.X, self.convert, self.at = X, convert, 0
        self.made, self.most_alive = [], 0

    def reset(self):
        self.at = 0

    def next(self, input_data):
        self.most_alive = max(self.most_alive, self.n_alive())
        if self.at == len(self.rows):
            return False
        batch = self.convert(self.X[self.rows[self.at]].copy())
        self.made.append(weakref.ref(batch.data if scipy.sparse.issparse(batch) else batch))
        self.at += 1
        input_data(data=batch, label=np.zeros(len(self.rows[self.at - 1])))
        return True

    def n_alive(self):
        return sum(batch() is not None for batch in self.made)


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
@pytest.mark.parametrize(
    "convert",
    [np.asarray, np.asfortranarray, np.float64, np.ma.masked_invalid, pd.DataFrame, scipy.sparse.csr_matrix],
)
def test_one_batch_is_alive_at_a_time(kind, convert, monkeypatch):
    for module in (adapt_module, iterator_module):
        monkeypatch.setattr(module, "CHUNK_VALUES", 100)
    source = Watched(table(1000), 10, convert)
    data = kind(source)
    data.binned(Context(), 256)
    gc.collect()
    assert len(source.made) >= 30
    assert source.most_alive == 0, "a batch was still held when the next one was asked for"
    assert source.n_alive() == 0


def test_a_buffer_may_be_used_for_every_batch():
    X = table(200)

    class Refilled(Batches):
        buffer = np.empty((50, 5), np.float32)

        def next(self, input_data):
            if self.at == 4:
                return False
            self.buffer[:] = X[50 * self.at : 50 * self.at + 50]
            self.at += 1
            input_data(data=self.buffer)
            return True

    np.testing.assert_array_equal(DMatrix(Refilled([])).get_data().toarray(), DMatrix(X).get_data().toarray())


def test_batches_of_different_kinds():
    X = np.abs(table()) + 1
    frame = pd.DataFrame(X[50:120], columns=list("abcde"))
    sparse = scipy.sparse.csr_matrix(np.nan_to_num(X[120:200]))
    batches = [X[:50], frame, sparse, np.asfortranarray(X[200:250]).astype(np.float64), X[250:].tolist()]
    raw, _ = read([{"data": data} for data in batches])
    np.testing.assert_array_equal(dense(raw), X)
    assert raw.feature_names == list("abcde")
    made = QuantileDMatrix(Batches([{"data": data} for data in batches]))
    assert made.feature_names == list("abcde")
    np.testing.assert_array_equal(made._bins.columns, QuantileDMatrix(X)._bins.columns)


def test_missing_value():
    X = np.arange(12.0).reshape(6, 2)
    data = QuantileDMatrix(Batches(parts(X, 3)), missing=3)
    assert data.num_nonmissing() == 11


def test_fields_are_joined():
    X = table(12)
    fields = {
        "label": np.arange(24.0).reshape(12, 2), "base_margin": np.arange(36.0).reshape(12, 3),
        "weight": np.arange(12.0), "label_lower_bound": np.arange(12.0), "label_upper_bound": np.arange(12.0) + 1,
    }  # fmt: skip
    batches = parts(X, 5, 6, **fields)
    batches[0]["feature_weights"] = [1, 2, 3, 4, 5]
    for batch in batches:
        batch |= {"feature_names": list("vwxyz"), "feature_types": ["int", "float", "q", "i", "float"]}
    for kind in (DMatrix, QuantileDMatrix):
        data, whole = kind(Batches(batches)), kind(X, **fields, feature_weights=[1, 2, 3, 4, 5])
        for name in (*fields, "feature_weights"):
            np.testing.assert_array_equal(data.get_float_info(name), whole.get_float_info(name))
        assert data.feature_names == list("vwxyz")
        assert data.feature_types == ["int", "float", "q", "i", "float"]


def test_groups_are_joined():
    X = table(12)
    qid = np.array([0, 0, 0, 1, 1, 1, 1, 4, 4, 4, 4, 5])
    data = QuantileDMatrix(Batches(parts(X, 5, qid=qid)))
    assert data.get_group().tolist() == [3, 4, 4, 1], "a group may go on in the next batch"
    batches = [{"data": X[:5], "group": [2, 3], "weight": [1, 2]}, {"data": X[5:], "group": [7], "weight": [3]}]
    data = QuantileDMatrix(Batches(batches))
    assert data.get_group().tolist() == [2, 3, 7]
    assert data.get_weight().tolist() == [1, 2, 3]
    with pytest.raises(XGBoostError, match="sorted"):
        QuantileDMatrix(Batches(parts(X, 5, qid=qid[::-1])))


def test_types_that_hold_for_all_batches():
    first = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": [1, 2]})
    second = pd.DataFrame({"a": [1.5, np.nan], "b": [1, 0], "c": [3, 4]})
    assert DMatrix(Batches([{"data": first}, {"data": second}])).feature_types == ["float", "int", "int"]
    with pytest.raises(XGBoostError, match="Feature 1 is categorical in some batches"):
        DMatrix(Batches([
            {"data": np.ones((2, 2)), "feature_types": ["q", "c"]},
            {"data": np.ones((2, 2)), "feature_types": ["q", "q"]},
        ]))  # fmt: skip


def test_categories_of_all_batches():
    def frame(values):
        return pd.DataFrame({"x": np.arange(len(values)), "k": pd.Categorical(values)})

    batches = [frame(["b", "a", None]), frame(["c", "a"]), frame(["b", "b"])]
    raw, _ = read([{"data": data} for data in batches])
    assert raw.categories.values[1].tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(dense(raw)[:, 1], [1, 0, np.nan, 2, 0, 1, 1])
    for kind in (DMatrix, QuantileDMatrix):
        data = kind(Batches([{"data": data} for data in batches]), enable_categorical=True)
        assert data.feature_types == ["int", "c"]
        with pytest.raises(XGBoostError, match="enable_categorical"):
            kind(Batches([{"data": data} for data in batches]))


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_categories_that_are_given(kind):
    """Codes are those of the given categories, and the matrix has all of them, also where it uses the first only."""
    whole = DMatrix(pd.DataFrame({"x": pd.Categorical(["b", "a", "c"], ["b", "a", "c"])}), enable_categorical=True)
    for used in (["b", "a"], ["c", "b"]):
        values = pd.Categorical([used[0], used[1]], used)
        batches = Batches([{"data": pd.DataFrame({"x": values})}])
        found = kind(batches, feature_types=whole.get_categories(), enable_categorical=True)
        assert found.categories.same_as(whole.categories.stored())
        codes = [whole.categories.codes_of(0)[value] for value in used]
        assert found.get_data().toarray()[:, 0].tolist() == codes


def test_feature_weights_of_no_rows():
    batch = {"data": np.empty((0, 3)), "feature_weights": [1, 2, 3]}
    assert DMatrix(Batches([batch])).get_float_info("feature_weights").tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
class TestMistakes:
    def test_widths(self, kind):
        with pytest.raises(XGBoostError, match=r"Inconsistent number of columns: batch 1 .* has 3, .* have 5"):
            kind(Batches([{"data": table()}, {"data": table()[:, :3]}]))

    def test_names(self, kind):
        names = [{"data": np.ones((2, 2)), "feature_names": names} for names in (["a", "b"], ["a", "c"])]
        with pytest.raises(XGBoostError, match="different feature names"):
            kind(Batches(names))

    def test_no_batch(self, kind):
        with pytest.raises(XGBoostError, match="at least 1 batch"):
            kind(Batches([]))

    def test_fields_of_some_batches(self, kind):
        with pytest.raises(XGBoostError, match=r"every batch .* or none: label"):
            kind(Batches([{"data": table(3), "label": [1, 2, 3]}, {"data": table(3)}]))
        with pytest.raises(XGBoostError, match="different numbers of columns in `label`"):
            kind(Batches([{"data": table(3), "label": [1, 2, 3]}, {"data": table(3), "label": np.ones((3, 2))}]))

    def test_lengths(self, kind):
        with pytest.raises(XGBoostError, match="Invalid size for `label`"):
            kind(Batches([{"data": table(3), "label": [1, 2]}]))

    def test_fields_beside_the_iterator(self, kind):
        for name, value in (("label", [1]), ("weight", [1]), ("feature_names", ["a"]), ("qid", [1])):
            with pytest.raises(ValueError, match=f"If data iterator is used as input, data like label .*{name}"):
                kind(Batches([{"data": table(1)}]), **{name: value})

    def test_unknown_field(self, kind):
        with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
            kind(Batches([{"data": table(3), "colour": 1}]))

    def test_no_data(self, kind):
        with pytest.raises(TypeError, match="Not supported type for data"):
            kind(Batches([{"label": [1]}]))

    def test_by_position(self, kind):
        class Positional(Batches):
            def next(self, input_data):
                return input_data(table(3), [1, 2, 3])

        with pytest.raises(TypeError, match="Keyword argument is required"):
            kind(Positional([]))

    def test_nothing_handed_over(self, kind):
        class Silent(Batches):
            def next(self, input_data):
                return True

        with pytest.raises(XGBoostError, match="without calling `input_data`"):
            kind(Silent([]))

    def test_without_init(self, kind):
        class Bare(Batches):
            def __init__(self):
                self.batches = []

        with pytest.raises(XGBoostError, match="__init__ is not called"):
            kind(Bare())

    def test_errors_of_the_user_come_through(self, kind):
        error = KeyError("lost")

        class Failing(Batches):
            fails_at = 1

            def next(self, input_data):
                if self.at == self.fails_at:
                    raise error
                return super().next(input_data)

        source = Failing(parts(table(), 100, 200))
        with pytest.raises(KeyError) as caught:
            kind(source)
        assert caught.value is error
        source.fails_at = -1
        assert kind(source).num_row() == 300, "the iterator works on"

    def test_a_generator_that_has_ended(self, kind):
        class Ending(Batches):
            def next(self, input_data):
                input_data(**next(iter(self.batches[self.at :])))
                self.at += 1
                return True

        with pytest.raises(XGBoostError, match="raised StopIteration: it shall return False"):
            kind(Ending(parts(table(), 100)))

    def test_infinity(self, kind):
        X = table()
        X[250, 3] = np.inf
        with pytest.raises(XGBoostError, match=r"contains `inf`.*feature 3"):
            kind(Batches(parts(X, 100)))


def test_a_source_that_changes(monkeypatch):
    for module in (adapt_module, iterator_module):
        monkeypatch.setattr(module, "CHUNK_VALUES", 100)
    source = Batches(parts(table(), 100, 200))
    data = DMatrix(source)
    other_order = parts(table(), 100, 200)[::-1]
    other_values = parts(table(seed=1), 100, 200)
    for changed in (
        parts(table(), 100), parts(table(), 100, 199), parts(table()[:, :4], 100, 200), other_order, other_values,
    ):  # fmt: skip
        source.batches = changed
        with pytest.raises(XGBoostError, match="other batches than on its first pass"):
            data.get_data()
    source.batches = parts(table(), 100, 200)
    chunks = data.chunks()
    next(chunks)
    data.get_data()
    with pytest.raises(XGBoostError, match="started again before its last batch"):
        list(chunks)


def test_empty_batches():
    X, empty = table(20), np.zeros((0, 5))
    batches = [{"data": empty}, {"data": X, "label": np.arange(20)}, {"data": empty, "label": []}]
    data = QuantileDMatrix(Batches(batches))
    assert (data.num_row(), len(data.get_label())) == (20, 20)
    assert QuantileDMatrix(Batches([{"data": empty}])).num_row() == 0


def test_slices_and_values():
    X = table()
    data, whole = DMatrix(Batches(parts(X, 100, label=np.arange(300.0)))), DMatrix(X, np.arange(300.0))
    rows = [250, 3, 3]
    assert (data.slice(rows).get_data() != whole.slice(rows).get_data()).nnz == 0
    assert data.slice(rows).get_label().tolist() == [250, 3, 3]
    assert data.num_nonmissing() == whole.num_nonmissing()
