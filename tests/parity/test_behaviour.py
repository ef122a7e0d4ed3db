"""What XGBoost's users rely on beyond numbers: when things are checked, and the words they look for in messages."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import arboost

xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(4)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = X[:, 0] + RNG.normal(size=60) * 0.1
CLASS = (Y > 0).astype(int)
LIBRARIES = (xgboost, arboost)


@pytest.fixture(scope="module")
def models():
    return [library.train({}, library.DMatrix(X, Y), 10) for library in LIBRARIES]


def message_of(call, library, error=ValueError):
    with pytest.raises(error) as caught:
        call(library)
    return str(caught.value)


def both_say(call, *words, error=ValueError):
    """Both libraries refuse, and these words are in both messages."""
    for library in LIBRARIES:
        message = message_of(call, library, error)
        for word in words:
            assert word in message, (library.__name__, message)


# ---- cuts ----


@pytest.mark.parametrize(
    ("matrix", "tree_method"), [("DMatrix", "hist"), ("QuantileDMatrix", "hist"), ("DMatrix", "approx")]
)
def test_quantile_cut_of_categories_has_one_value_each(matrix, tree_method):
    frame = pd.DataFrame(
        {
            "n": np.arange(60.0) % 3,
            "c": pd.Categorical(list("abcabd") * 10, categories=list("abcdef")),
            "none": pd.Categorical([None] * 60, categories=["x"]),
            "m": np.arange(60.0)[::-1] % 5,
        }
    )
    cuts = []
    for library in LIBRARIES:
        data = getattr(library, matrix)(frame, Y, enable_categorical=True)
        library.train({"tree_method": tree_method}, data, 1)
        cuts.append(data.get_quantile_cut())
    for theirs, ours in zip(*cuts, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


# ---- groups ----


@pytest.mark.parametrize("sizes", [[10, 20], [100, 20]])
def test_groups_are_checked_when_they_are_used(models, sizes):
    words = "Invalid query group structure", "doesn't equal to the actual number of rows given by data"
    for library in LIBRARIES:
        data = library.DMatrix(X, CLASS)
        data.set_group(sizes)
        assert data.get_group().tolist() == sizes
        data.set_group([30, 30])  # a second thought
        library.train({"objective": "rank:ndcg"}, data, 1)

    def grouped(library):
        return library.DMatrix(X, CLASS, group=sizes)

    both_say(lambda library: library.train({"objective": "rank:ndcg"}, grouped(library), 1), *words)
    both_say(lambda library: library.train({}, grouped(library), 1), *words)
    both_say(lambda library: models[LIBRARIES.index(library)].eval(grouped(library)), *words)
    both_say(lambda library: models[LIBRARIES.index(library)].predict(grouped(library)), *words)
    both_say(lambda library: library.XGBRanker().fit(X, CLASS, group=sizes), *words)


def test_groups_of_other_rows_are_refused_in_folds_and_weights():
    data = arboost.DMatrix(X, CLASS, group=[10, 20], weight=[1.0, 2.0])
    with pytest.raises(ValueError, match="Invalid query group structure"):
        arboost.cv({"objective": "rank:ndcg"}, data, 1, nfold=2)
    with pytest.raises(ValueError, match="Invalid query group structure"):
        arboost.QuantileDMatrix(X, CLASS, group=[10, 20], weight=[1.0, 2.0])
    huge = arboost.DMatrix(X, CLASS, group=[2**62, 2**62, 2**62, 2**62, 60])  # sums to 60 in 64 bits
    with pytest.raises(ValueError, match="Invalid query group structure"):
        arboost.train({"objective": "rank:ndcg"}, huge, 1)


def test_query_ids_of_other_rows_are_refused_in_training():
    both_say(
        lambda library: library.train({"objective": "rank:ndcg"}, library.DMatrix(X, CLASS, qid=np.zeros(30)), 1),
        "Invalid query group structure",
    )


# ---- slices ----


@pytest.mark.parametrize(
    ("chosen", "word"),
    [
        (slice(-1, 0), ">= 0"),
        (slice(1, 1), "Empty slice"),
        (slice(3, 2), "Invalid"),
        (slice(9, -1), "Invalid"),
        (slice(0, 2, -1), ">= 1"),
        (slice(0, 2, 0), ">= 1"),
    ],
)
def test_slices_that_are_refused(models, chosen, word):
    both_say(lambda library: models[LIBRARIES.index(library)][chosen], word)


@pytest.mark.parametrize("chosen", [slice(0, 11), slice(11, None), slice(20, 30), 10])
def test_rounds_that_are_not_there(models, chosen):
    both_say(lambda library: models[LIBRARIES.index(library)][chosen], "Layer index out of range", error=IndexError)


def test_negative_rounds_count_from_the_end(models):
    model = models[1]
    assert model[-3:-1].get_dump() == model[7:9].get_dump() == model.get_dump()[7:9]
    assert model[-1].get_dump() == model.get_dump()[9:]


# ---- names, files, callbacks ----


@pytest.mark.parametrize("what", ["feature_names", "feature_types"])
def test_names_of_another_length(what):
    both_say(lambda library: library.DMatrix(X, Y, **{what: ["q", "q"]}), "expected 4, got 2")
    model = arboost.train({}, arboost.DMatrix(X, Y), 1)
    with pytest.raises(ValueError, match="expected 4, got 2"):
        setattr(model, what, ["q", "q"])  # XGBoost fails later, when the model is dumped
    assert getattr(model, what) is None
    setattr(model, what, None if what == "feature_types" else list("abcd"))


def test_names_of_a_model_are_strings():
    for library, array in ((xgboost, list("abcd")), (arboost, np.array(list("abcd")))):
        model = library.train({}, library.DMatrix(X, Y), 1)
        with pytest.raises(TypeError):
            model.feature_names = [1, 2, 3, 4]
        model.feature_names = array
        assert [type(name) for name in model.feature_names] == [str] * 4


@pytest.mark.parametrize("name", ["model", "model.deprecated", "model.bin"])
def test_an_unknown_suffix_saves_ubjson_and_says_so(models, name, tmp_path):
    for library, model in zip(LIBRARIES, models, strict=True):
        path = tmp_path / f"{library.__name__}-{name}"
        says_so = pytest.warns(UserWarning, match="Saving model in the UBJSON format")
        with library.config_context(verbosity=1), says_so:  # whatever another test has left of XGBoost's
            model.save_model(path)
        assert path.read_bytes() == bytes(model.save_raw("ubj"))
        with pytest.raises(ValueError, match="Unknown model format"):
            model.save_raw("deprecated")


def test_a_file_that_is_all_suffix(models, tmp_path):
    for model in models:
        model.save_model(tmp_path / ".json")
        assert (tmp_path / ".json").read_bytes().startswith(b'{"')


def test_a_wrong_suffix_does_not_matter(models, tmp_path):
    for suffix, kind in (("json", "ubj"), ("ubj", "json")):
        path = tmp_path / f"model.{suffix}"
        path.write_bytes(models[1].save_raw(kind))
        assert arboost.Booster(model_file=path).num_boosted_rounds() == 10
        with pytest.raises(ValueError, match="Expecting"):
            xgboost.Booster(model_file=path)


def test_save_best_of_a_booster_that_cannot_be_sliced():
    def fit(library, booster="gblinear"):
        stopping = library.callback.EarlyStopping(rounds=2, save_best=True)
        data = library.DMatrix(X, Y)
        return library.train(
            {"booster": booster}, data, 5, evals=[(data, "train")], callbacks=[stopping], verbose_eval=False
        )

    both_say(fit, "`save_best` is not applicable to the current booster")
    for library in LIBRARIES:
        model = fit(library, "dart")
        assert model.num_boosted_rounds() == model.best_iteration + 1


# ---- words ----


def test_words_for_what_does_not_fit():
    both_say(
        lambda library: library.XGBRegressor(n_estimators=1).fit(X, Y, sample_weight=np.ones(10)),
        "Invalid size of sample weight",
    )
    both_say(
        lambda library: library.QuantileDMatrix(X[:, :3], Y, ref=library.QuantileDMatrix(X, Y)),
        "Invalid ref DMatrix, different number of features.",
    )
    both_say(
        lambda library: library.train({"monotone_constraints": "(1,1,1,1,1)"}, library.DMatrix(X, Y), 1),
        "should be less or equal to the number of features.",
    )
    both_say(
        lambda library: library.XGBClassifier(n_estimators=1).fit(X, Y),
        "Invalid classes inferred from unique values of `y`",
    )
    both_say(
        lambda library: library.XGBRegressor(eval_metric=[max, min]).fit(X, Y),
        "multiple custom metrics",
        error=NotImplementedError,
    )


def test_classes_that_a_continued_model_does_not_know():
    model = arboost.XGBClassifier(n_estimators=1).fit(X, np.array(["a", "b"])[CLASS])
    with pytest.raises(ValueError, match="Invalid classes: y contains labels that are not among"):
        arboost.XGBClassifier(n_estimators=1).fit(X, np.array(["a", "c"])[CLASS], xgb_model=model)


# ---- warnings ----


def test_continuing_on_fewer_classes_warns():
    three = arboost.XGBClassifier(n_estimators=1).fit(X, np.arange(60) % 3)
    with pytest.warns(UserWarning, match="a model of 3 classes on labels of 2"):
        more = arboost.XGBClassifier(n_estimators=1).fit(X, CLASS, xgb_model=three)
    assert more.predict_proba(X).shape == (60, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arboost.XGBClassifier(n_estimators=1).fit(X, np.arange(60) % 3, xgb_model=three)


class Rows:
    """Neither an array nor a list, but rows all the same."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def test_unknown_kinds_of_data_warn():
    zeros = np.where(X > 0, X, 0)
    for library in LIBRARIES:
        with pytest.warns(UserWarning, match="Unknown data type"):
            data = library.DMatrix(Rows(zeros))
        assert (data.num_row(), data.num_col()) == (60, 4)
        with pytest.warns(UserWarning, match="Unknown data type"), pytest.raises(TypeError, match="Not supported type"):
            library.DMatrix(object())
    assert data.num_nonmissing() == 240  # a 0 is a value; on XGBoost's way through CSR it is missing


