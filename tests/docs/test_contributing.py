"""The recipes of the contributing page, followed literally in a copy of the source."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from child_process import need

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r'^```(py|diff) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def apply_diff(path, diff):
    """Lines with + come in, lines with - go; the place is where the others stand, once; the last may go on."""
    old = "".join(line[1:] + "\n" for line in diff.splitlines() if line[0] != "+")[:-1]
    new = "".join(line[1:] + "\n" for line in diff.splitlines() if line[0] != "-")[:-1]
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path.name} has {text.count(old)} places for:\n{diff}"
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the project with the page's edits, and the programs with which the page tries them."""
    folder = tmp_path_factory.mktemp("house")
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    programs = []
    for language, title, body in BLOCK.findall((ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")):
        if language == "diff":
            apply_diff(folder / title, body)
        elif title.startswith("at the end of "):
            path = folder / title.removeprefix("at the end of ")
            path.write_text(path.read_text(encoding="utf-8") + "\n\n" + body, encoding="utf-8")
        else:
            assert title.startswith("try "), title
            programs.append(body)
    assert len(programs) == 3
    return folder, "\n".join(programs)


def run(folder, *arguments, **environment):
    ran = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ
        | {"PYTHONPATH": str(folder / "src"), "ARBOOST_CACHE_DIR": str(folder / "kernels")}
        | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_recipes_work(house):
    need("pandas")
    folder, program = house
    printed = run(folder, "-c", program)
    assert "typical error" in printed and "beyond-one" in printed and "rows in the largest leaf" in printed


def test_the_recipes_pass_the_rules(house):
    """Format, lint and the architecture's rules for the files that the page changes, and the tests it names."""
    need("ruff")
    folder, _ = house
    run(folder, "-m", "ruff", "check", "src")
    run(folder, "-m", "ruff", "format", "--check", "src")
    rules = [f"tests/architecture/test_{name}.py" for name in ("kernels", "size")]
    named = ["test_regression.py", "test_base.py::test_every_loss_is_covered_here"]
    lists = ["test_objectives_are_xgboosts", "test_choices_are_xgboosts[grow_policy]"]
    tests = [*rules, *(f"tests/unit/losses/{name}" for name in named)]
    tests += [f"tests/unit/params/test_table.py::{name}" for name in lists]
    assert "passed" in run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)


def test_a_device_knows_the_formulas(house):
    folder, _ = house
    simulated = {"ARBOOST_TEST_DEVICE": "simulator", "NUMBA_ENABLE_CUDASIM": "1"}
    tests = [f"tests/device/test_formulas.py::test_{name}" for name in ("all_formulas_are_tested", "a_formula")]
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "all_formulas or fair_error", *tests]
    assert "2 passed" in run(folder, *command, **simulated)
