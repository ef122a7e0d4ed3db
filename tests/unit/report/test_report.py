"""Reports of every kind of model: what is in the page is what the engine says."""

import base64
import copy
import hashlib
import html
import json
import re

import numpy as np
import pytest

import arboost
from arboost.report import report_html, write_report
from arboost.report.numbers import words
from arboost.runtime.errors import XGBoostError
from arboost.survival import concordance_index
from report_cases import CASES, N_ROWS, make_case, read_page


@pytest.fixture(scope="module")
def page_of():
    pages = {}

    def get(name):
        if name not in pages:
            case = make_case(name)
            pages[name] = read_page(report_html(case.model, case.data))
        return pages[name]

    return get


@pytest.mark.parametrize("name", CASES)
def test_every_kind_has_its_sections(name, page_of):
    expected = ["quality", "learning", "importance", "shap", "rows", "trees", "data", "parameters", "reproduce"]
    if name == "gblinear":
        expected = [section for section in expected if section not in ("learning", "trees")]
    assert page_of(name).sections == expected


CHARTS = {
    "binary": {"ROC curve", "Precision and recall", "Calibration", "Confusion matrix"},
    "logitraw": {"ROC curve", "Calibration", "Confusion matrix"},
    "hinge": {"ROC curve", "Confusion matrix"},
    "multiclass": {"Confusion matrix", "Classes", "ROC curve", "Calibration of the chosen class"},
    "multilabel": {"ROC curve", "Confusion matrix"},
    "regression": {"Predicted and actual", "Residuals", "Distribution of residuals", "Calibration"},
    "multi_target": {"Predicted and actual", "Residuals"},
    "shares": {"Predicted and actual", "Residuals"},
    "poisson": {"Calibration", "Lorenz curve", "Observed and expected counts", "Residuals"},
    "quantile": {"Coverage", "Quantiles and labels"},
    "ranking": {"Quality by depth", "Relevance by predicted place", "Groups by ndcg@10", "Size of the groups"},
    "cox": {"Survival by predicted risk", "Calibration: survival of all rows"},
    "aft": {"Survival by predicted risk", "Predicted and observed times"},
}


@pytest.mark.parametrize("name", CHARTS)
def test_every_kind_has_the_charts_that_fit(name, page_of):
    views = page_of(name).charts["quality"]
    assert CHARTS[name] <= {chart["title"] for chart in views[0]["charts"]}
    assert len(views) == {"multilabel": 2, "multi_target": 2, "quantile": 4}.get(name, 1)


@pytest.mark.parametrize("name", CASES)
def test_metrics_are_the_engines(name, page_of):
    case, page = make_case(name), page_of(name)
    line = case.model.eval(case.data)
    own = {metric: float(value) for metric, value in re.findall(r"eval-(\S+?):(\S+)", line)}
    assert own.keys() <= page.metrics.keys()
    for metric, value in own.items():
        assert page.metrics[metric] == pytest.approx(value, rel=1e-15)


def test_metrics_beyond_the_models_own(page_of):
    case = make_case("regression")
    other = case.model.copy()
    other.set_param("eval_metric", "mae")
    assert f"eval-mae:{page_of('regression').metrics['mae']:.17f}" in other.eval(case.data)
    assert {"mlogloss", "merror", "auc", "aucpr"} <= page_of("multiclass").metrics.keys()
    cox = make_case("cox")
    expected = concordance_index(cox.data.get_label(), cox.model.predict(cox.data, output_margin=True))
    assert page_of("cox").metrics["concordance"] == expected


def test_the_curves_agree_with_the_metrics(page_of):
    """The area under the drawn ROC curve, and the counts at a threshold of a half, are the engine's."""
    page = page_of("binary")
    roc = page.chart("ROC curve")["series"][0]
    assert np.trapezoid(roc["y"], roc["x"]) == pytest.approx(page.metrics["auc"], abs=2e-4)
    counts = page.chart("Confusion matrix")
    wrong = counts["fp"][50] + counts["positives"] - counts["tp"][50]
    assert wrong / N_ROWS == pytest.approx(page.metrics["error"], abs=1e-6)
    heat = np.array(page_of("multiclass").chart("Confusion matrix")["counts"])
    assert 1 - np.trace(heat) / N_ROWS == pytest.approx(page_of("multiclass").metrics["merror"], abs=1e-6)


