"""`cv` from end to end, next to XGBoost's: the same folds, so the same means and deviations."""

import numpy as np
import pytest

import arboost
from arboost.callback import EarlyStopping
from boosting_cases import loss_params, make_features, make_label

xgboost = pytest.importorskip("xgboost")
pandas = pytest.importorskip("pandas")

X = make_features(300, missing=0.1)
PARAMS = {"max_depth": 3, "nthread": 1, "eta": 0.5}


def both(params, n_rounds=4, objective="reg:squarederror", info=None, **options):
    """The results of both libraries as frames."""
    params = {**PARAMS, **loss_params(objective), **params}
    return [
        library.cv(params, library.DMatrix(X, make_label(objective, X), **(info or {})), n_rounds, **options)
        for library in (arboost, xgboost)
    ]


def assert_same_frames(ours, theirs):
    assert isinstance(ours, pandas.DataFrame)
    assert [*ours.columns] == [*theirs.columns]
    assert ours.index.equals(theirs.index)
    assert (ours.dtypes == theirs.dtypes).all()
    np.testing.assert_allclose(ours.to_numpy(), theirs.to_numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"nfold": 5, "seed": 7},
        {"shuffle": False},
        {"metrics": ("mae", "rmse")},
        {"metrics": "mae"},
        {"early_stopping_rounds": 2, "n_rounds": 30},
        {"early_stopping_rounds": 2, "n_rounds": 30, "maximize": True},
    ],
    ids=str,
)
def test_regression(options):
    assert_same_frames(*both({"eta": 0.9}, **options))


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_stratified_classification(objective):
    metrics = ["auc", "logloss"] if objective == "binary:logistic" else ["mlogloss", "merror"]
    assert_same_frames(*both({}, objective=objective, stratified=True, metrics=metrics, seed=3))


def test_folds_of_ones_own():
    order = np.random.default_rng(0).permutation(len(X))
    folds = [(order[100:], order[:100]), (order[:200], order[200:]), (order[50:], order[:50])]
    assert_same_frames(*both({}, folds=folds))
    KFold = pytest.importorskip("sklearn.model_selection").KFold
    assert_same_frames(*both({}, folds=KFold(4, shuffle=True, random_state=1)))


def test_weights_go_with_their_rows():
    assert_same_frames(*both({}, info={"weight": np.linspace(0.1, 3, len(X))}))
    assert_same_frames(*both({}, info={"base_margin": np.linspace(-1, 1, len(X))}))


def test_as_a_dict():
    ours, theirs = both({}, as_pandas=False)
    assert [*ours] == [*theirs]
    for name, scores in theirs.items():
        np.testing.assert_allclose(ours[name], scores, rtol=1e-4, atol=1e-6)


def test_custom_objective_and_metric():
    def objective(margin, data):
        return margin - data.get_label(), np.ones_like(margin)

    def metric(prediction, data):
        return "mine", float(np.abs(prediction - data.get_label()).max())

    ours, theirs = both({"base_score": 0.5}, obj=objective, custom_metric=metric)
    assert_same_frames(ours[sorted(ours)], theirs[sorted(theirs)])


def test_callbacks():
    frames = []
    for library in (arboost, xgboost):
        callbacks = [library.callback.EarlyStopping(rounds=2, metric_name="rmse", data_name="test")]
        data = library.DMatrix(X, make_label("", X))
        frames.append(library.cv({**PARAMS, "eta": 0.9}, data, 30, callbacks=callbacks))
    assert_same_frames(*frames)
    assert len(frames[0]) < 30
    with pytest.raises(ValueError, match="save_best"):
        arboost.cv(
            PARAMS, arboost.DMatrix(X, make_label("", X)), 3, callbacks=[EarlyStopping(rounds=1, save_best=True)]
        )


@pytest.mark.parametrize("options", [{"verbose_eval": True}, {"verbose_eval": 2, "show_stdv": False}], ids=str)
def test_what_is_printed(options, capfd):
    lines = []
    for library in (arboost, xgboost):
        library.cv(PARAMS, library.DMatrix(X, make_label("", X)), 3, **options)
        lines.append(capfd.readouterr().out.splitlines())
    assert [line.split(":")[0] for line in lines[0]] == [line.split(":")[0] for line in lines[1]]
    assert [line.count("+") for line in lines[0]] == [line.count("+") for line in lines[1]]


def test_fpreproc():
    def preprocess(dtrain, dtest, params):
        ratio = float(np.mean(dtrain.get_label()))
        return dtrain, dtest, {**params, "base_score": ratio}

    assert_same_frames(*both({}, fpreproc=preprocess))


def test_the_data_is_left_alone():
    y = make_label("", X)
    data = arboost.DMatrix(X, y, weight=np.ones(len(X)))
    arboost.cv(PARAMS, data, 2)
    assert data.num_row() == len(X)
    assert np.array_equal(data.get_label(), y)
    assert arboost.train(PARAMS, data, 1).num_boosted_rounds() == 1
