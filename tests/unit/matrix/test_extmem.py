"""A matrix on disk takes what any other takes: frames with categories, sparse batches, batches without rows."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import arboost
from arboost.matrix.dmatrix import DMatrix, QuantileDMatrix
from arboost.matrix.extmem import ExtMemQuantileDMatrix
from arboost.matrix.iterator import DataIter
from arboost.runtime.errors import XGBoostError

N_ROWS = 400
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N_ROWS, 4)).astype(np.float32)
Y = X[:, 0] + np.sin(3 * X[:, 1])
PARAMS = {"max_depth": 4, "max_cat_to_onehot": 2}


class Batches(DataIter):
    """Batches of arguments; a page has 64 rows."""

    def __init__(self, batches, **options):
        super().__init__(**{"min_cache_page_bytes": 1} | options)
        self.batches, self.at = batches, 0

    def reset(self):
        self.at = 0

    def next(self, input_data):
        if self.at == len(self.batches):
            return False
        input_data(**self.batches[self.at])
        self.at += 1
        return True


def cut(table, *ends, **fields):
    """Batches of a table that end at these rows."""
    spans = [slice(a, b) for a, b in zip([0, *ends], [*ends, N_ROWS])]
    take = (lambda rows: table.iloc[rows]) if isinstance(table, pd.DataFrame) else (lambda rows: table[rows])
    return [{"data": take(rows), **{name: field[rows] for name, field in fields.items()}} for rows in spans]


def trained(data):
    return bytes(arboost.train(PARAMS, data, 5).save_raw())


def frame(order=("x", "kind", "y"), categories="abcd"):
    columns = {"x": X[:, 0], "y": X[:, 1], "kind": np.array(list("abcd"))[np.arange(N_ROWS) * 7 % 4]}
    made = pd.DataFrame(columns)[list(order)]
    return made.assign(kind=pd.Categorical(made["kind"], list(categories)))


def test_frames_with_categories_of_their_own():
    """Every batch names only the categories that it has."""
    batches = cut(frame(), 1, 3, 150, label=Y)
    for batch in batches:
        batch["data"] = batch["data"].assign(kind=batch["data"]["kind"].cat.remove_unused_categories())
    disk = ExtMemQuantileDMatrix(Batches(batches), enable_categorical=True)
    memory = QuantileDMatrix(Batches(batches), enable_categorical=True)
    assert disk.feature_names == ["x", "kind", "y"]
    assert disk.feature_types == memory.feature_types
    assert disk.get_categories().values[1].tolist() == memory.get_categories().values[1].tolist()
    assert trained(disk) == trained(memory)
    model = arboost.train(PARAMS, disk, 5)
    other = DMatrix(frame(order=("y", "kind", "x"), categories="dcba"), Y, enable_categorical=True)
    np.testing.assert_array_equal(model.predict(other), model.predict(disk))
    with pytest.raises(XGBoostError, match="enable_categorical"):
        ExtMemQuantileDMatrix(Batches(batches))


def test_an_evaluation_set_takes_the_codes_of_its_reference():
    train = ExtMemQuantileDMatrix(Batches(cut(frame(), 100, label=Y)), enable_categorical=True)
    others = Batches(cut(frame(categories="dcba"), 33, label=Y))
    evaluated = ExtMemQuantileDMatrix(others, enable_categorical=True, ref=train)
    assert evaluated.get_categories().values[1].tolist() == list("abcd")
    model = arboost.train(PARAMS, train, 5)
    np.testing.assert_array_equal(model.predict(evaluated), model.predict(train))
    turned = Batches(cut(frame(order=("y", "kind", "x")), 33, label=Y))
    with pytest.raises(ValueError, match="their order differs"):
        model.predict(ExtMemQuantileDMatrix(turned, enable_categorical=True, ref=train))


def test_sparse_batches():
    sparse = scipy.sparse.random(N_ROWS, 12, 0.2, "csr", np.float32, random_state=1)
    disk = ExtMemQuantileDMatrix(Batches(cut(sparse, 10, 300, label=Y)))
    assert trained(disk) == trained(DMatrix(sparse, Y))
    assert disk.num_nonmissing() == sparse.nnz
    assert (disk.get_data() != QuantileDMatrix(sparse, Y).get_data()).nnz == 0


def test_batches_without_rows_and_a_value_that_means_missing():
    table = np.where(X < -1, np.float32(-999), X)
    batches = cut(table, 0, 64, 64, 200, label=Y, base_margin=np.linspace(0, 1, N_ROWS))
    disk = ExtMemQuantileDMatrix(Batches(batches), missing=-999)
    memory = DMatrix(table, Y, missing=-999, base_margin=np.linspace(0, 1, N_ROWS))
    assert trained(disk) == trained(memory)


def test_no_rows_at_all():
    disk = ExtMemQuantileDMatrix(Batches([{"data": X[:0], "label": Y[:0]}]))
    with pytest.warns(UserWarning, match="Empty dataset"):
        model = arboost.train(PARAMS, disk, 2)
    assert model.predict(disk).shape == (0,)


def test_one_row_and_one_feature():
    for table in (X[:1], X[:, :1]):
        data = Batches([{"data": table, "label": Y[: len(table)]}])
        assert trained(ExtMemQuantileDMatrix(data)) == trained(DMatrix(table, Y[: len(table)]))


def test_what_is_accepted_and_what_is_not(tmp_path):
    source = Batches(cut(X, 100, label=Y), cache_prefix=[tmp_path, str(tmp_path / "b")], on_host=False)
    made = ExtMemQuantileDMatrix(source, nthread=1, max_bin=16, max_quantile_batches=2, cache_host_ratio=0.5)
    assert (made.max_bin, made.ref) == (16, None)
    for n_bytes, says in ((-1, "must not be negative"), (1.5, "expecting an integer")):
        with pytest.raises(XGBoostError, match=f"min_cache_page_bytes.*{says}"):
            ExtMemQuantileDMatrix(Batches(cut(X, 100), min_cache_page_bytes=n_bytes))
    with pytest.raises(TypeError, match="`ref` must be a DMatrix"):
        ExtMemQuantileDMatrix(source, ref=X)
    with pytest.raises(XGBoostError, match="at least 1 batch"):
        ExtMemQuantileDMatrix(Batches([]))
