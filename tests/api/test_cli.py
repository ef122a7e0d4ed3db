"""The commands of `python -m arboost`, the demo behind one of them, and the README's example."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from arboost import cli, warmup
from arboost.demo import load_bike_sharing, tour
from arboost.demo.peers import Work

ROOT = Path(__file__).resolve().parents[2]


def test_version(capsys):
    assert cli.main(["version"]) == 0
    printed = capsys.readouterr().out
    assert re.fullmatch(r"arboost [\w.]+, numpy [\w.]+, scipy [\w.]+, numba [\w.]+, Python [\w.+]+\n", printed)


def test_module_runs_as_a_command():
    run = subprocess.run([sys.executable, "-m", "arboost", "version"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("arboost ")
    assert run.stderr == ""


def test_bad_command_is_explained(capsys):
    assert cli.main(["no-such-command"]) == 2
    assert "No such command 'no-such-command'" in capsys.readouterr().err
    assert cli.main(["evalute"]) == 2
    assert "Did you mean 'evaluate'?" in capsys.readouterr().err


def test_without_arguments_help_is_shown(capsys):
    assert cli.main([]) == 2
    assert "train" in capsys.readouterr().out


def test_parameters_page_is_up_to_date(capsys):
    """`make docs` renews it."""
    assert cli.main(["parameters"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8")


def compiled(folder, n_lost=0):
    return warmup.Compiled(["a", "b"], folder, n_lost, "the disk is full" if n_lost else "")


def test_compile_says_where_kernels_are_kept(capsys, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(warmup, "compile_kinds", lambda kinds: asked.append(kinds) or compiled(tmp_path))
    assert cli.main(["compile"]) == 0
    assert re.fullmatch(rf"2 kernels ready in [\d.]+ s, kept in {re.escape(str(tmp_path))}\n", capsys.readouterr().out)
    assert cli.main(["compile", "rank", "shap"]) == 0
    assert [tuple(kinds) for kinds in asked] == [("all",), ("rank", "shap")]


def test_kernels_that_cannot_be_kept_are_an_error(capsys, monkeypatch):
    monkeypatch.setattr(warmup, "compile_kinds", lambda kinds: compiled(None, 2))
    assert cli.main(["compile"]) == 1
    assert "the disk is full; set ARBOOST_CACHE_DIR" in capsys.readouterr().err


def test_unknown_kind_of_kernels(capsys):
    assert cli.main(["compile", "nonsense"]) == 2
    assert "unknown kinds of kernels: nonsense" in capsys.readouterr().err


# What the program does where the extra `cli` is not installed.
WITHOUT_EXTRA = (
    "import sys; sys.modules['rich_click'] = None; from arboost.cli import main; sys.exit(main(sys.argv[1:]))"
)


def run_without_extra(*arguments):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA, *arguments], capture_output=True, text=True, check=False
    )


def test_without_the_extra_a_line_says_what_to_install():
    run = run_without_extra("train", "t.csv")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "arboost: this command needs the extra `cli`: pip install 'arboost[cli]'\n"


def test_without_the_extra_some_commands_work():
    assert run_without_extra("version").stdout.startswith("arboost ")
    assert run_without_extra("parameters").stdout == (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8")
    assert "demo" in run_without_extra("--help").stdout
    assert run_without_extra("compile", "--help").returncode == 0
    unknown = run_without_extra("compile", "nonsense")
    assert unknown.returncode == 2 and "unknown kinds of kernels" in unknown.stderr


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