def test_sparse_columns_of_a_frame_warn():
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([0, 0, 1.0] * 20), "b": np.arange(60.0)})
    for library in LIBRARIES:
        with pytest.warns(UserWarning, match="Sparse arrays from pandas are converted into dense") as caught:
            data = library.DMatrix(frame)
        assert len(caught) == 1
        assert data.num_nonmissing() == 120
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arboost.DMatrix(frame[["b"]])
        for layout in ("csr", "csc", "coo", "dok", "lil", "bsr"):  # XGBoost does not know the last three
            arboost.DMatrix(scipy.sparse.csr_matrix(X).asformat(layout))


POSITIONAL = {
    "XGBRegressor": lambda library: library.XGBRegressor("reg:squarederror"),
    "XGBRanker": lambda library: library.XGBRanker("rank:ndcg"),
    "XGBRFClassifier": lambda library: library.XGBRFClassifier(1),
    "XGBRegressor.fit": lambda library: library.XGBRegressor(n_estimators=1).fit(X, Y, np.ones(60)),
    "XGBClassifier.fit": lambda library: library.XGBClassifier(n_estimators=1).fit(X, CLASS, np.ones(60)),
    "XGBRanker.fit": lambda library: library.XGBRanker(n_estimators=1).fit(X, CLASS, [60]),
    "XGBRFRegressor.fit": lambda library: library.XGBRFRegressor(n_estimators=1).fit(X, Y, np.ones(60)),
    "DMatrix.set_info": lambda library: library.DMatrix(X).set_info(Y),
    "DMatrix": lambda library: library.DMatrix(X, Y, np.ones(60)),
    "EarlyStopping": lambda library: library.callback.EarlyStopping(3),
}


