"""Commands on real files: what is learned from them, what comes out, and what is said when something is wrong."""

import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("rich_click")
pytest.importorskip("pyarrow")

import arboost as xgb
from arboost import cli

N_ROWS = 300


def table(seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": np.arange(N_ROWS),
            "city": rng.choice(["Rome", "Paris", "Oslo", None], N_ROWS),
            "age": rng.integers(18, 80, N_ROWS),
            "pay": rng.normal(3000, 900, N_ROWS).round(2),
        }
    )
    frame.loc[frame.index % 11 == 0, "pay"] = np.nan
    score = (frame.city == "Oslo") * 1.5 + (frame.age - 45) / 20 + (frame.pay.fillna(3000) - 3000) / 900
    score += rng.normal(0, 0.3, N_ROWS)
    frame["label"] = np.where(score > 0.4, "rich", "poor")
    frame["three"] = np.digitize(score, [-0.5, 1]) + 1
    frame["score"] = score.round(4)
    return frame


LABELS = ["label", "three", "score"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for target in LABELS:
        table().drop(columns=[name for name in LABELS if name != target]).to_csv(f"{target}.csv", index=False)
    return tmp_path


def run(*arguments, status=0):
    assert cli.main([str(a) for a in arguments]) == status
    return status


def answer(capsys, *arguments, status=0):
    """The JSON object that a command prints."""
    run(*arguments, "--json", status=status)
    return json.loads(capsys.readouterr().out)


def train(target, *more, model="m.json"):
    run("train", f"{target}.csv", "--target", target, "--drop", "id", "--model", model, "-n", 10, "-q", *more)


# ---- train ----


@pytest.mark.parametrize(
    ("target", "task", "objective", "classes"),
    [
        ("label", "binary", "binary:logistic", ["poor", "rich"]),
        ("three", "multiclass", "multi:softprob", [1, 2, 3]),
        ("score", "regression", "reg:squarederror", None),
    ],
)
def test_the_task_is_found_from_the_target(folder, capsys, target, task, objective, classes):
    found = answer(capsys, "train", f"{target}.csv", "--target", target, "--model", "m.json", "-n", 5, "--drop", "id")
    assert (found["task"], found["objective"], found["classes"]) == (task, objective, classes)
    assert found["rows"] == {"train": 240, "valid": 60} and found["features"] == 3
    assert set(found["metrics"]) == {"train", "valid"}
    booster = xgb.Booster(model_file="m.json")
    assert booster.num_boosted_rounds() == 5
    assert booster.feature_names == ["city", "age", "pay"]


def test_the_model_is_the_one_of_the_library(folder):
    train("score", "--split", 0, "--eta", 0.1, "--max_depth", 3, "--lambda", 2)
    frame = table().astype({"city": "category"})
    data = xgb.DMatrix(frame[["city", "age", "pay"]], frame["score"], enable_categorical=True)
    params = {"eta": 0.1, "max_depth": 3, "reg_lambda": 2}
    own = xgb.train(params, data, 10)
    np.testing.assert_array_equal(xgb.Booster(model_file="m.json").predict(data), own.predict(data))


def test_whole_numbers_leave_a_doubt(folder, capsys):
    run("train", "three.csv", "-t", "three", "--drop", "id", "-m", "m.json", "-n", 1)
    assert "if they are quantities: --task regression" in " ".join(capsys.readouterr().out.split())
    run("train", "three.csv", "-t", "age", "--drop", "id", "-m", "m.json", "-n", 1)
    shown = " ".join(capsys.readouterr().out.split())
    assert "age: regression; if the numbers are classes: --task multiclass" in shown


def test_text_is_for_people(folder, capsys):
    run("train", "label.csv", "-t", "label", "--drop", "id", "-m", "m.json", "-n", 5)
    shown = capsys.readouterr().out
    for words in ("240 to learn from, 60 held out", "1 of them categorical", "poor, rich", "accuracy", "m.json"):
        assert words in shown
    run("train", "label.csv", "-t", "label", "-m", "m.json", "-n", 2, "--quiet")
    assert capsys.readouterr().out == ""


def test_early_stopping_refit_metrics_and_resume(folder, capsys):
    options = ("train", "label.csv", "-t", "label", "--drop", "id", "-m", "m.json")
    stopped = answer(capsys, *options, "--early-stopping", 5, "--metrics", "metrics.json")
    assert stopped["best_iteration"] + 6 == stopped["rounds"] < 1000
    history = json.loads((folder / "metrics.json").read_text())["history"]
    assert len(history["valid"]["logloss"]) == stopped["rounds"]
    refit = answer(capsys, *options, "--early-stopping", 5, "--refit")
    assert refit["rounds"] == stopped["best_iteration"] + 1
    more = answer(capsys, *options, "-n", 3, "--resume", "m.json")
    assert more["rounds"] == refit["rounds"] + 3
    run(*options, "--early-stopping", 5, "--split", 0, status=2)
    assert "needs held-out rows" in capsys.readouterr().err


def test_held_out_file_weights_and_seed(folder, capsys):
    frame = table(1).assign(w=np.linspace(0.5, 2, N_ROWS)).drop(columns=["three", "score"])
    frame.to_csv("a.csv", index=False)
    frame.iloc[:50, ::-1].to_csv("b.csv", index=False)  # columns in another order
    options = ("train", "a.csv", "-t", "label", "--drop", "id", "--weight", "w", "-m", "m.json", "-n", 5)
    found = answer(capsys, *options, "--valid", "b.csv")
    assert found["rows"] == {"train": 300, "valid": 50} and found["features"] == 3
    first, same, other = (answer(capsys, *options, "--seed", seed)["metrics"] for seed in (1, 1, 2))
    assert first == same != other


def test_configuration_in_toml_and_json(folder, capsys):
    (folder / "c.toml").write_text('target = "label"\nrounds = 4\ndrop = ["id"]\n[params]\neta = 0.05\nmax-depth = 2\n')
    found = answer(capsys, "train", "label.csv", "--config", "c.toml", "-m", "m.json")
    assert found["rounds"] == 4 and found["features"] == 3
    assert found["parameters"] == {"objective": "binary:logistic", "eta": 0.05, "max_depth": 2}
    (folder / "c.json").write_text(json.dumps({"target": "label", "rounds": 4, "eval_metric": ["auc", "logloss"]}))
    found = answer(capsys, "train", "label.csv", "-c", "c.json", "-n", 2, "-m", "m.json")
    assert found["rounds"] == 2 and found["parameters"]["eval_metric"] == ["auc", "logloss"]
    (folder / "c.toml").write_text("max_dept = 2\n")
    run("train", "label.csv", "-c", "c.toml", status=2)
    assert "unknown name 'max_dept'" in capsys.readouterr().err
    (folder / "c.toml").write_text("max_depth = = 2\n")
    run("train", "label.csv", "-c", "c.toml", status=2)


@pytest.mark.parametrize("suffix", ["parquet", "tsv", "libsvm", "txt"])
def test_formats(folder, capsys, suffix):
    frame = table()[["age", "pay", "score"]]
    path, more = f"t.{suffix}", ["--target", "score"]
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "libsvm":
        rows = [f"{r.score:g} 0:{r.age:g} 1:{r.pay:g}" for r in frame.fillna(0).itertuples()]
        (folder / path).write_text("\n".join(rows))
        more = []
    else:
        frame.to_csv(path, sep="\t" if suffix == "tsv" else ";", index=False)
        more += ["--format", "csv", "--delimiter", ";"] if suffix == "txt" else []
    found = answer(capsys, "train", path, *more, "-m", "m.json", "-n", 3)
    assert (found["task"], found["features"]) == ("regression", 2)
    run("predict", path, *(more if suffix == "txt" else [])[2:], "-m", "m.json", "-o", "p.csv")
    assert len(pd.read_csv("p.csv")) == N_ROWS


def test_compressed_text_and_words_for_missing(folder, capsys):
    table()[["age", "pay", "score"]].to_csv("t.csv.gz", index=False, na_rep="?")
    found = answer(capsys, "train", "t.csv.gz", "-t", "score", "-m", "m.json", "-n", 3, "--missing", "?")
    assert found["features"] == 2
    assert xgb.Booster(model_file="m.json").feature_types == ["int", "float"]
    table()[["age", "score"]].to_parquet("t.parquet")
    run("train", "t.parquet", "-t", "score", "--missing", "?", status=1)


def test_types_are_found_from_all_rows(folder, capsys):
    (folder / "long.csv").write_text("a,b,y\n" + "100000,7,0\n" * 120_000 + "0.5,x,1\n" * 3)
    found = answer(capsys, "train", "long.csv", "-t", "y", "-m", "m.json", "-n", 1, "--task", "regression")
    assert found["rows"] == {"train": 96_002, "valid": 24_001}
    assert xgb.Booster(model_file="m.json").feature_types == ["float", "c"]


def test_libsvm_files_with_fewer_features(folder, capsys):
    rows = [f"{k % 2} 0:{k} 1:{k % 5} 2:{k % 2 + 0.5}" for k in range(80)]
    (folder / "a.libsvm").write_text("\n".join(rows))
    (folder / "b.libsvm").write_text("\n".join(row.rpartition(" ")[0] for row in rows))
    found = answer(capsys, "train", "a.libsvm", "--valid", "b.libsvm", "-m", "m.json", "-n", 2)
    assert found["task"] == "binary" and found["metrics"]["train"]["accuracy"] == 1
    run("predict", "b.libsvm", "-m", "m.json", "-o", "p.csv")
    assert len(pd.read_csv("p.csv")) == 80
    assert answer(capsys, "evaluate", "b.libsvm", "-m", "m.json")["metrics"] == found["metrics"]["valid"]


def test_file_without_header_and_columns_by_number(folder, capsys):
    table()[["age", "pay", "score"]].to_csv("bare.csv", index=False, header=False)
    found = answer(capsys, "train", "bare.csv", "--target", "-1", "-m", "m.json", "-n", 3)
    assert found["target"] == ["f2"] and found["features"] == 2


def test_ranking_keeps_groups_whole(folder, capsys):
    frame = table()[["age", "pay", "three"]].assign(q=[f"q{i % 30}" for i in range(N_ROWS)])  # rows of groups apart
    frame.to_csv("rank.csv", index=False)
    found = answer(capsys, "train", "rank.csv", "-t", "three", "--group", "q", "-m", "m.json", "-n", 5)
    assert found["task"] == "ranking" and found["objective"] == "rank:ndcg"
    assert found["rows"] == {"train": 240, "valid": 60}
    assert 0.5 < found["metrics"]["valid"]["ndcg"] <= 1
    scores = answer(capsys, "evaluate", "rank.csv", "-t", "three", "--group", "q", "-m", "m.json")["metrics"]
    assert scores["ndcg"] > 0.7


def test_several_targets_and_other_objectives(folder, capsys):
    table()[["age", "pay", "score", "three"]].to_csv("two.csv", index=False)
    found = answer(capsys, "train", "two.csv", "-t", "score", "-t", "three", "-m", "m.json", "-n", 3)
    assert found["target"] == ["score", "three"]
    run("predict", "two.csv", "-m", "m.json", "-o", "p.csv")
    assert list(pd.read_csv("p.csv")) == ["prediction_0", "prediction_1"]
    found = answer(capsys, "train", "two.csv", "-t", "three", "-m", "m.json", "-n", 3, "--objective", "count:poisson")
    assert (found["task"], found["objective"]) == ("regression", "count:poisson")
    found = answer(capsys, "train", "two.csv", "-t", "three", "-m", "m.json", "-n", 3, "--task", "regression")
    assert found["objective"] == "reg:squarederror"


def test_structured_parameters(folder, capsys):
    """Constraints by name and lists of numbers, as flags and in a configuration."""
    options = ("train", "score.csv", "-t", "score", "--drop", "id", "-m", "m.json", "-n", 3)
    flags = ("--monotone-constraints", '{"age": 1}', "--interaction-constraints", '[["age", "pay"]]')
    found = answer(capsys, *options, *flags, "--objective", "reg:quantileerror", "--quantile-alpha", "[0.1, 0.9]")
    assert "quantile" in found["metrics"]["valid"]
    (folder / "c.toml").write_text(
        'objective = "reg:quantileerror"\nquantile_alpha = [0.1, 0.9]\n'
        'monotone_constraints = {age = 1}\ninteraction_constraints = [["age", "pay"]]\n'
    )
    assert answer(capsys, *options, "-c", "c.toml")["metrics"] == found["metrics"]
    run("predict", "score.csv", "-m", "m.json", "-o", "p.csv")
    assert list(pd.read_csv("p.csv")) == ["prediction_0", "prediction_1"]


def test_categories_times_and_truth_values(folder, capsys):
    frame = table()[["age", "label"]].assign(
        zone=np.arange(N_ROWS) % 3, day=pd.date_range("2020-01-01", periods=N_ROWS), flag=np.arange(N_ROWS) % 2 == 0
    )
    frame.to_csv("kinds.csv", index=False)
    run("train", "kinds.csv", "-t", "label", "--categories", "zone", "-m", "m.json", "-n", 3, "-q")
    types = dict(zip(*(getattr(xgb.Booster(model_file="m.json"), name) for name in ("feature_names", "feature_types"))))
    assert types == {"age": "int", "zone": "c", "day": "float", "flag": "i"}
    run("predict", "kinds.csv", "-m", "m.json", "-o", "p.csv")
    found = answer(capsys, "train", "kinds.csv", "-t", "flag", "--drop", "label,day", "-m", "m.json", "-n", 3)
    assert found["classes"] == ["False", "True"] and found["features"] == 2


# ---- predict, evaluate, explain ----


def test_predictions_have_names_and_order(folder):
    train("label")
    shuffled = table(2).iloc[:, ::-1]
    shuffled.to_csv("new.csv", index=False)
    run("predict", "new.csv", "--model", "m.json", "--out", "p.csv", "--keep", "id")
    found = pd.read_csv("p.csv")
    assert list(found) == ["id", "prediction", "p(poor)", "p(rich)"]
    assert found["id"].tolist() == shuffled["id"].tolist()
    assert set(found["prediction"]) == {"poor", "rich"}
    booster = xgb.Booster(model_file="m.json")
    frame = shuffled[booster.feature_names].astype({"city": "category"})
    own = booster.predict(xgb.DMatrix(frame, enable_categorical=True))
    np.testing.assert_allclose(found["p(rich)"], own, rtol=1e-6)
    assert ((found["prediction"] == "rich") == (own > 0.5)).all()


def test_class_numbers_come_back(folder):
    train("three")
    run("predict", "three.csv", "-m", "m.json", "-o", "p.parquet")
    found = pd.read_parquet("p.parquet")
    assert set(found["prediction"]) <= {1, 2, 3} and found["prediction"].dtype == np.int64
    np.testing.assert_allclose(found[["p(1)", "p(2)", "p(3)"]].sum(axis=1), 1, rtol=1e-5)
    run("predict", "three.csv", "-m", "m.json", "-o", "v.csv", "--kind", "value")
    assert list(pd.read_csv("v.csv")) == ["prediction"]
    run("predict", "three.csv", "-m", "m.json", "-o", "v.csv", "--kind", "margin", "--rounds", 2)
    assert list(pd.read_csv("v.csv")) == ["margin_0", "margin_1", "margin_2"]


def test_names_with_commas_and_quotes_survive(folder):
    names = np.array(['a, "b"', "c\nd"])
    table().assign(label=lambda t: names[(t.label == "rich") * 1]).drop(columns=["three", "score"]).to_csv("odd.csv")
    run("train", "odd.csv", "-t", "label", "--drop", "0,id", "-m", "m.json", "-n", 3, "-q")
    run("predict", "odd.csv", "-m", "m.json", "-o", "p.csv")
    found = pd.read_csv("p.csv")
    assert set(found["prediction"]) <= set(names.tolist())
    assert list(found)[1:] == [f"p({name})" for name in names]


def test_new_categories_and_numbers_as_text(folder, capsys):
    frame = table().assign(city=np.arange(N_ROWS) % 3)
    frame.drop(columns=["three", "score", "id"]).to_csv("n.csv", index=False)
    run("train", "n.csv", "-t", "label", "--categories", "city", "-m", "m.json", "-n", 5, "-q")
    frame.assign(city=frame.city + 1).to_csv("new.csv", index=False)
    run("predict", "new.csv", "-m", "m.json", "-o", "p.csv")
    assert "'city' has categories unknown to the model, taken as missing: 3" in capsys.readouterr().err
    frame.assign(age="old").to_csv("new.csv", index=False)
    run("predict", "new.csv", "-m", "m.json", "-o", "p.csv", status=1)
    assert "column 'age' has text ('old'); the model knows it as numbers" in " ".join(capsys.readouterr().err.split())


def test_models_of_python_and_of_xgboost(folder):
    theirs = pytest.importorskip("xgboost")
    frame = table()
    for module in (xgb, theirs):
        data = module.DMatrix(frame[["age", "pay"]], frame["three"] - 1)
        module.train({"objective": "multi:softprob", "num_class": 3}, data, 3).save_model("other.json")
        run("predict", "three.csv", "-m", "other.json", "-o", "p.csv")
        assert set(pd.read_csv("p.csv")["prediction"]) <= {0, 1, 2}
    train("label")
    assert theirs.Booster(model_file="m.json").num_boosted_rounds() == 10


def test_evaluate(folder, capsys):
    train("label")
    found = answer(capsys, "evaluate", "label.csv", "--target", "label", "--model", "m.json")
    booster, frame = xgb.Booster(model_file="m.json"), table().astype({"city": "category"})
    own = booster.predict(xgb.DMatrix(frame[booster.feature_names], enable_categorical=True)) > 0.5
    assert found["metrics"]["accuracy"] == pytest.approx(np.mean(own == (frame.label == "rich")))
    assert np.trace(found["confusion"]) == round(found["metrics"]["accuracy"] * N_ROWS)
    assert answer(capsys, "evaluate", "label.csv", "--model", "m.json") == found  # the model knows its target
    table().assign(label="middle").to_csv("odd.csv", index=False)
    run("evaluate", "odd.csv", "-m", "m.json", status=1)
    assert "classes that the model was not trained on: middle" in " ".join(capsys.readouterr().err.split())
    train("score")
    scores = answer(capsys, "evaluate", "score.csv", "-m", "m.json")["metrics"]
    residual = table().score - xgb.Booster(model_file="m.json").predict(
        xgb.DMatrix(frame[["city", "age", "pay"]], enable_categorical=True)
    )
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-5)
    assert scores["r2"] == pytest.approx(1 - np.mean(residual**2) / np.var(table().score), rel=1e-4)