def test_weights_count(page_of):
    case = make_case("binary")
    weight = np.random.default_rng(0).random(N_ROWS)
    data = arboost.DMatrix(case.data.get_data(), case.data.get_label(), weight=weight)
    page = read_page(report_html(case.model, data))
    roc = page.chart("ROC curve")["series"][0]
    assert np.trapezoid(roc["y"], roc["x"]) == pytest.approx(page.metrics["auc"], abs=2e-4)
    assert page.metrics["auc"] != page_of("binary").metrics["auc"]


def test_coverage_of_quantiles_and_quality_by_depth(page_of):
    case = make_case("quantile")
    below = (case.data.get_label()[:, None] <= case.model.predict(case.data)).mean(axis=0)
    assert page_of("quantile").chart("Coverage")["series"][0]["y"] == pytest.approx(below, abs=1e-5)
    case = make_case("ranking")
    other = case.model.copy()
    other.set_param("eval_metric", "ndcg@5")
    depth = page_of("ranking").chart("Quality by depth")["series"][0]
    value = float(other.eval(case.data).partition("eval-ndcg@5:")[2])
    assert depth["y"][depth["x"].index(5)] == pytest.approx(value, rel=1e-6)


def test_learning_curves_from_training_from_cv_or_measured(page_of):
    case, scores = make_case("binary"), {}
    evals = [(case.data, "train")]
    model = arboost.train(case.params, case.data, 9, evals=evals, evals_result=scores, verbose_eval=False)
    page = read_page(report_html(model, case.data, evals_result=scores))
    assert [chart["title"] for chart in page.charts["learning"]] == ["auc", "logloss"]
    recorded = page.chart("logloss")["series"][0]
    assert recorded["y"] == pytest.approx(scores["train"]["logloss"], rel=1e-6)
    measured = read_page(report_html(model, case.data)).chart("logloss")["series"][0]
    assert measured["x"] == list(range(9))
    assert measured["y"] == pytest.approx(scores["train"]["logloss"], rel=1e-6)
    folds = arboost.cv(case.params, case.data, 5, nfold=3)
    band = read_page(report_html(model, evals_result=folds)).chart("auc")["series"][0]
    assert len(band["low"]) == 5 and band["low"][0] <= band["y"][0] <= band["high"][0]


@pytest.mark.parametrize("kind", ["weight", "gain", "cover", "total_gain", "total_cover"])
def test_importance_is_the_boosters(kind, page_of):
    shown = page_of("regression").charts["importance"][kind]
    scores = make_case("regression").model.get_score(importance_type=kind)
    assert dict(zip(shown["names"], shown["values"], strict=True)) == pytest.approx(scores, rel=1e-8)
    assert shown["values"] == sorted(shown["values"], reverse=True)


@pytest.mark.parametrize("name", ["binary", "multiclass", "vector_leaves", "gblinear", "categories"])
def test_rows_add_up_to_the_margin(name, page_of):
    case = make_case(name)
    margin = case.model.predict(case.data, output_margin=True).reshape(N_ROWS, -1)
    leaves = None if name == "gblinear" else case.model.predict(case.data, pred_leaf=True)
    for entry in page_of(name).charts["rows"]:
        for k, part in enumerate(entry["outputs"]):
            total = part["bias"] + sum(step[2] for step in part["steps"]) + part["rest"]
            assert total == pytest.approx(float(margin[entry["row"], k]), abs=1e-4)
            assert part["margin"] == pytest.approx(float(margin[entry["row"], k]), rel=1e-6)
        if leaves is not None:
            assert entry["leaves"] == leaves[entry["row"]].astype(int).tolist()


def test_shap_values_are_the_boosters(page_of):
    case, shap = make_case("multiclass"), page_of("multiclass").charts["shap"]
    values = case.model.predict(case.data, pred_contribs=True)
    names = [f"f{i}" for i in range(5)]
    for k, output in enumerate(shap["outputs"]):
        for feature, shown in zip(shap["features"], output["shap"], strict=True):
            expected = values[shap["rows"], k, names.index(feature["name"])]
            assert shown == pytest.approx(expected.tolist(), rel=1e-3, abs=1e-4)
        assert all(partner is None or 0 <= partner < len(shap["features"]) for partner in output["partner"])


