"""What a DMatrix answers is what XGBoost's answers: values, dtypes, shapes and kinds of errors, for every input.

Not compared, on purpose: masked arrays and structured arrays (XGBoost ignores the mask and refuses the other), text
files with a header or a bad line (XGBoost reads numbers out of them, or crashes), and the values of a DMatrix of
batches, which XGBoost does not return.
"""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost

import arboost

X = np.random.default_rng(0).integers(0, 6, (12, 3)).astype(np.float32)
X[2, 1] = np.nan
FIELDS = {
    "label": np.arange(12),
    "weight": np.arange(12) + 1.5,
    "base_margin": np.arange(24).reshape(12, 2),
    "label_lower_bound": np.arange(12),
    "label_upper_bound": np.arange(12) + 2,
    "feature_weights": [1, 2, 3],
    "feature_names": ["a", "b", "c"],
    "feature_types": ["int", "float", "q"],
}
ASKED = ["label", "weight", "base_margin", "label_lower_bound", "label_upper_bound", "feature_weights", "group_ptr"]


def answers(data):
    """Everything that can be asked, by name."""
    found = {
        "shape": (data.num_row(), data.num_col(), data.num_nonmissing()),
        "names": (data.feature_names, data.feature_types),
        "label": data.get_label(),
        "weight": data.get_weight(),
        "base_margin": data.get_base_margin(),
        "group": data.get_group(),
        "split": int(data.data_split_mode()),
    }
    for name in ASKED:
        found[f"float {name}"], found[f"uint {name}"] = data.get_float_info(name), data.get_uint_info(name)
    return found


def assert_same(own, peer, values=True):
    mine, theirs = answers(own), answers(peer)
    if values:
        for name in ("data", "indices", "indptr"):
            mine[name], theirs[name] = getattr(own.get_data(), name), getattr(peer.get_data(), name)
        assert type(own.get_data()) is type(peer.get_data())
    for name, value in theirs.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(mine[name], value, err_msg=name)
            if name not in ("indices", "indptr"):  # SciPy chooses the width of indices
                assert (mine[name].dtype, mine[name].shape) == (value.dtype, value.shape), name
        else:
            assert mine[name] == value, name


KINDS = {
    "float32": np.asarray,
    "float64": np.float64,
    "float16": np.float16,
    "columns first": np.asfortranarray,
    "list": np.ndarray.tolist,
    "tuple": lambda a: tuple(map(tuple, a.tolist())),
    "objects": lambda a: np.where(np.isnan(a), None, a.astype(object)),
    "int": lambda a: np.nan_to_num(a).astype(np.int32),
    "bool": lambda a: np.nan_to_num(a) > 2,
    "csr": scipy.sparse.csr_matrix,
    "csc": scipy.sparse.csc_matrix,
    "coo": scipy.sparse.coo_matrix,
    "csr_array": scipy.sparse.csr_array,
    "frame": pd.DataFrame,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [None, 3.0])
def test_arrays(kind, missing):
    data = KINDS[kind](X)
    assert_same(arboost.DMatrix(data, missing=missing), xgboost.DMatrix(data, missing=missing))
    assert_same(arboost.DMatrix(data, **FIELDS), xgboost.DMatrix(data, **FIELDS))


@pytest.mark.parametrize("field", [*FIELDS, "group", "qid"])
def test_every_keyword_of_set_info(field):
    value = {"group": [5, 7], "qid": np.repeat([1, 4], 6)}.get(field, FIELDS.get(field))
    made = []
    for library in (arboost, xgboost):
        data = library.DMatrix(X, label=np.zeros(12))
        data.set_info(**{field: value})
        made.append(data)
    assert_same(*made)
    for convert in (list, pd.Series, np.array):
        if field not in ("base_margin", "feature_names", "feature_types"):
            own = arboost.DMatrix(X)
            own.set_info(**{field: convert(value)})
            peer = xgboost.DMatrix(X)
            peer.set_info(**{field: convert(value)})
            assert_same(own, peer)


@pytest.mark.parametrize("shape", [(12,), (12, 1), (12, 2)])
@pytest.mark.parametrize("field", ["label", "base_margin"])
def test_shapes_of_fields(field, shape):
    value = np.arange(np.prod(shape)).reshape(shape)
    assert_same(*(library.DMatrix(X, **{field: value}) for library in (arboost, xgboost)))