def test_explain_adds_up(folder, capsys):
    pytest.importorskip("matplotlib")
    train("label")
    found = answer(capsys, "explain", "label.csv", "-m", "m.json", "-o", "s.csv", "--plot", "s.png")
    assert set(found["mean_abs_shap"]) == {"city", "age", "pay"}
    run("predict", "label.csv", "-m", "m.json", "--kind", "margin", "-o", "p.csv")
    np.testing.assert_allclose(pd.read_csv("s.csv").sum(axis=1), pd.read_csv("p.csv")["margin"], atol=1e-4)
    assert (folder / "s.png").read_bytes().startswith(b"\x89PNG")
    train("three")
    run("explain", "three.csv", "-m", "m.json", "-o", "s.csv", "--plot", "s.svg", "--rows", 20)
    assert pd.read_csv("s.csv").shape == (20, 12)


# ---- cv ----


def test_cv_is_the_one_of_the_library(folder, capsys):
    found = answer(capsys, "cv", "score.csv", "--target", "score", "--drop", "id", "-n", 8, "--folds", 4, "-o", "h.csv")
    frame = table().astype({"city": "category"})
    data = xgb.DMatrix(frame[["city", "age", "pay"]], frame["score"], enable_categorical=True)
    own = xgb.cv({}, data, 8, nfold=4, as_pandas=False)
    assert found["history"] == own and found["rounds"] == 8
    best = int(np.argmin(own["test-rmse-mean"]))
    assert found["metrics"]["test-rmse"]["best_round"] == best + 1
    assert len(pd.read_csv("h.csv")) == 8
    run("cv", "label.csv", "--target", "label", "-n", 3)
    assert "5 folds x 3 rounds" in capsys.readouterr().out


