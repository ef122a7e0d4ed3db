"""`trace` and `report` write their pages."""

import re

import pandas as pd
import pytest

pytest.importorskip("rich_click")
pytest.importorskip("pyarrow")

from arboost import cli


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{k % 7},{(k * 5) % 11},{'yes' if k % 7 > 3 else 'no'}" for k in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,label", *rows]))
    return tmp_path


def page(path):
    """A whole page that asks nothing of the network; what it shows is tested with the trace and the report."""
    text = path.read_text(encoding="utf-8")
    assert "<html" in text and text.rstrip().endswith("</html>")
    assert not re.search(r"(src|href)=.https?://", text)


def test_trace_of_an_example(folder, capsys):
    pytest.importorskip("arboost.trace", reason="the trace is not part of this build")
    assert cli.main(["trace", "--example", "salary", "--html", "s.html"]) == 0
    page(folder / "s.html")
    assert cli.main(["trace", "--example", "salary"]) == 0
    assert "Round 1" in capsys.readouterr().out
    assert cli.main(["trace", "--list-examples"]) == 0
    assert "salary" in capsys.readouterr().out.split()
    assert cli.main(["trace", "--example", "nope"]) == 2
    assert "Unknown example 'nope'" in capsys.readouterr().err


def test_trace_of_groups_weights_and_names(folder, capsys):
    pd.DataFrame(
        {
            "query": [1, 1, 1, 2, 2, 2], "grade": [0, 2, 1, 0, 1, 2], "size": [1, 5, 3, 2, 4, 6],
            "kind": ["cheap", "dear", "fair", "cheap", "fair", "dear"], "town": list("ABABAB"), "w": [1, 2, 3, 4, 5, 6],
        }
    ).to_csv("s.csv", index=False)  # fmt: skip
    common = ["trace", "s.csv", "-n", "1", "--min-child-weight", "0"]
    assert cli.main([*common, "-t", "grade", "--group", "query", "--drop", "kind,w"]) == 0
    assert "rank:ndcg" in capsys.readouterr().out
    assert cli.main([*common, "-t", "kind", "--weight", "w", "--drop", "query,grade"]) == 0
    shown = capsys.readouterr().out
    for words in ("kind: 0 is cheap, 1 is dear, 2 is fair.", "Class dear", "town != A"):
        assert words in shown
    assert cli.main([*common, "-t", "size", "--weight", "w", "--drop", "query,grade,kind"]) == 0
    assert "Initial prediction: 4 (the mean of the labels)." in capsys.readouterr().out


def test_trace_of_a_table(folder):
    pytest.importorskip("arboost.trace", reason="the trace is not part of this build")
    assert cli.main(["trace", "t.csv", "--target", "label", "--html", "x.html", "-n", "2", "--max-depth", "2"]) == 0
    page(folder / "x.html")
    assert cli.main(["trace", "t.csv", "--target", "label", "--text", "x.txt", "-n", "1"]) == 0
    assert "Round 1" in (folder / "x.txt").read_text(encoding="utf-8")


def test_report(folder):
    pytest.importorskip("arboost.report", reason="the report is not part of this build")
    command = ["train", "t.csv", "--target", "label", "--model", "m.json", "-n", "5", "-q", "--report", "one.html"]
    assert cli.main(command) == 0
    assert cli.main(["report", "m.json", "--data", "t.csv", "--target", "label", "--out", "r.html"]) == 0
    assert cli.main(["report", "m.json", "--out", "bare.html"]) == 0
    for name in ("one.html", "r.html", "bare.html"):
        page(folder / name)
