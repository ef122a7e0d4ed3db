"""DMatrix and QuantileDMatrix: XGBoost's signatures and answers."""

import gc
import inspect
import weakref

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost

import arboost
from arboost.matrix.dmatrix import DataSplitMode, DMatrix, QuantileDMatrix
from arboost.runtime.context import Context
from arboost.runtime.errors import XGBoostError

X = np.arange(12.0).reshape(6, 2)
X[1, 1] = np.nan
FIELDS = {
    "label": np.arange(6),
    "weight": np.arange(6) + 1,
    "base_margin": np.arange(12).reshape(6, 2),
    "feature_names": ["a", "b"],
    "feature_types": ["int", "q"],
    "feature_weights": [1, 2],
    "label_lower_bound": np.arange(6),
}


def described(data):
    """Everything that can be asked of a DMatrix of either library."""
    return {
        "shape": (data.num_row(), data.num_col(), data.num_nonmissing()),
        "label": data.get_label(),
        "weight": data.get_weight(),
        "base_margin": data.get_base_margin(),
        "group": data.get_group(),
        "names": data.feature_names,
        "types": data.feature_types,
        "feature_weights": data.get_float_info("feature_weights"),
        "lower": data.get_float_info("label_lower_bound"),
        "group_ptr": data.get_uint_info("group_ptr"),
        "data": data.get_data().toarray(),
    }


def assert_same(own, peer):
    for name, value in described(peer).items():
        mine = described(own)[name]
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(mine, value, err_msg=name)
            assert mine.dtype == value.dtype, name
        else:
            assert mine == value, name


@pytest.mark.parametrize("kind", ["DMatrix", "QuantileDMatrix"])
def test_signatures_are_xgboosts(kind):
    own, peer = {"DMatrix": DMatrix, "QuantileDMatrix": QuantileDMatrix}[kind], getattr(xgboost, kind)

    def shape(function):
        parameters = inspect.signature(function).parameters.values()
        ours = ("memory_budget", "cache_prefix")  # what XGBoost does not have
        return [(p.name, p.kind, p.default) for p in parameters if p.name not in ours]

    assert shape(own.__init__)[:-1] == shape(peer.__init__)[:-1]
    assert shape(own.__init__)[-1][:2] == shape(peer.__init__)[-1][:2]
    assert shape(own.__init__)[-1][2] == shape(peer.__init__)[-1][2].value
    for name, member in inspect.getmembers(peer):
        if not name.startswith("_"):
            if callable(member):
                assert shape(getattr(own, name)) == shape(member), name
            else:
                assert isinstance(getattr(own, name), type(member)), name


@pytest.mark.parametrize("make", [np.asarray, np.float32, pd.DataFrame, scipy.sparse.csr_matrix, np.ndarray.tolist])
def test_everything_set_is_returned(make):
    assert_same(DMatrix(make(X), **FIELDS), xgboost.DMatrix(make(X), **FIELDS))
    assert_same(DMatrix(make(X)), xgboost.DMatrix(make(X)))
    grouped = {"label": np.arange(6), "group": [2, 4], "weight": [1, 2]}
    assert_same(DMatrix(make(X), **grouped), xgboost.DMatrix(make(X), **grouped))
    assert_same(DMatrix(make(X), qid=[0, 0, 3, 3, 3, 4]), xgboost.DMatrix(make(X), qid=[0, 0, 3, 3, 3, 4]))


def test_setters():
    pair = DMatrix(X), xgboost.DMatrix(X)
    for data in pair:
        data.set_label([1, 2, 3, 4, 5, 6])
        data.set_weight(np.ones(6))
        data.set_base_margin(np.zeros(6))
        data.set_group([3, 3])
        data.set_float_info("label_lower_bound", np.ones(6))
        data.set_float_info_npy2d("base_margin", np.ones((6, 2)))
        data.set_uint_info("label", np.array([1, 2, 3, 4, 5, 7]))
        data.set_info(feature_names=["p", "q"], feature_weights=[1, 1])
        data.feature_types = ["int", "float"]
        data.set_label(None)
        data.set_weight(None)
    assert_same(*pair)
    assert pair[0].data_split_mode() == pair[1].data_split_mode().value