# ---- pipes and faults ----


def shell(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "arboost", *arguments], capture_output=True, check=False, **options)


def test_pipes(folder):
    text = (folder / "label.csv").read_bytes()
    made = shell("train", "-", "--target", "label", "--drop", "id", "-m", "m.json", "-n", "3", "--json", input=text)
    assert made.returncode == 0 and json.loads(made.stdout)["rounds"] == 3
    found = shell("predict", "-", "--model", "m.json", input=text)
    assert found.returncode == 0 and found.stderr == b""
    assert len(pd.read_csv(io.BytesIO(found.stdout))) == N_ROWS


def test_errors_have_no_traceback_and_a_status(folder):
    failed = shell("train", "label.csv", "--target", "labl")
    assert failed.returncode == 1 and b"Traceback" not in failed.stderr
    assert b'Did you mean "label"' in failed.stderr
    failed = shell("train", "label.csv", "--max-depth", "-3")
    assert failed.returncode == 2 and b"Traceback" not in failed.stderr and b"max_depth" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["train", "nothing.csv", "-t", "y"], 1, "nothing.csv: no such file"),
        (["train", ".", "-t", "y", "--format", "csv"], 1, "is a directory"),
        (["train", "label.csv"], 1, "Say which column to predict"),
        (["train", "label.csv", "-t", "label", "--drop", "nope"], 1, "has no column 'nope'"),
        (["train", "label.csv", "-t", "label", "-m", "no/such/m.json"], 2, "there is no folder"),
        (["train", "label.csv", "-t", "label", "-m", "m.txt"], 2, "saved as .json or .ubj"),
        (["train", "label.csv", "-t", "label", "--task", "regression"], 1, "has text in it"),
        (["train", "three.csv", "-t", "three", "--objective", "binary:logistic"], 1, "has 3 classes"),
        (["train", "label.csv", "-t", "label", "--eta", "fast"], 2, "eta"),
        (["train", "bad.csv", "-t", "y"], 1, "cannot be read as csv"),
        (["train", "bad.parquet", "-t", "y"], 1, "is not a readable Parquet file"),
        (["train", "bad.libsvm"], 1, "line 1"),
        (["train", "one.csv", "-t", "y"], 1, "nothing to learn"),
        (["train", "twice.csv", "-t", "y"], 1, "two columns named 'a'"),
        (["train", "alone.csv", "-t", "y"], 1, "no columns left"),
        (["predict", "label.csv", "-m", "nothing.json"], 2, "does not exist"),
        (["predict", "label.csv", "-m", "bad.csv"], 1, ""),
        (["predict", "score.csv", "-m", "m.json", "--keep", "nope"], 1, "has no column 'nope'"),
        (["predict", "alone.csv", "-m", "m.json"], 1, "lacks 3 columns that the model needs: city, age, pay"),
        (["cv", "alone.csv", "-t", "y"], 1, "no columns left"),
        (["dump", "m.json", "--tree", "99"], 2, "trees 0 to 9"),
        (["convert", "m.json", "m.pmml"], 2, "told by the suffix"),
        (["plot", "m.json", "-o", "p.gif"], 2, "told by the suffix"),
        (["plot", "m.json", "--kind", "metric"], 1, "has no scores of training"),
        (["trace"], 2, "--example"),
        (["bench", "three.csv", "-t", "three"], 1, "cannot be compared"),
        (["bench", "--peers", "catbost"], 1, "Unknown library"),
    ],
)  # fmt: skip
def test_faults_are_named(folder, capsys, arguments, status, message):
    (folder / "bad.csv").write_text("a,y\n1,2\n3\n")
    (folder / "bad.parquet").write_bytes(b"PAR1 nonsense PAR1")
    (folder / "bad.libsvm").write_text("1 x:2\n")
    (folder / "one.csv").write_text("a,y\n" + "1,c\n" * 60)
    (folder / "twice.csv").write_text("a,a,y\n1,2,3\n")
    (folder / "alone.csv").write_text("y\n" + "1\n2\n" * 40)
    if "m.json" in arguments and arguments[0] != "train":
        train("label")
    run(*arguments, status=status)
    captured = capsys.readouterr()
    shown = " ".join(captured.err.replace("│", " ").split())
    assert message in shown and "Traceback" not in shown
    if arguments[0] in ("train", "predict", "cv"):
        assert "error" in answer(capsys, *arguments, status=status)


