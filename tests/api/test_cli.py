"""The commands of `python -m arboost`, the demo behind one of them, and the README's example."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arboost import cli, warmup
from arboost.demo import load_bike_sharing, tour
from arboost.demo.peers import Work
from arboost.kernels import cache

ROOT = Path(__file__).resolve().parents[2]


def test_version(capsys):
    assert cli.main(["version"]) == 0
    printed = capsys.readouterr().out
    assert re.fullmatch(r"arboost [\w.]+, numpy [\w.]+, scipy [\w.]+, numba [\w.]+, Python [\w.+]+\n", printed)


def test_module_runs_as_a_command():
    run = subprocess.run([sys.executable, "-m", "arboost", "version"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("arboost ")
    assert run.stderr == ""


@pytest.mark.parametrize("arguments", [[], ["no-such-command"]])
def test_bad_command_is_explained(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert "usage: arboost" in capsys.readouterr().err


def test_parameters_page_is_up_to_date(capsys):
    """`make docs` renews it."""
    assert cli.main(["parameters"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8")


def test_compile_says_where_kernels_are_kept(capsys, monkeypatch, tmp_path):
    asked = []
    done = warmup.Compiled(["a", "b"], tmp_path, 0, "")
    monkeypatch.setattr(warmup, "compile_kinds", lambda kinds: asked.extend(kinds) or done)
    assert cli.main(["compile"]) == 0
    assert re.fullmatch(rf"2 kernels ready in [\d.]+ s, kept in {re.escape(str(tmp_path))}\n", capsys.readouterr().out)
    assert cli.main(["compile", "rank", "shap"]) == 0
    assert asked == ["all", "rank", "shap"]


def test_compile_that_cannot_keep_kernels_is_an_error(capsys, monkeypatch, tmp_path):
    done = warmup.Compiled(["a", "b"], tmp_path, 1, "the disk is full")
    monkeypatch.setattr(warmup, "compile_kinds", lambda kinds: done)
    assert cli.main(["compile"]) == 1
    assert "1 of them could not be kept: the disk is full" in capsys.readouterr().err


def test_compile_without_a_cache_is_an_error(capsys, monkeypatch):
    monkeypatch.setenv("ARBOOST_CACHE_DIR", "")
    nowhere = cache.KernelFolder()
    monkeypatch.setattr(cache, "kernel_folder", lambda: nowhere)
    assert cli.main(["compile"]) == 1
    assert "ARBOOST_CACHE_DIR" in capsys.readouterr().err


def test_compile_names_the_kinds_it_knows(capsys):
    assert cli.main(["compile", "histogram"]) == 2
    said = capsys.readouterr().err
    assert "histogram" in said and "hist" in said and "survival" in said


def test_demo_data():
    X, y, names = load_bike_sharing()
    assert X.shape == (17379, 13) and X.dtype == y.dtype == np.float32 and len(names) == 13
    assert np.isfinite(X).all() and y.min() == 1 and y.max() == 977
    page = Path(tour.__file__).with_name("bike_sharing.md").read_text(encoding="utf-8")
    assert "CC BY 4.0" in page and all(f"`{name}`" in page for name in names)


def test_demo_trains_compares_and_saves(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(tour, "installed_peers", list)
    assert tour.main(tmp_path / "out", Work(objective="reg:squarederror", rounds=20)) == 0
    printed = capsys.readouterr().out
    assert "equal to the bit" in printed and "the same bytes every time" in printed
    assert "DIFFER" not in printed
    assert (tmp_path / "out" / "bike_sharing.json").stat().st_size > 1000


def test_example_of_the_readme_runs(monkeypatch, tmp_path, capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    assert len(example.strip().splitlines()) == 10
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    assert (tmp_path / "bikes.json").exists()
    assert "test-rmse" in capsys.readouterr().out