@pytest.mark.parametrize("rindex", [[0, 2, 2], [], np.array([5, 1]), range(3)], ids=str)
def test_slice(rindex):
    own, peer = DMatrix(X, **FIELDS).slice(rindex), xgboost.DMatrix(X, **FIELDS).slice(rindex)
    if not len(rindex):  # XGBoost keeps the second dimension of nothing
        assert own.num_row() == 0
        assert own.feature_names == ["a", "b"]
    else:
        assert_same(own, peer)


def test_slice_with_missing_value_names_and_mask():
    frame = pd.DataFrame(X, columns=["p", "q"])
    part = DMatrix(frame, missing=4).slice(np.arange(6) % 2 == 0)
    np.testing.assert_array_equal(part.get_data().toarray(), [[0, 1], [0, 5], [8, 9]])
    assert part.num_nonmissing() == 5
    assert part.feature_names == ["p", "q"]
    assert part.feature_types == ["float", "float"]


@pytest.mark.parametrize("rindex", [[6], [-1], [[0, 1]], [True, False]])
def test_bad_slices(rindex):
    with pytest.raises(XGBoostError, match="rindex"):
        DMatrix(X).slice(rindex)


def test_slice_of_groups():
    grouped = DMatrix(X, group=[3, 3])
    with pytest.raises(XGBoostError, match="slice does not support group structure"):
        grouped.slice([0, 1])
    assert grouped.slice([0, 1], allow_groups=True).get_group().tolist() == []


def test_data_is_kept_by_reference():
    array = np.ones((1000, 3), np.float32)
    data = DMatrix(array)
    [(_, values)] = data.chunks()
    assert np.shares_memory(values, array)


@pytest.mark.parametrize("max_bin", [4, 16, 256])
def test_quantile_cut(max_bin):
    data = DMatrix(X)
    with pytest.raises(XGBoostError, match="quantile cut hasn't been generated yet"):
        data.get_quantile_cut()
    data.binned(Context(), max_bin)
    ptr, values = data.get_quantile_cut()
    assert (ptr.dtype, values.dtype) == (np.uint64, np.float32)
    if max_bin > 6:
        peer = xgboost.QuantileDMatrix(X, label=np.zeros(6), max_bin=max_bin).get_quantile_cut()
        np.testing.assert_array_equal(ptr, peer[0])
        np.testing.assert_array_equal(values, peer[1])


def test_bins_are_made_once_and_again_for_other_settings():
    data, ctx = DMatrix(np.random.default_rng(0).normal(size=(100, 2))), Context()
    page = data.binned(ctx, 16)
    assert data.binned(ctx, 16) is page
    assert data.binned(ctx, 8).n_bins.max() == 8
    unweighted = data.get_quantile_cut()[1]
    data.set_weight(np.arange(100))
    data.binned(ctx, 8)
    assert not np.array_equal(data.get_quantile_cut()[1], unweighted)
    data.set_float_info("weight", np.ones(100))
    data.binned(ctx, 8)
    np.testing.assert_array_equal(data.get_quantile_cut()[1], unweighted)


def test_group_weights_count_for_every_row():
    values = np.random.default_rng(0).normal(size=(90, 2))
    grouped = DMatrix(values, group=[30, 60], weight=[1, 3])
    plain = DMatrix(values, weight=np.repeat([1, 3], [30, 60]))
    assert (grouped.binned(Context(), 8).columns == plain.binned(Context(), 8).columns).all()


def test_quantile_matrix_lets_the_data_go():
    array = np.random.default_rng(0).normal(size=(50, 2))
    alive = weakref.ref(array)
    data = QuantileDMatrix(array, np.ones(50), max_bin=8)
    del array
    gc.collect()
    assert alive() is None
    assert data.raw is None
    assert data.binned(Context(), 8) is data.binned(Context(), 8)


def test_quantile_matrix_answers_like_xgboosts():
    fields = FIELDS | {"max_bin": 16}
    assert_same(QuantileDMatrix(X, **fields), xgboost.QuantileDMatrix(X, **fields))
    own, peer = QuantileDMatrix(X, max_bin=16), xgboost.QuantileDMatrix(X, max_bin=16)
    for mine, theirs in zip(own.get_quantile_cut(), peer.get_quantile_cut()):
        np.testing.assert_array_equal(mine, theirs)


