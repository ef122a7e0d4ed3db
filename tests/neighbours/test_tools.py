"""Tools that look for XGBoost find arboost: each on small models, in a process of its own, offline."""

import pytest

from child_process import need, run_tool


def test_shap(tmp_path):
    need("shap", "pandas")
    run_tool(
        tmp_path,
        """
        import shap
        for model, rows in ((classifier, X[:9]), (regressor, X[:9]), (booster, xgb.DMatrix(X[:9]))):
            explainer = shap.TreeExplainer(model)
            values = explainer.shap_values(rows)
            margin = model.predict(rows, output_margin=True)
            np.testing.assert_allclose(values.sum(1) + explainer.expected_value, margin, atol=1e-5)
        explanation = shap.TreeExplainer(booster)(xgb.DMatrix(X[:9]))
        np.testing.assert_allclose(explanation.values, values, atol=1e-6)
        against = shap.TreeExplainer(regressor, X[:50])  # shap's own code, against background rows
        values = against.shap_values(X[:9])
        np.testing.assert_allclose(values.sum(1) + against.expected_value, regressor.predict(X[:9]), atol=1e-4)
        pairs = shap.TreeExplainer(regressor).shap_interaction_values(X[:9])
        assert pairs.shape == (9, 4, 4)
        """,
    )


def test_optuna(tmp_path):
    need("optuna", "optuna_integration", "pandas")
    output = run_tool(
        tmp_path,
        """
        import optuna
        from optuna_integration import XGBoostPruningCallback
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        params = {"objective": "binary:logistic", "eval_metric": "logloss"}

        def objective(trial):
            callbacks = [XGBoostPruningCallback(trial, "valid-logloss")]
            eta = {"eta": [0.5, 0.5, 0.001, 0.001][trial.number]}
            seen = {}
            xgb.train(params | eta, dtrain, 8, evals=[(dtrain, "valid")], callbacks=callbacks, verbose_eval=False,
                      evals_result=seen)
            return seen["valid"]["logloss"][-1]

        study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=2))
        study.optimize(objective, n_trials=4)
        print([trial.state.name for trial in study.trials])

        def folds(trial):
            scores = xgb.cv(params, dtrain, 4, nfold=3, callbacks=[XGBoostPruningCallback(trial, "test-logloss")])
            return scores["test-logloss-mean"].iloc[-1]

        study = optuna.create_study()
        study.optimize(folds, n_trials=1)
        assert study.trials[0].intermediate_values.keys() == {0, 1, 2, 3}
        """,
    )
    assert output.strip() == "['COMPLETE', 'COMPLETE', 'PRUNED', 'PRUNED']"


def test_onnxmltools(tmp_path):
    need("onnxmltools", "onnxruntime")
    run_tool(
        tmp_path,
        """
        import onnxmltools, onnxruntime
        from onnxmltools.convert.common.data_types import FloatTensorType
        for model in (classifier, regressor, booster):
            made = onnxmltools.convert_xgboost(model, initial_types=[("x", FloatTensorType([None, 4]))])
            session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
            found = session.run(None, {"x": X})
            if model is regressor:
                np.testing.assert_allclose(found[0].ravel(), regressor.predict(X), rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_allclose(found[1], classifier.predict_proba(X), rtol=1e-5, atol=1e-6)
                np.testing.assert_array_equal(found[0], classifier.predict(X))
        """,
    )


def test_treelite(tmp_path):
    need("treelite")
    run_tool(
        tmp_path,
        """
        import treelite
        for model in (booster, regressor.get_booster()):
            found = treelite.gtil.predict(treelite.frontend.from_xgboost(model), X).ravel()
            np.testing.assert_allclose(found, model.predict(dtrain), rtol=1e-5, atol=1e-6)
        """,
    )


def test_dtreeviz(tmp_path):
    need("dtreeviz", "matplotlib")
    output = run_tool(
        tmp_path,
        """
        import logging
        import matplotlib
        matplotlib.use("Agg")
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        import dtreeviz
        names = ["a", "b", "c", "d"]
        tree = dtreeviz.model(booster, tree_index=0, X_train=X, y_train=y, feature_names=names, target_name="y",
                              class_names=["no", "yes"])
        tree.leaf_sizes()
        tree.ctree_leaf_distributions()
        leaf = tree.shadow_tree.predict_path(X[0])[-1].id
        assert leaf == booster.predict(dtrain, pred_leaf=True)[0, 0]
        print(tree.explain_prediction_path(X[0]))
        """,
    )
    assert "<" in output


