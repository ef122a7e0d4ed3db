"""`arboost.trace`: a module that is called like a function, and what it returns."""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import arboost
from arboost.trace import EXAMPLES, Trace, example

X, Y = [[3], [8], [11]], [0, 1, 1]


def test_the_module_is_the_function():
    trace = arboost.trace(X, Y, {"objective": "binary:logistic"}, 2)
    assert isinstance(trace, Trace)
    assert len(trace.rounds) == 2
    assert isinstance(arboost.trace.example("dosage"), Trace)
    assert "Train a small model" in inspect.getdoc(type(arboost.trace).__call__)
    assert list(inspect.signature(arboost.trace).parameters)[:4] == ["X", "y", "params", "num_boost_round"]


def test_it_is_loaded_only_when_asked_for():
    import subprocess
    import sys

    code = "import sys, arboost; assert 'arboost.trace' not in sys.modules; arboost.trace; print('ok')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "ok\n"


def test_names_come_from_a_frame():
    pandas = pytest.importorskip("pandas")
    trace = arboost.trace(pandas.DataFrame({"dosage": [3, 8, 11]}), pandas.Series(Y, name="effective"))
    assert (trace.feature_names, trace.target_name) == (["dosage"], "effective")
    assert "dosage < " in trace.text()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_give_all_views(name, tmp_path):
    trace = example(name)
    written = trace.to_json(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text()) == json.loads(written) == trace.to_dict()
    page = trace.to_html(tmp_path / "trace.html")
    assert (tmp_path / "trace.html").read_text(encoding="utf-8") == page
    assert "{{" not in page
    assert trace._repr_html_().startswith("<iframe srcdoc=")
    assert trace.title in str(trace)
    assert repr(trace).startswith("<Trace ")


def test_missing_values_are_null():
    table = np.array(example("missing").to_dict()["X"], dtype=object)[:, 0]
    assert [x is None for x in table] == [False, True, False, False, True, False, False, True, False, False]


def test_unknown_example_is_named():
    with pytest.raises(arboost.core.XGBoostError, match=r"no example 'house'.*salary"):
        example("house")


def test_the_guides_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    guide = (Path(__file__).resolve().parents[2] / "docs" / "trace.md").read_text(encoding="utf-8")
    exec(guide.split("```python\n")[1].split("```")[0], {})
    printed = capsys.readouterr().out.split()[-3:]
    assert [round(float(x), 2) for x in printed] == [208.33, 156.25, 364.58]
    assert (tmp_path / "salary.html").exists()


def test_a_title_cannot_break_the_page():
    page = arboost.trace(X, Y, {}, 1, title="</title><script>alert(1)</script>{{data}}").to_html()
    assert "<script>alert" not in page