def test_another_max_bin_is_inconsistent():
    data = QuantileDMatrix(X, max_bin=16)
    with pytest.raises(XGBoostError, match=r"Inconsistent `max_bin` \(256 vs. 16\)"):
        data.binned(Context(), 256)
    with pytest.raises(XGBoostError, match="Inconsistent `max_bin`"):
        QuantileDMatrix(X, ref=data)


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_ref_gives_its_cuts(kind):
    rng = np.random.default_rng(0)
    train = kind(rng.normal(size=(500, 2)).astype(np.float32))
    values = (rng.normal(size=(100, 2)) * 2).astype(np.float32)
    values[3, 0] = np.nan
    test = QuantileDMatrix(values, ref=train)
    assert test.ref() is train
    assert QuantileDMatrix(values).ref is None
    for mine, theirs in zip(test.get_quantile_cut(), train.get_quantile_cut()):
        np.testing.assert_array_equal(mine, theirs)
    values_again = np.concatenate([part.copy() for _, part in test.chunks(30)])
    assert np.isnan(values_again[3, 0])
    assert np.isnan(values_again).sum() == 1


def test_ref_must_fit():
    train = QuantileDMatrix(X)
    with pytest.raises(XGBoostError, match="number of features"):
        QuantileDMatrix(X[:, :1], ref=train)
    with pytest.raises(TypeError, match="`ref` must be a DMatrix"):
        QuantileDMatrix(X, ref=3)


@pytest.mark.parametrize("max_bin", [1, 0, -1, 70000])
def test_bad_max_bin(max_bin):
    with pytest.raises(XGBoostError, match="`max_bin` must be equal to or greater than 2"):
        QuantileDMatrix(X, max_bin=max_bin)
    with pytest.raises(XGBoostError, match="Invalid type for: `max_bin`"):
        QuantileDMatrix(X, max_bin=3.0)


def test_weights_without_groups_must_be_one_per_row():
    with pytest.raises(XGBoostError, match="Size of weights"):
        QuantileDMatrix(X, weight=[1, 2])
    with pytest.raises(XGBoostError, match="Size of weights"):
        DMatrix(X, weight=[1, 2]).binned(Context(), 16)


def test_empty():
    assert DMatrix(np.zeros((0, 3)), []).num_col() == 3
    assert DMatrix(np.zeros((3, 0))).num_row() == 3
    assert DMatrix(np.zeros((0, 3))).get_data().shape == (0, 3)
    assert QuantileDMatrix(np.zeros((0, 3))).num_row() == 0
    with pytest.raises(XGBoostError, match="at least 1 column"):
        QuantileDMatrix(np.zeros((3, 0)))


@pytest.mark.parametrize("kind", [DMatrix, QuantileDMatrix])
def test_bad_arguments(kind):
    with pytest.raises(XGBoostError, match="`inf`"):
        kind(np.full((2, 2), np.inf))
    with pytest.raises(XGBoostError, match="`group` or `qid`"):
        kind(X, group=[6], qid=np.zeros(6))
    with pytest.raises(XGBoostError, match="DataSplitMode"):
        kind(X, data_split_mode=DataSplitMode.COL)
    with pytest.raises(XGBoostError, match="Invalid size for `label`"):
        kind(X, [1])
    with pytest.raises(XGBoostError, match="Invalid columns"):
        kind(pd.DataFrame({"a": pd.Categorical(["x", "y"])}))
    with pytest.raises(TypeError, match="Not supported type for data"):
        kind(None)
    with pytest.raises(ValueError):
        kind(X, missing="a")


def test_arguments_that_change_nothing():
    data = DMatrix(X, silent=True, nthread=-1, enable_categorical=True, data_split_mode=DataSplitMode.ROW)
    assert data.num_row() == 6
    assert QuantileDMatrix(X, max_quantile_batches=3, nthread=1).num_row() == 6


@pytest.mark.parametrize("n", [255, 256, 257])
def test_no_category_is_taken_for_a_missing_value(n):
    """Margins of training, by codes, are those of prediction, by values."""
    codes = np.arange(4 * n) % n
    data = DMatrix(codes[:, None].astype(np.float32), codes == n - 1, feature_types=["c"], enable_categorical=True)
    found = {}
    params = {"max_cat_to_onehot": 1, "eta": 1.0, "lambda": 0.0, "base_score": 0.0}
    evals = [(data, "train"), (data.slice(range(4 * n)), "other")]
    arboost.train(params, data, 1, evals=evals, evals_result=found, verbose_eval=False)
    assert found["train"] == found["other"] == {"rmse": [0.0]}