def test_eli5(tmp_path):
    need("eli5", "pandas")
    run_tool(
        tmp_path,
        """
        import eli5
        weights = eli5.explain_weights_df(booster).set_index("feature")["weight"]
        gains = booster.get_score(importance_type="gain")
        assert weights.idxmax() == max(gains, key=gains.get)
        why = eli5.explain_prediction_df(regressor, X[0])
        trees = regressor.predict(X[:1])[0] - float(regressor.intercept_[0])
        np.testing.assert_allclose(why["weight"].sum(), trees, atol=1e-4)
        """,
    )


def test_flaml(tmp_path):
    need("flaml", "pandas")
    run_tool(
        tmp_path,
        """
        import flaml
        for task, label in (("classification", y), ("regression", score)):
            search = flaml.AutoML()
            options = {"max_iter": 4, "verbose": 0, "n_jobs": 1, "eval_method": "holdout"}
            search.fit(X, label, task=task, estimator_list=["xgboost", "xgb_limitdepth"], **options)
            assert type(search.model.estimator).__module__ == "xgboost.sklearn"
            assert len(search.predict(X)) == len(X)
        """,
    )


MLFLOW = """
import mlflow
mlflow.set_tracking_uri("sqlite:///tracking.db")
"""


def test_mlflow_keeps_models(tmp_path):
    need("mlflow")
    run_tool(
        tmp_path,
        MLFLOW
        + """
arboost.install_as_xgboost(children=True)  # mlflow looks at the model's imports in another process
for model, rows in ((booster, dtrain), (classifier, X)):
    with mlflow.start_run():
        info = mlflow.xgboost.log_model(model, name="model", input_example=X[:2])
    loaded = mlflow.xgboost.load_model(info.model_uri)
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    served = mlflow.pyfunc.load_model(info.model_uri).predict(X)
    np.testing.assert_allclose(served, model.predict(rows))
    assert info.flavors["xgboost"]["xgb_version"] == "3.2.0"
    folder = mlflow.artifacts.download_artifacts(info.model_uri)
    requirements = open(f"{folder}/requirements.txt").read()
    assert "xgboost==3.2.0" in requirements and "numba==" in requirements  # found in that process, not fallen back to
""",
    )


@pytest.mark.parametrize("library", ["xgb", "arboost"])
def test_mlflow_autolog(tmp_path, library):
    need("mlflow")
    run_tool(
        tmp_path,
        MLFLOW
        + f"""
mlflow.xgboost.autolog()
with mlflow.start_run() as run:
    {library}.train({{"max_depth": 2}}, {library}.DMatrix(X, score), 6, evals=[(dtrain, "valid")], verbose_eval=False)
logged = mlflow.get_run(run.info.run_id).data
assert logged.params["max_depth"] == "2" and logged.params["num_boost_round"] == "6", logged.params
assert "valid-rmse" in logged.metrics
with mlflow.start_run() as run:
    {library}.XGBRegressor(n_estimators=3).fit(X, score, eval_set=[(X, score)], verbose=False)
logged = mlflow.get_run(run.info.run_id).data
assert logged.params["num_boost_round"] == "3" and "validation_0-rmse" in logged.metrics
assert len(mlflow.search_logged_models(output_format="list")) == 2
""",
    )


def test_wandb(tmp_path):
    need("wandb")
    run_tool(
        tmp_path,
        """
        import os
        os.environ |= {f"WANDB_{what}": os.getcwd() for what in ("DIR", "CACHE_DIR", "CONFIG_DIR", "DATA_DIR")}
        os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
        import wandb
        from wandb.integration.xgboost import WandbCallback
        with wandb.init(project="p") as run:
            xgb.train({"eval_metric": "rmse"}, dtrain, 4, evals=[(dtrain, "valid")], verbose_eval=False,
                      callbacks=[WandbCallback(log_model=True, define_metric=True)])
            summary = dict(run.summary)
            assert summary["epoch"] == 3 and "learner" in run.config, (summary, run.config.keys())
        """,
    )


def test_hummingbird(tmp_path):
    """Classifiers with `base_score=0.5`: it knows no other, whichever library trained them (see docs/neighbours.md)."""
    need("hummingbird", "torch")
    run_tool(
        tmp_path,
        """
        import hummingbird.ml
        for label in (y, np.digitize(score, [-1, 1])):
            model = xgb.XGBClassifier(n_estimators=5, max_depth=3, base_score=0.5).fit(X, label)
            converted = hummingbird.ml.convert(model, "torch", X[:1])
            np.testing.assert_allclose(converted.predict_proba(X), model.predict_proba(X), atol=1e-5)
        """,
    )
