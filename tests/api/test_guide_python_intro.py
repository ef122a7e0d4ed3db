"""The code blocks of XGBoost's introduction to its Python package, on data of ours, with either import.

Features have few distinct values, so that both libraries cut them in the same places and the trees are the same.
"""

import numpy as np
import pytest
import scipy.sparse

import arboost
from guides import assert_same, run_in

xgboost = pytest.importorskip("xgboost")

BLOCKS = []


def block(function):
    """A part of the guide; returns what can be compared."""
    BLOCKS.append(function)
    return function


def make(n_rows=240, n_features=10, seed=0):
    """Features in steps of a fiftieth and a noisy binary label."""
    rng = np.random.default_rng(seed)
    data = np.round(rng.random((n_rows, n_features)) * 50) / 50
    label = (data[:, 0] + data[:, 1] * data[:, 2] + 0.2 * rng.normal(size=n_rows) > 0.8).astype(int)
    return data, label


def facts(matrix):
    """What a matrix tells about itself."""
    return {
        "shape": (matrix.num_row(), matrix.num_col(), matrix.num_nonmissing()),
        "names": matrix.feature_names,
        "types": matrix.feature_types,
        "label": matrix.get_label(),
        "weight": matrix.get_weight(),
        "data": matrix.get_data().toarray(),
    }


def write_libsvm(path, data, label):
    rows = (" ".join(f"{j}:{v:g}" for j, v in enumerate(row) if v) for row in data)
    path.write_text("".join(f"{y} {row}\n" for y, row in zip(label, rows, strict=True)))


def write_csv(path, data, label):
    np.savetxt(path, np.column_stack([label, data]), delimiter=",", fmt="%g")


PARAM = {"max_depth": 2, "eta": 1, "objective": "binary:logistic", "nthread": 2}


def matrices(xgb):
    return xgb.DMatrix(*make()), xgb.DMatrix(*make(100, seed=1))


# ---- data interface ----


@block
def array(xgb):
    data, label = make(5)
    return facts(xgb.DMatrix(data, label=label))


@block
def sparse_matrix(xgb):
    dat, row, col = [1.5, 2.0, -3.0, 4.0], [0, 1, 1, 3], [2, 0, 4, 1]
    csr = scipy.sparse.csr_matrix((dat, (row, col)))
    return facts(xgb.DMatrix(csr))


@block
def pandas_frame(xgb):
    pandas = pytest.importorskip("pandas")
    data = pandas.DataFrame(np.arange(12).reshape((4, 3)), columns=["a", "b", "c"])
    label = pandas.DataFrame(np.array([1, 0, 0, 1]))
    return facts(xgb.DMatrix(data, label=label))


@block
def saving_a_binary_file(xgb):
    write_libsvm(_here("train.svm.txt"), *make(30))
    dtrain = xgb.DMatrix("train.svm.txt?format=libsvm")
    dtrain.save_binary("train.buffer")
    return facts(dtrain) | {"again": facts(xgb.DMatrix("train.buffer"))}


@block
def missing_values(xgb):
    data, label = make(20)
    data[3, 4] = data[7, 1] = np.nan
    other = np.where(np.isnan(data), -999.0, data)
    return [
        facts(xgb.DMatrix(data, label=label, missing=np.nan)),
        facts(xgb.DMatrix(other, label=label, missing=-999.0)),
    ]


@block
def weights(xgb):
    data, label = make(5)
    w = np.linspace(0.1, 1, 5).reshape(5, 1)
    return facts(xgb.DMatrix(data, label=label, missing=np.nan, weight=w))


@block
def text_and_binary_files(xgb):
    write_libsvm(_here("train.svm.txt"), *make(30))
    write_libsvm(_here("test.svm.txt"), *make(15, seed=3))
    xgb.DMatrix("test.svm.txt?format=libsvm").save_binary("test.svm.buffer")
    dtrain = xgb.DMatrix("train.svm.txt?format=libsvm")
    dtest = xgb.DMatrix("test.svm.buffer")
    bst = xgb.train(PARAM, dtrain, 3)
    return facts(dtrain), facts(dtest), bst.predict(dtest)


@block
def csv_files(xgb):
    write_csv(_here("train.csv"), *make())
    write_csv(_here("test.csv"), *make(50, seed=3))
    # label_column is the index of the column with the true label
    dtrain = xgb.DMatrix("train.csv?format=csv&label_column=0")
    dtest = xgb.DMatrix("test.csv?format=csv&label_column=0")
    return facts(dtrain), xgb.train(PARAM, dtrain, 5).predict(dtest)


def _here(name):
    from pathlib import Path

    return Path.cwd() / name


# ---- setting parameters ----


@block
def booster_parameters(xgb):
    dtrain, dtest = matrices(xgb)
    param = {"max_depth": 2, "eta": 1, "objective": "binary:logistic"}
    param["nthread"] = 2
    param["eval_metric"] = "auc"
    return xgb.train(param, dtrain, 3).eval(dtest)


@block
def several_metrics(xgb):
    dtrain, dtest = matrices(xgb)
    param = {**PARAM, "eval_metric": ["auc", "ams@0"]}
    return xgb.train(param, dtrain, 3).eval(dtest, "eval", 7)


@block
def parameters_as_pairs(xgb):
    dtrain, dtest = matrices(xgb)
    plst = [*PARAM.items(), ("eval_metric", "auc")]
    plst += [("eval_metric", "error@0.4")]
    return xgb.train(plst, dtrain, 3).eval(dtest)