@pytest.mark.parametrize("name", sorted(POSITIONAL))
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_arguments_by_position_warn(library, name):
    with pytest.warns(FutureWarning, match="as keyword args"):
        POSITIONAL[name](library)


def test_predict_by_position_warns(models):
    for library, model in zip(LIBRARIES, models, strict=True):
        with pytest.warns(FutureWarning, match="`output_margin` as keyword"):
            model.predict(library.DMatrix(X), True)


# ---- scikit-learn ----


@pytest.mark.parametrize("name", ["XGBRegressor", "XGBRFRegressor", "XGBClassifier", "XGBRFClassifier", "XGBRanker"])
def test_tags(name):
    theirs, ours = (getattr(library, name)().__sklearn_tags__() for library in LIBRARIES)
    assert ours.target_tags == theirs.target_tags
    assert ours.input_tags == theirs.input_tags
    assert ours.classifier_tags == theirs.classifier_tags
    assert ours.regressor_tags == theirs.regressor_tags


def test_one_feature_in_one_dimension():
    codes = np.arange(60) % 3
    column = pd.Series(pd.Categorical(np.array(list("abc"))[codes]))
    found = []
    for library in LIBRARIES:
        model = library.train({}, library.DMatrix(column, Y, enable_categorical=True), 2)
        by_codes = library.train(
            {}, library.DMatrix(codes[:, None], Y, feature_types=["c"], enable_categorical=True), 2
        )
        estimator = library.XGBRegressor(enable_categorical=True, n_estimators=2).fit(column, Y)
        found.append([model.inplace_predict(column), by_codes.inplace_predict(codes), estimator.predict(column)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_one_dimension_for_several_features(models):
    for model in models:
        with pytest.raises(ValueError, match=r"column|reshape"):
            model.inplace_predict(X[0])
    with pytest.raises(ValueError, match="Reshape your data"):
        arboost.XGBRegressor(n_estimators=1).fit(X, Y).predict(X[0])


# ---- sparse data that lacks the last features ----


@pytest.mark.parametrize(
    "params", [{}, {"booster": "dart"}, {"booster": "gblinear"}, {"tree_method": "exact"}], ids=str
)
def test_sparse_data_may_lack_the_last_features(params, tmp_path):
    """No row of a libsvm file may have an entry of them: predictions and scores are those of the whole table."""
    whole = scipy.sparse.random(200, 10, 0.5, format="csr", random_state=0, dtype=np.float32)
    y = np.random.default_rng(0).integers(0, 2, 200)
    part = whole[:, :8]
    wide = scipy.sparse.csr_matrix((part.data, part.indices, part.indptr), (200, 10))
    lines = (
        " ".join([str(label), *(f"{i}:{v!r}" for i, v in zip(row.indices.tolist(), row.data.tolist(), strict=True))])
        for label, row in zip(y, part, strict=True)
    )
    (tmp_path / "part.txt").write_text("\n".join(lines))
    for library in (xgboost, arboost):
        matrices = [
            library.DMatrix(part, y),
            library.DMatrix(f"{tmp_path}/part.txt?format=libsvm"),
            library.DMatrix(wide, y),
        ]
        scores = {}
        evals = list(zip(matrices, "abc", strict=True))
        own = {"objective": "binary:logistic", "verbosity": 0, **params}
        options = {"evals": evals, "evals_result": scores, "verbose_eval": False}
        booster = library.train(own, library.DMatrix(whole, y), 3, **options)
        assert scores["a"] == scores["b"] == scores["c"]
        for data in matrices[:2]:
            np.testing.assert_array_equal(booster.predict(data), booster.predict(matrices[2]))
            assert data.num_col() == 8
        with pytest.raises(library.core.XGBoostError):
            library.train(params, matrices[0], 1, xgb_model=booster)
