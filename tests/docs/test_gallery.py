"""Every script of the gallery runs, and the page shows every script."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from child_process import need

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


def packages_of(script):
    """The first names of what a script imports."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        yield from (name.split(".")[0] for name in names)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_runs(script, tmp_path):
    need(*packages_of(script))
    ran = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", str(script)],
        env=os.environ | {"MPLBACKEND": "Agg"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip(), "an example shows something"


def test_the_page_shows_every_script():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for script in SCRIPTS:
        assert f'--8<-- "examples/{script.name}"' in page, f"{script.name} is not on the gallery page"
        summary = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))).splitlines()[0]
        assert 20 < len(summary) < 130
    assert page.count("--8<--") == len(SCRIPTS)