@pytest.mark.parametrize("name", ["regression", "vector_leaves", "dart", "categories"])
def test_trees_are_the_models(name, page_of):
    case, forest = make_case(name), page_of(name).charts["forest"]
    trees = case.model._learner.model.trees
    assert forest["total"] == len(forest["trees"]) == len(trees)
    for shown, tree in zip(forest["trees"], trees, strict=True):
        assert shown["left"] == tree.left.tolist() and shown["right"] == tree.right.tolist()
        assert np.array_equal(np.array(shown["value"], np.float32), tree.threshold)
        assert np.allclose(shown["cover"], tree.cover, rtol=1e-5)
        if name == "vector_leaves":
            assert all(np.array_equal(np.float32(v), tree.vectors[int(n)]) for n, v in shown["vectors"].items())
    if name == "categories":
        words = {word for shown in forest["trees"] for found in shown.get("sets", {}).values() for word in found}
        assert words and words <= {"red", "green", "blue"}


def test_a_model_without_data_and_data_without_labels(page_of):
    case = make_case("multiclass")
    page = read_page(report_html(case.model))
    assert page.sections == ["importance", "trees", "data", "parameters", "reproduce"]
    page = read_page(report_html(case.model, case.data.get_data()))
    assert "shap" in page.sections and not page.metrics
    assert page.charts["quality"][0]["charts"][0]["title"] == "Distribution of predictions"


