"""The trace as text: numbers, tables, and both ways to print it."""

import sys

import numpy as np
import pytest

import arboost
from arboost.trace import text


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (364.5833333, "364.58"),
        (-8.333333, "-8.3333"),
        (0.30000001192092896, "0.3"),
        (0.0, "0"),
        (-0.0, "0"),
        (70.0, "70"),
        (1234567.0, "1234600"),
        (2.5e-7, "2.5e-07"),
        (None, "?"),
    ],
)
def test_numbers_have_five_digits(x, shown):
    assert text.number(x) == shown


def test_salary_is_told_in_order():
    told = arboost.trace.example("salary").text()
    parts = [
        "Salary from age", "Initial prediction: 70 (the mean of the labels)", "Round 1", "-20", "Node 0",
        "0^2 / (5 + 1) = 0", "age < 23.5", "280", "> master's < 0.5", "364.58", "Node 1", "(-25)^2 / (2 + 1) = 208.33",
        "Pruning from the bottom up, gamma = 50", "gain 4.1667 < 50: taken back", "gain 52.083 >= 50: it stays",
        "output -25 / (2 + 1) = -8.3333; times eta 0.3: -2.5", "67.5", "rmse", "Round 2", "-17.5",
    ]  # fmt: skip
    at = 0
    for part in parts:
        assert part in told[at:], part
        at = told.index(part, at)


def test_missing_values_and_log_odds_are_told():
    told = arboost.trace.example("missing").text()
    assert "Split: value < 0.8, gain 5.5556, missing values go left." in told
    assert "log odds" in told


def test_long_tables_say_what_they_leave_out():
    X = np.random.default_rng(0).normal(size=(150, 1))
    told = arboost.trace(X, X[:, 0], {"max_depth": 1}, 1).text()
    assert "... 90 more" in told


def test_classes_and_other_losses_have_their_words():
    X, y = np.arange(9.0)[:, None], np.arange(9) // 3
    told = arboost.trace(X, y, {"objective": "multi:softprob", "num_class": 3, "alpha": 0.1}, 1).text()
    assert "Output 2" in told
    assert "max_delta_step" in told
    told = arboost.trace(X, y + 1, {"objective": "reg:absoluteerror"}, 1).text()
    assert "-gradient" in told
    assert "loss's own best value" in told


@pytest.mark.parametrize(
    ("params", "is_plain"),
    [
        ({"objective": "binary:logistic"}, True),
        ({"objective": "binary:logistic", "scale_pos_weight": 3}, False),  # weighted: -g is no longer y - p
        ({"objective": "binary:logitraw"}, False),  # the prediction is no probability
        ({"objective": "reg:squarederror"}, True),
        ({"objective": "multi:softprob", "num_class": 2}, True),
        ({"objective": "multi:softmax", "num_class": 2}, False),
    ],
)
def test_a_residual_is_called_so_only_where_it_is_one(params, is_plain):
    trace = arboost.trace([[3], [8], [11]], [0, 1, 1], params, 1)
    assert trace.run.params["plain_residuals"] is is_plain
    assert ("-gradient" in trace.text()) is not is_plain


def test_the_start_is_explained():
    X, y = np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 0, 1, 1, 2])
    logistic = arboost.trace(X, y > 0, {"objective": "binary:logistic"}, 1)
    assert "Initial prediction: 0.375 (the mean of the labels)." in logistic.text()
    classes = {"objective": "multi:softprob", "num_class": 3}
    told = arboost.trace(X, y, classes, 1, class_names=["cheap", "fair", "dear"]).text()
    assert "Initial prediction: 0.625, 0.25, 0.125 (the share of each class)." in told
    assert "Class dear" in told and "Output" not in told
    assert "(estimated from the labels)" in arboost.trace(X, y, {"objective": "reg:absoluteerror"}, 1).text()
    assert "(given)" in arboost.trace(X, y, {"base_score": 0.875}, 1).text()


def test_a_narrow_terminal_cuts_no_number(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 5)), rng.normal(size=12)
    names = [f"a long name of column {k}" for k in range(5)]
    trace = arboost.trace(X, y, {"max_depth": 1}, 1, feature_names=names)
    trace.show()
    shown = capsys.readouterr().out
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    numbers = [*(-g for g in trace.rounds[0].trees[0].g), *X.astype(np.float32)[:, 4]]
    for words in (*names, *map(text.number, numbers)):
        assert words in shown


def test_categories_are_one_column_of_the_rows():
    pandas = pytest.importorskip("pandas")
    colour = pandas.Categorical(["red", "blue", None, "red"])
    X = pandas.DataFrame({"colour": colour, "size": [1, 2, 3, 4]})
    trace = arboost.trace(X, [0, 5, 1, 0], {"min_child_weight": 0}, 1)
    rows = [line.split() for line in trace.text().splitlines()]
    assert ["row", "colour", "size", "label", "prediction", "residual", "h"] in rows
    assert [row[1] for row in rows if len(row) == 7 and row[0] in "1234"] == ["red", "blue", "?", "red"]


def test_show_prints_with_and_without_rich(capsys, monkeypatch):
    trace = arboost.trace.example("dosage")
    trace.show()
    with_rich = capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "rich", None)  # as if it were not installed
    trace.show()
    assert capsys.readouterr().out == trace.text() == str(trace)
    for part in ("Does the drug work", "dosage < 5.5", "2.6667", "0.35434"):
        assert part in with_rich
        assert part in trace.text()