@block
def sets_to_watch(xgb):
    dtrain, dtest = matrices(xgb)
    evallist = [(dtrain, "train"), (dtest, "eval")]
    evals_result = {}
    xgb.train(PARAM, dtrain, 4, evals=evallist, evals_result=evals_result)
    return evals_result


# ---- training ----


@block
def training(xgb):
    dtrain, dtest = matrices(xgb)
    evallist = [(dtrain, "train"), (dtest, "eval")]
    num_round = 10
    bst = xgb.train(PARAM, dtrain, num_round, evallist)  # by position, as old scripts do
    return bst.num_boosted_rounds(), bst.predict(dtest)


@block
def saving_and_loading(xgb):
    dtrain, dtest = matrices(xgb)
    bst = xgb.train(PARAM, dtrain, 10)
    found = []
    for name in ("0001.model", "0001.json", "0001.ubj"):
        bst.save_model(name)
        loaded = xgb.Booster({"nthread": 2})  # init model
        loaded.load_model(name)  # load model data
        found.append(loaded.predict(dtest))
        np.testing.assert_array_equal(found[-1], bst.predict(dtest))
    return found


@block
def dumping(xgb):
    dtrain, _ = matrices(xgb)
    bst = xgb.train(PARAM, dtrain, 3)
    bst.dump_model("dump.raw.txt")
    found = [_here("dump.raw.txt").read_text()]
    _here("featmap.txt").write_text("".join(f"{i}\tfeature_{i}\tq\n" for i in range(10)))
    bst.dump_model("dump.raw.txt", "featmap.txt")
    return [*found, _here("dump.raw.txt").read_text()]


# ---- early stopping and prediction ----


@block
def early_stopping(xgb):
    dtrain, dtest = matrices(xgb)
    param = {**PARAM, "eval_metric": ["error", "logloss"]}
    evals = [(dtrain, "train"), (dtest, "valid")]
    bst = xgb.train(param, dtrain, 100, evals=evals, early_stopping_rounds=10)
    data, _ = make(7, seed=5)  # 7 entities, each contains 10 features
    dnew = xgb.DMatrix(data)
    return {
        "best": (bst.best_score, bst.best_iteration, bst.num_boosted_rounds()),
        "ypred": bst.predict(dnew),
        "of the best": bst.predict(dnew, iteration_range=(0, bst.best_iteration + 1)),
    }


# ---- plotting ----


@block
def plotting_importance(xgb):
    pytest.importorskip("matplotlib").use("Agg")
    bst = xgb.train(PARAM, matrices(xgb)[0], 5)
    axes = xgb.plot_importance(bst)
    return {
        "bars": [float(bar.get_width()) for bar in axes.patches],
        "features": [label.get_text() for label in axes.get_yticklabels()],
        "texts": [text.get_text() for text in axes.texts],
        "title": (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()),
    }


@block
def tree_as_graph(xgb):
    pytest.importorskip("graphviz")
    bst = xgb.train(PARAM, matrices(xgb)[0], 5)
    return xgb.to_graphviz(bst, num_trees=2).source, xgb.to_graphviz(bst, tree_idx=1).source


@block
def plotting_a_tree(xgb):
    """Without the program `dot` its picture is replaced by an empty one: both libraries only show it."""
    matplotlib, graphviz = pytest.importorskip("matplotlib"), pytest.importorskip("graphviz")
    matplotlib.use("Agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphviz.Source, "pipe", lambda *_, **__: _empty_png())
        axes = xgb.plot_tree(xgb.train(PARAM, matrices(xgb)[0], 5), num_trees=2)
    return isinstance(axes, matplotlib.axes.Axes), axes.axison


def _empty_png():
    import io

    from matplotlib import image

    png = io.BytesIO()
    image.imsave(png, np.ones((2, 2, 3)), format="png")
    return png.getvalue()


# ---- the scikit-learn interface ----


def fit_regressor(xgb, **params):
    pytest.importorskip("sklearn")
    X, _ = make()
    y = X[:, 0] * 3 + X[:, 1] ** 2
    # Use "hist" for training the model.
    reg = xgb.XGBRegressor(tree_method="hist", **params)
    # Fit the model using predictor X and response y.
    reg.fit(X, y)
    # Save model into JSON format.
    reg.save_model("regressor.json")
    booster: xgb.Booster = reg.get_booster()
    assert isinstance(booster, xgb.Booster)
    again = xgb.Booster(model_file="regressor.json")
    np.testing.assert_array_equal(again.predict(xgb.DMatrix(X)), reg.predict(X))
    return booster.num_boosted_rounds(), reg.predict(X)


@block
def regressor(xgb):
    return fit_regressor(xgb)


@block
def regressor_on_a_gpu(xgb):
    """The guide's own line; where there is no GPU, XGBoost warns and trains on the CPU."""
    return fit_regressor(xgb, device="cuda")


@pytest.mark.parametrize("part", BLOCKS, ids=lambda part: part.__name__)
def test_block(part, tmp_path, monkeypatch):
    ours, theirs = (run_in(tmp_path, monkeypatch, library, part) for library in (arboost, xgboost))
    assert_same(ours, theirs)


def test_both_know_the_version():
    assert arboost.__version__
    assert xgboost.__version__