def test_estimators_bring_classes_curves_and_the_best_round():
    case = make_case("binary")
    X, y = case.data.get_data().toarray(), np.where(case.data.get_label() > 0, "yes", "no")
    model = arboost.XGBClassifier(n_estimators=60, learning_rate=1.0, early_stopping_rounds=3, max_depth=3)
    model.fit(X[:160], y[:160], eval_set=[(X[160:], y[160:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    page = read_page(report_html(model, X[160:], y[160:]))
    assert page.metrics["logloss"] == pytest.approx(model.best_score, rel=1e-15)
    assert page.chart("Confusion matrix")["names"] == ["no", "yes"]
    assert page.chart("logloss")["mark"] == model.best_iteration
    assert len(page.charts["forest"]["trees"]) == model.best_iteration + 1
    with pytest.raises(ValueError, match="not among the classes"):
        report_html(model, X, np.full(len(y), "perhaps"))
    loaded = arboost.Booster(model_file=model.get_booster().save_raw())  # knows its classes too
    assert read_page(report_html(loaded, X, y)).chart("Confusion matrix")["names"] == ["no", "yes"]
    coded = arboost.train({"objective": "binary:logistic"}, arboost.DMatrix(X, y == "yes"), 2)
    named = read_page(report_html(coded, X, y, class_names=["no", "yes"]))
    assert named.metrics == read_page(report_html(coded, X, y == "yes")).metrics


def test_a_ranker_takes_its_groups_from_the_frame():
    import pandas as pd

    case = make_case("ranking")
    frame = pd.DataFrame(case.data.get_data().toarray(), columns=list("abcde"))
    frame["qid"] = np.repeat(np.arange(13), case.data.get_group())
    model = arboost.XGBRanker(n_estimators=3).fit(frame, case.data.get_label())
    page = read_page(report_html(model, frame, case.data.get_label()))
    assert page.metrics["ndcg@10"] > 0.5
    assert page.chart("Size of the groups")


def test_frames_categories_and_binned_data(page_of):
    assert [f["name"] for f in page_of("categories").charts["shap"]["features"]].count("color") == 1
    color = next(f for f in page_of("categories").charts["shap"]["features"] if f["name"] == "color")
    assert color["categories"] == {"0": "blue", "1": "green", "2": "red"}
    case = make_case("regression")
    binned = arboost.QuantileDMatrix(case.data.get_data(), case.data.get_label())
    assert "rmse" in read_page(report_html(case.model, binned)).metrics


def test_a_file_with_the_label_by_name(tmp_path):
    import pandas as pd

    case = make_case("regression")
    frame = pd.DataFrame(case.data.get_data().toarray(), columns=list("abcde")).assign(y=case.data.get_label())
    model = arboost.XGBRegressor(n_estimators=3).fit(frame[list("abcde")], frame["y"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    page = read_page(report_html(model, tmp_path / "rows.csv", "y"))
    assert page.metrics["rmse"] == read_page(report_html(model, frame[list("abcde")], frame["y"])).metrics["rmse"]


def test_a_matrix_that_is_given_stays_as_it_is():
    case = make_case("regression")
    label = case.data.get_label()
    page = read_page(report_html(case.model, case.data, label + 1))
    assert np.array_equal(case.data.get_label(), label)
    assert page.metrics["rmse"] > 0.5


def test_rounds_can_be_chosen():
    case = make_case("regression")
    page = read_page(report_html(case.model, case.data, iteration_range=(0, 2)))
    value = float(case.model[:2].eval(case.data).rpartition(":")[2])
    assert page.metrics["rmse"] == pytest.approx(value, rel=1e-15)
    assert page.charts["forest"]["total"] == 2


def test_large_data_is_sampled_and_the_page_says_so():
    X = np.random.default_rng(0).normal(size=(5000, 3)).astype(np.float32)
    y = np.random.default_rng(1).normal(size=5000)
    model = arboost.train({"max_depth": 9}, arboost.DMatrix(X, y), 100)
    page = read_page(report_html(model, X, y))
    assert len(page.charts["shap"]["rows"]) == 600
    assert "A sample of 600 of 5,000 rows" in page.text
    assert page.chart("Residuals")["note"] == "A sample of 1,500 of 5,000 rows."
    forest = page.charts["forest"]
    assert len(forest["trees"]) < forest["total"] == 100
    assert f"The first {len(forest['trees'])} of 100 trees" in page.text
    assert len(page.text) < 3_000_000
    everything = read_page(report_html(model, X[:50], y[:50], max_sample=20))
    assert len(everything.charts["shap"]["rows"]) == 20


def test_the_same_page_twice(page_of):
    case = make_case("binary")
    assert report_html(case.model, case.data) == page_of("binary").text
    assert report_html(case.model.copy(), copy.copy(case.data)) == page_of("binary").text


HOSTILE = "\"><img src=x onerror=alert(1)>&amp;</script><script>alert(2)</script>\u2028'"


def test_hostile_names_are_text():
    """Names with < are refused by matrices, but model files, classes, categories and titles may hold anything."""
    import pandas as pd

    rng = np.random.default_rng(0)
    kinds = pd.Categorical(rng.choice([HOSTILE, "b"], 100))
    frame = pd.DataFrame({"x": rng.normal(size=100), "kind": kinds})
    label = np.where((frame.kind == HOSTILE) ^ (rng.random(100) < 0.2), HOSTILE, "no")
    model = arboost.XGBClassifier(n_estimators=2, enable_categorical=True, max_cat_to_onehot=1).fit(frame, label)
    model.get_booster().set_attr(note=HOSTILE)
    model.get_booster().feature_names = [HOSTILE, "kind"]
    codes = np.column_stack([frame["x"], frame["kind"].cat.codes]).astype(np.float32)
    data = arboost.DMatrix(codes, label=label == HOSTILE, feature_types=["float", "c"])
    page = read_page(report_html(model, data, title=HOSTILE))
    body = page.text.partition("<body>")[2]
    assert "<img" not in body and "alert(1)" in body
    assert len(re.findall(r"<script", body)) == 2 and len(re.findall(r"</script", body)) == 2
    assert page.charts["shap"]["features"] and HOSTILE in json.dumps(page.charts, ensure_ascii=False).replace(
        '\\"', '"'
    )
    assert html.escape(HOSTILE) in page.text


def test_only_the_pages_own_script_may_run(page_of):
    text = page_of("binary").text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert not re.search(r'(src|href)="(?!#)', text)


def test_the_program_in_the_page_makes_the_same_model(page_of):
    case = make_case("regression")
    program = html.unescape(re.search(r"<pre><code>(.*?)</code></pre>", page_of("regression").text, re.DOTALL)[1])
    exec(program, {"X": case.data.get_data(), "y": case.data.get_label()})
    X, y = case.data.get_data().toarray(), case.data.get_label() > 0
    model = arboost.XGBClassifier(n_estimators=3, max_depth=2, learning_rate=0.5).fit(X, y)
    program = html.unescape(re.search(r"<pre><code>(.*?)</code></pre>", report_html(model), re.DOTALL)[1])
    assert "enable_categorical" not in program  # only what differs from the defaults
    exec(program, {"X": X, "y": y})
    stopped = arboost.train(
        {"max_depth": 3}, case.data, 40, evals=[(case.data, "e")], early_stopping_rounds=1, verbose_eval=False
    )
    program = html.unescape(re.search(r"<pre><code>(.*?)</code></pre>", report_html(stopped), re.DOTALL)[1])
    exec(program, {"X": case.data.get_data(), "y": case.data.get_label()})


def test_a_loaded_model_is_loaded_again(tmp_path):
    make_case("regression").model.save_model(tmp_path / "m.json")
    text = report_html(arboost.Booster(model_file=tmp_path / "m.json"))
    assert "knows the objective only" in text


def test_write_report_writes_all_or_nothing(tmp_path, page_of):
    case = make_case("binary")
    write_report(case.model, tmp_path / "r.html", case.data)
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page_of("binary").text
    with pytest.raises(TypeError, match="Booster or a fitted estimator"):
        write_report("model.json", tmp_path / "other.html")
    with pytest.raises(OSError):
        write_report(case.model, tmp_path / "absent" / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_what_cannot_be_reported_is_refused():
    case = make_case("regression")
    with pytest.raises(XGBoostError, match="not been trained"):
        report_html(arboost.Booster())
    with pytest.raises(ValueError, match="needs `data`"):
        report_html(case.model, label=[1.0])
    with pytest.raises(ValueError, match="no rows"):
        report_html(case.model, np.zeros((0, 5)))
    with pytest.raises(ValueError, match="shape mismatch"):
        report_html(case.model, np.zeros((3, 4)))
    with pytest.raises(ValueError, match="max_sample"):
        report_html(case.model, case.data, max_sample=0)
    with pytest.raises(ValueError, match="0 to 2"):
        report_html(make_case("multiclass").model, case.data.get_data(), np.full(N_ROWS, 3))
    with pytest.raises(ValueError, match="class_names"):
        report_html(make_case("multiclass").model, class_names=["one"])


def test_a_report_does_not_warn_of_parameters_again(recwarn):
    case = make_case("regression")
    with pytest.warns(UserWarning, match="not used"):
        model = arboost.train({"rate_drop": 0.1}, case.data, 3)
    recwarn.clear()
    report_html(model, case.data, iteration_range=(0, 2))
    assert not recwarn.list


def test_few_rounds_one_row_and_constant_predictions():
    X = np.zeros((1, 2), np.float32)
    model = arboost.train({}, arboost.DMatrix(X, [1.0]), 1)
    page = read_page(report_html(model, X, [1.0]))
    assert page.metrics["rmse"] >= 0 and "trees" in page.sections


def test_only_what_is_not_a_default_is_listed_and_nothing_of_the_command_line(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 50))
    made = arboost.train({"objective": "binary:logistic", "max_depth": 6}, arboost.DMatrix(X, X[:, 0] > 0), 2)
    made.set_attr(arboost_cli="{}", author="Ada")
    made.save_model(tmp_path / "m.json")
    text = report_html(arboost.Booster(model_file=tmp_path / "m.json"), X)
    given = text[text.index("Not at their defaults") : text.index("parameters in force")]
    assert re.findall(r"<td class=name><b>(\w+)</b>", given) == ["objective"]
    assert "Attribute author" in text and "Attribute arboost_cli" not in text
    assert "<summary>10 more features</summary>" in text


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(11554.4, 4, "11,554"), (123456.7, 5, "123,457"), (1234.56, 5, "1,234.6"), (0.83125, 4, "0.8313"),
     (1e-7, 4, "1e-07"), (-99999.6, 4, "-100,000"), (1e20, 4, "1e+20"), (7.0, 4, "7")],
)  # fmt: skip
def test_numbers_for_readers(value, digits, shown):
    assert words(value, digits) == shown