@pytest.mark.parametrize("rindex", [[0, 5, 5], np.array([11, 2]), range(4)], ids=str)
@pytest.mark.parametrize("kind", ["float32", "csr", "frame"])
def test_slices(rindex, kind):
    data = KINDS[kind](X)
    assert_same(*(library.DMatrix(data, **FIELDS).slice(rindex) for library in (arboost, xgboost)))


def test_quantile_cuts():
    own, peer = (library.QuantileDMatrix(X, np.zeros(12), max_bin=16) for library in (arboost, xgboost))
    for mine, theirs in zip(own.get_quantile_cut(), peer.get_quantile_cut(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    for library in (arboost, xgboost):
        with pytest.raises(ValueError, match="quantile cut hasn't been generated yet"):
            library.DMatrix(X).get_quantile_cut()


@pytest.mark.parametrize("kind", ["float32", "csr", "frame", "list"])
def test_quantile_matrices(kind):
    data = KINDS[kind](X)
    assert_same(*(library.QuantileDMatrix(data, **FIELDS, max_bin=16) for library in (arboost, xgboost)))


# ---- batches ----


def batches_for(library, batches):
    class Batches(library.core.DataIter):
        def __init__(self):
            super().__init__()
            self.at = 0

        def reset(self):
            self.at = 0

        def next(self, input_data):
            if self.at == len(batches):
                return False
            input_data(**batches[self.at])
            self.at += 1
            return True

    return Batches()


def cut(rows, **fields):
    return {"data": X[rows], **{name: np.asarray(values)[rows] for name, values in fields.items()}}


BY_ROW = {name: FIELDS[name] for name in ("label", "weight", "base_margin", "label_lower_bound", "label_upper_bound")}
MANY = {
    "one": [cut(np.s_[:], **BY_ROW)],
    "three": [cut(np.s_[a:b], **BY_ROW) for a, b in ((0, 5), (5, 6), (6, 12))],
    "groups": [cut(np.s_[a:b], qid=np.repeat([1, 4, 5], 4)) for a, b in ((0, 4), (4, 12))],
    "names": [
        {**cut(np.s_[a:b]), "feature_names": ["a", "b", "c"], "feature_types": ["int", "q", "float"]}
        for a, b in ((0, 4), (4, 12))
    ],
    "kinds": [
        {"data": X[:5]},
        {"data": pd.DataFrame(X[5:8], columns=["a", "b", "c"])},
        {"data": np.asfortranarray(X[8:])},
    ],
}


@pytest.mark.parametrize("name", MANY)
def test_batches(name):
    own, peer = (
        library.QuantileDMatrix(batches_for(library, MANY[name]), max_bin=16) for library in (arboost, xgboost)
    )
    if name == "kinds":  # XGBoost has the types of the frame as well, though other batches have none
        own.feature_types = peer.feature_types = None
    assert_same(own, peer)
    for mine, theirs in zip(own.get_quantile_cut(), peer.get_quantile_cut(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = xgboost.DMatrix(batches_for(xgboost, MANY[name]))
    own = arboost.DMatrix(batches_for(arboost, MANY[name]))
    if name == "kinds":
        own.feature_types = peer.feature_types = None
    assert_same(own, peer, values=False)


class Failing:
    """The same mistakes in both libraries' iterators."""

    @staticmethod
    def widths():
        return [{"data": X}, {"data": X[:, :2]}]

    @staticmethod
    def nothing():
        return []

    @staticmethod
    def unknown_field():
        return [{"data": X, "colour": 1}]

    @staticmethod
    def unknown_data():
        return [{"data": object()}]


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        ("widths", ValueError, "Inconsistent number of columns"),
        ("nothing", ValueError, "at least 1 batch"),
        ("unknown_field", TypeError, "unexpected keyword argument 'colour'"),
        ("unknown_data", TypeError, "[Nn]ot supported|not supported"),
    ],
)
@pytest.mark.parametrize("library", [arboost, xgboost])
def test_mistakes_in_batches(library, mistake, error, message):
    with pytest.raises(error, match=message):
        library.QuantileDMatrix(batches_for(library, getattr(Failing, mistake)()))


@pytest.mark.parametrize("library", [arboost, xgboost])
def test_labels_beside_batches(library):
    with pytest.raises(ValueError, match="If data iterator is used as input, data like label should be specified"):
        library.QuantileDMatrix(batches_for(library, MANY["one"]), label=np.zeros(12))


def test_signature_of_the_iterator():
    def shape(function):
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    for name in ("__init__", "next", "reset"):
        assert shape(getattr(arboost.core.DataIter, name)) == shape(getattr(xgboost.DataIter, name))
    assert shape(arboost.DMatrix.save_binary) == shape(xgboost.DMatrix.save_binary)


# ---- text ----


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("1 0:1.5 2:3\n0 1:2 # note\n\n1 0:5\n", "format=libsvm"),
        ("1 qid:1 1:1.5 3:3\n0 qid:1 2:2\n1 qid:2 1:5\n", "format=libsvm"),
        ("1 qid:1 1:1.5 3:3\n0 qid:1 2:2\n1 qid:2 1:5\n", "format=libsvm&indexing_mode=1"),
        ("1 1:1.5 3:3\n0 2:2\n1 1:5\n", "format=libsvm&indexing_mode=-1"),
        ("1:0.5 1:1.5 3:3\n0:2 2:2\n1:1 1:5\n", "format=libsvm"),
        ("-1 0:1e-3\n+1 0:-2.5E2\n", "format=libsvm"),
        ("1,2,3\n0,5,\n1,,7\n", "format=csv"),
        ("1,2,3\n0,5,\n1,,7\n", "format=csv&label_column=0"),
        ("1,2,3\n0,5,9\n1,4,7", "format=csv&label_column=2"),
        ("1,2,3\n0,5,\n1,4,7\n", "format=csv&label_column=0&weight_column=1"),
        ("1;2;3\n0;5;6\n", "format=csv&delimiter=;"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*Text file input has been deprecated")
def test_text_files(text, options, tmp_path):
    path = tmp_path / "data.txt"
    path.write_text(text)
    assert_same(*(library.DMatrix(f"{path}?{options}") for library in (arboost, xgboost)))
    label = np.arange(len([line for line in text.split("\n") if line]))
    assert_same(*(library.DMatrix(f"{path}?{options}", label=label) for library in (arboost, xgboost)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.txt", "URI parameter `format` is required|No such file"),
        ("nothing.txt?format=csv", "No such file or directory|Cannot find any files"),
        ("x.txt?format=arff", "Unknown data type arff"),
        ("empty.txt?format=csv", "empty"),
        ("x.txt?format=csv#cache", "External memory training with text input has been removed"),
    ],
)
@pytest.mark.parametrize("library", [arboost, xgboost])
@pytest.mark.filterwarnings("ignore:.*Text file input has been deprecated")
def test_paths_that_cannot_be_read(library, name, message, tmp_path):
    (tmp_path / "x.txt").write_text("1,2\n")
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ValueError, match=message):
        library.DMatrix(str(tmp_path / name))


def test_saved_files(tmp_path):
    made = []
    for library in (arboost, xgboost):
        path = tmp_path / library.__name__
        library.DMatrix(X, **FIELDS).save_binary(path)
        made.append(library.DMatrix(str(path)))
    assert_same(*made)
    with pytest.raises(ValueError, match="binary file must come from `save_binary` of this library"):
        arboost.DMatrix(tmp_path / "xgboost")
    for library in (arboost, xgboost):
        with pytest.raises(ValueError, match="binary saving only supported by"):
            library.QuantileDMatrix(X).save_binary(tmp_path / "q")


# ---- what is refused ----


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (np.ones(3), ValueError, "Please reshape the input data into 2-dimensional matrix"),
        (np.ones((2, 2, 2)), ValueError, "Please reshape the input data into 2-dimensional matrix"),
        ([1, 2, 3], ValueError, "Please reshape the input data into 2-dimensional matrix"),
        ([[1, 2], [3]], ValueError, "inhomogeneous"),
        (np.ones((2, 2), complex), ValueError, "not supported"),
        (np.array([["a"]]), ValueError, "not supported"),
        (np.array([["2020-01-01"]], "M8[D]"), ValueError, ""),
        (None, TypeError, "Not supported type for data"),
        ({"a": [1]}, TypeError, "Not supported type for data"),
        (np.array([[np.inf]]), ValueError, "Input data contains `inf`"),
    ],
    ids=["1-d", "3-d", "list", "ragged", "complex", "text", "date", "None", "dict", "inf"],
)
@pytest.mark.parametrize("library", [arboost, xgboost])
def test_refused(library, data, error, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error, match=message):
            library.DMatrix(data)


@pytest.mark.parametrize("library", [arboost, xgboost])
def test_generators_are_refused(library):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TypeError, match=r"Not supported type for data.*generator"):
            library.DMatrix(row for row in X)
