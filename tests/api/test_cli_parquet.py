"""Commands on Parquet: tables are read in pieces, and what comes out is what comes of them in memory."""

import json

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("rich_click")
pytest.importorskip("pyarrow")

import arboost as xgb
from arboost import cli
from arboost.cli import streamed
from arboost.matrix import parquet

N_ROWS = 300


def table(seed=0):
    rng = np.random.default_rng(seed)
    city = rng.choice(["Rome", "Paris", "Oslo", None], N_ROWS)
    age, pay = rng.integers(18, 80, N_ROWS), rng.normal(3000, 900, N_ROWS)
    score = (city == "Oslo") * 1.5 + (age - 45) / 20 + (pay - 3000) / 900 + rng.normal(0, 0.3, N_ROWS)
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 99, N_ROWS), "D")
    frame = pd.DataFrame({"id": np.arange(N_ROWS), "city": city, "day": day, "age [y]": age, "pay": pay})
    frame["label"] = np.where(score > 0.4, "rich", "poor")
    frame["score"] = score
    frame["group"] = np.arange(N_ROWS) // 10
    frame.loc[frame.index % 17 == 0, ["label", "score"]] = None
    return frame


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parquet, "VALUES_AT_A_TIME", 400)
    (tmp_path / "parts").mkdir()
    rows = table().sample(frac=1, random_state=1)  # pandas writes an index of its own
    rows.to_parquet("all.parquet")
    rows[:100].to_parquet("parts/0.parquet", row_group_size=30)
    rows[100:].to_parquet("parts/1.parquet")
    (tmp_path / "parts" / "README.txt").write_text("not a table")
    return tmp_path


def run(*arguments, status=0):
    assert cli.main([str(a) for a in arguments]) == status


def train(source, *more, model="m.json"):
    run("train", source, "--drop", "id", "--drop", "group", "--model", model, "-n", 5, "-q", *more)
    return xgb.Booster(model_file=model).save_raw()


@pytest.mark.parametrize(
    "task",
    [
        ("--target", "label", "--drop", "score"),
        ("--target", "score", "--drop", "label", "--split", "0"),
        ("--target", "score", "--drop", "label", "--weight", "age [y]", "--valid", "all.parquet"),
    ],
)
def test_streamed_training_gives_the_model_of_the_table_in_memory(folder, monkeypatch, task):
    wanted = train("all.parquet", *task)
    assert train("parts", *task) == wanted
    monkeypatch.setattr(streamed, "_VALUE_BYTES", 1 << 50)
    assert train("all.parquet", *task) == wanted
    assert train("parts", *task) == wanted


def test_groups_that_are_streamed_must_lie_together(folder, monkeypatch, capsys):
    rank = ("--target", "score", "--group", "group", "--drop", "label", "--drop", "id", "--task", "ranking", "-n", 3)
    table().dropna().assign(score=lambda t: (t.score > 0).astype(int)).to_parquet("sorted.parquet")
    run("train", "sorted.parquet", *rank, "--model", "a.json", "-q")
    monkeypatch.setattr(streamed, "_VALUE_BYTES", 1 << 50)
    run("train", "sorted.parquet", *rank, "--model", "b.json", "-q")
    models = [xgb.Booster(model_file=name).save_raw() for name in ("a.json", "b.json")]
    assert models[0] == models[1]
    run("train", "all.parquet", *rank, "-q", status=1)
    assert "rows of a group must lie together: sort it by group" in " ".join(capsys.readouterr().err.split())


def test_memory_budget(folder, capsys):
    train("all.parquet", "--target", "label", "--drop", "score", "--memory-budget", "4GB")
    run("train", "all.parquet", "--target", "label", "--memory-budget", "much", status=1)
    assert "memory_budget is a number of bytes" in " ".join(capsys.readouterr().err.split())
    assert xgb.get_config()["memory_budget"] == 0


@pytest.mark.parametrize("out", ["p.parquet", "p.csv", "p.tsv"])
def test_predictions_are_streamed(folder, out):
    train("all.parquet", "--target", "label", "--drop", "score")
    run("predict", "all.parquet", "--model", "m.json", "--keep", "id", "--out", "whole.csv", "--kind", "probability")
    run("predict", "parts", "--model", "m.json", "--keep", "id", "--out", out, "--kind", "probability")
    read = pd.read_parquet if out.endswith("parquet") else pd.read_csv
    written = read(out, **({"sep": "\t"} if out.endswith("tsv") else {}))
    whole = pd.read_csv("whole.csv")
    assert written.columns.tolist() == ["id", "p(poor)", "p(rich)"]
    pd.testing.assert_frame_equal(written, whole, check_dtype=False)
    np.testing.assert_array_equal(written["id"], pd.read_parquet("all.parquet")["id"])


def test_unknown_categories_are_told_once(folder, capsys):
    train("all.parquet", "--target", "score", "--drop", "label")
    pd.read_parquet("all.parquet").assign(city="Bern").to_parquet("bern.parquet", row_group_size=20)
    run("predict", "bern.parquet", "--model", "m.json", "--out", "p.csv", "--json")
    captured = capsys.readouterr()
    assert captured.err.count("Bern") == 1
    assert json.loads(captured.out)["rows"] == N_ROWS


def test_an_error_leaves_older_predictions(folder, capsys):
    train("all.parquet", "--target", "score", "--drop", "label")
    for name in ("p.csv", "p.parquet"):
        (folder / name).write_text("older")
        pd.read_parquet("all.parquet").drop(columns="pay").to_parquet("less.parquet")
        run("predict", "less.parquet", "--model", "m.json", "--out", name, status=1)
        assert "lacks a column that the model needs: pay" in " ".join(capsys.readouterr().err.split())
        assert (folder / name).read_text() == "older"