def test_names_that_models_cannot_hold_and_ids(folder, capsys):
    frame = table()[["age", "pay", "score"]].rename(columns={"age": "age[years]", "pay": "a<b", "score": "y[1]"})
    frame.to_csv("odd.csv")  # pandas writes its index as a column without a name
    found = answer(capsys, "train", "odd.csv", "-t", "y[1]", "-m", "m.json", "-n", 2)
    assert found["target"] == ["y(1)"]
    assert xgb.Booster(model_file="m.json").feature_names == ["column0", "age(years)", "a_b"]
    run("train", "odd.csv", "-t", "y[1]", "-m", "m.json", "-n", 2)
    assert "'column0' is different in every row. An id?" in capsys.readouterr().err
    run("predict", "odd.csv", "-m", "m.json", "-o", "p.csv")


def test_rows_without_a_target_are_left_out(folder, capsys):
    frame = table()[["age", "pay", "label"]]
    frame.loc[:9, "label"] = None
    frame.to_csv("holes.csv", index=False)
    found = answer(capsys, "train", "holes.csv", "-t", "label", "-m", "m.json", "-n", 2)
    assert sum(found["rows"].values()) == N_ROWS - 10


def test_an_interrupt_keeps_the_finished_rounds(folder, monkeypatch, capsys):
    from arboost.cli import show

    class Stop(xgb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == 4:
                raise KeyboardInterrupt
            return False

    monkeypatch.setattr(show, "rounds_bar", lambda n, shown: Stop())
    run("train", "label.csv", "-t", "label", "-m", "m.json", "-n", 50, "-q", status=130)
    assert "finished rounds are saved: m.json" in " ".join(capsys.readouterr().err.split())
    run("predict", "label.csv", "-m", "m.json", "-o", "p.csv")


# ---- what scripts and terminals of all kinds rely on ----


@pytest.mark.parametrize(("mark", "words"), [(";", "parted by ;"), ("\t", "parted by tabs"), ("|", "parted by |")])
def test_fields_parted_by_another_mark_are_seen(folder, capsys, mark, words):
    table()[["age", "pay", "score"]].to_csv("other.csv", index=False, sep=mark)
    run("train", "other.csv", "-t", "score", "-m", "m.json", "-n", 2)
    assert words in capsys.readouterr().err
    assert xgb.Booster(model_file="m.json").feature_names == ["age", "pay"]
    run("predict", "other.csv", "-m", "m.json", "--delimiter", {"\t": "tab"}.get(mark, mark), "-o", "p.csv")
    assert "delimiter" in answer(capsys, "train", "other.csv", "--delimiter", "ab", status=2)["error"]


def test_compressed_tables_come_by_a_pipe_and_go_to_a_file(folder):
    train("label")
    packed = gzip.compress((folder / "label.csv").read_bytes())
    found = shell("predict", "-", "-m", "m.json", "-o", "p.csv.gz", input=packed)
    assert found.returncode == 0
    run("predict", "label.csv", "-m", "m.json", "-o", "p.csv")
    assert gzip.decompress((folder / "p.csv.gz").read_bytes()) == (folder / "p.csv").read_bytes()
    for broken in (packed[:200], packed[:-20]):
        failed = shell("predict", "-", "-m", "m.json", input=broken)
        assert failed.returncode == 1 and failed.stderr.startswith(b"error: standard input cannot be unpacked")
    failed = shell("predict", "-", "-m", "m.json", input="h\xe4user\n1\n".encode("latin-1"))
    assert failed.stderr.startswith(b"error: standard input, line 1: not text in UTF-8")


def test_errors_and_notes_are_one_line_however_narrow_the_terminal(folder, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "30")
    train("label")
    frame = table()[["city", "age", "pay"]].assign(city="Honolulu")
    frame.to_csv("far.csv", index=False)
    run("predict", "far.csv", "-m", "m.json", "-o", "p.csv")
    assert "note: far.csv: 'city' has categories unknown to the model, taken as missing: Honolulu\n" in (
        capsys.readouterr().err
    )
    run("train", "label.csv", "-t", "labl", status=1)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_bars_fit_a_narrow_terminal(folder, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "30")
    run("train", "score.csv", "-t", "score", "--drop", "id", "-m", "m.json", "-n", 5)
    lines = capsys.readouterr().out.splitlines()
    bars = [line for line in lines if "\N{FULL BLOCK}" in line]
    assert len(bars) == 3 and all(len(line) <= 30 and line.rstrip().endswith("%") for line in bars)


def test_quiet_says_nothing_but_errors(folder, capsys):
    run("train", "score.csv", "-t", "score", "-m", "m.json", "-n", 2, "-q")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    run("train", "score.csv", "-t", "scoer", "-m", "m.json", "-n", 2, "-q", status=1)
    assert capsys.readouterr().err.startswith("error: ")


def test_warnings_of_the_library_are_notes(folder, capsys):
    train("label")
    frame = table().drop(columns=["three", "score"])
    frame[frame.label == "rich"].to_csv("rich.csv", index=False)
    run("evaluate", "rich.csv", "-m", "m.json")
    shown = capsys.readouterr().err
    assert shown.startswith("note: auc: dataset is empty") and "UserWarning" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "label.csv", "-t", "label", "--report", "no/r.html"], "there is no folder"),
        (["train", "label.csv", "-t", "label", "--metrics", "no/r.json"], "there is no folder"),
        (["predict", "label.csv", "-m", "m.json", "-o", "p.xlsx"], "told by the suffix"),
        (["predict", "label.csv", "-m", "m.json", "-o", "."], "is a directory"),
        (["explain", "label.csv", "-m", "m.json", "--plot", "p.gif"], "told by the suffix"),
        (["trace", "--example", "salary", "--html", "no/s.html"], "there is no folder"),
        (["convert", "m.json", "no/m.ubj"], "there is no folder"),
        (["train", "label.csv", "-t", "label", "-n", "many"], "'many' is not a valid whole number"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(folder, capsys, arguments, message):
    train("label")
    before = sorted(folder.iterdir())
    run(*arguments, status=2)
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert sorted(folder.iterdir()) == before


def test_a_file_that_is_no_model_is_named(folder, capsys):
    (folder / "wrong.json").write_text('{"a": 1}')
    for name in ("wrong.json", "label.csv"):
        shown = answer(capsys, "predict", "score.csv", "-m", name, "-o", "p.csv", status=1)["error"]
        assert shown.startswith(f"{name} is no model that can be read")


def test_json_has_no_numbers_that_are_none(folder, capsys):
    frame = table().drop(columns=["three", "score"])
    frame[frame.label == "rich"].to_csv("rich.csv", index=False)
    common = ["label.csv", "-t", "label", "--drop", "id", "--eval-metric", "auc", "-n", 2]
    run("train", *common, "--valid", "rich.csv", "-m", "m.json", "--metrics", "scores.json", "--json")
    written = (folder / "scores.json").read_text()
    for text in (written, capsys.readouterr().out):
        assert "NaN" not in text and json.loads(text)
    assert json.loads(written)["history"]["valid"]["auc"] == [None, None]
    run("plot", "scores.json", "--kind", "metric", "--out", "curves.png")


def test_predictions_as_json(folder, capsys):
    train("label")
    run("predict", "label.csv", "-m", "m.json", "--keep", "id", "-o", "p.csv")
    found = answer(capsys, "predict", "label.csv", "-m", "m.json", "--keep", "id")
    assert found["rows"] == N_ROWS
    pd.testing.assert_frame_equal(pd.DataFrame(found["predictions"]), pd.read_csv("p.csv"), rtol=1e-6)


def test_shap_values_have_stdout_for_themselves(folder, capsys):
    train("score")
    run("explain", "score.csv", "-m", "m.json", "--out", "-")
    captured = capsys.readouterr()
    assert list(pd.read_csv(io.StringIO(captured.out)).columns) == ["city", "age", "pay", "(bias)"]
    assert "Mean |SHAP|" in captured.err


def test_a_model_remembers_what_it_is_judged_by(folder, capsys):
    frame = table()[["age", "pay"]].assign(grade=table()["three"], query=np.arange(N_ROWS) // 10)
    frame.to_csv("ranked.csv", index=False)
    run("train", "ranked.csv", "-t", "grade", "--group", "3", "-m", "r.json", "-n", 3, "-q")
    own = answer(capsys, "evaluate", "ranked.csv", "-m", "r.json")
    told = answer(capsys, "evaluate", "ranked.csv", "-m", "r.json", "--target", "grade", "--group", "query")
    assert own == told
    booster = xgb.Booster(model_file="r.json")
    booster.set_attr(arboost_cli=None)
    booster.save_model("bare.json")
    assert "--group" in answer(capsys, "evaluate", "ranked.csv", "-m", "bare.json", "-t", "grade", status=2)["error"]


def test_survival_is_judged_by_the_order_too(folder, capsys):
    frame = table()[["age", "pay"]]
    low = np.exp(frame.age / 40).round(3)
    frame = frame.assign(low=low, high=np.where(frame.index % 3, low, np.inf))
    frame.to_csv("times.csv", index=False)
    run("train", "times.csv", "--lower", "low", "--upper", "high", "-m", "s.json", "-n", 20, "-q")
    found = answer(capsys, "evaluate", "times.csv", "-m", "s.json")["metrics"]
    assert set(found) == {"aft-nloglik", "concordance"} and found["concordance"] > 0.9


def test_groups_of_a_libsvm_file_are_ranked(folder, capsys):
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(3)} qid:{k // 10} 0:{rng.random():.3f} 1:{rng.random():.3f}" for k in range(100)]
    (folder / "ranked.libsvm").write_text("\n".join(lines) + "\n")
    found = answer(capsys, "train", "ranked.libsvm", "-m", "r.json", "-n", 2)
    assert (found["task"], found["objective"]) == ("ranking", "rank:ndcg")
