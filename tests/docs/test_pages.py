"""Every example of the documentation runs, page by page, and prints what the page says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import page_blocks
from child_process import MPI_LEAVE, find_mpirun, need
from page_blocks import Block, blocks_of, same_output

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES_WITH_CODE = [page for page in PAGES if blocks_of(page)]


def run_page(page, folder):
    """The page's blocks in a process and a folder of their own; `arboost` and `python` are those of this test."""
    programs = folder / "bin"
    programs.mkdir()
    for name, call in (("python", f'"{sys.executable}"'), ("arboost", f'"{sys.executable}" -m arboost')):
        (programs / name).write_text(f'#!/bin/sh\nexec {call} "$@"\n')
        (programs / name).chmod(0o755)
    launcher = find_mpirun()
    if launcher is not None:
        (programs / "mpirun").symlink_to(launcher)
    work = folder / "work"
    work.mkdir()
    if (ROOT / "examples").is_dir():
        (work / "examples").symlink_to(ROOT / "examples")
    paths = os.pathsep.join([str(programs), os.environ["PATH"]])
    return subprocess.run(
        [sys.executable, "-W", "ignore", page_blocks.__file__, str(page)],
        env=os.environ
        | {"PATH": paths, "MPLBACKEND": "Agg", "NO_COLOR": "1", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
        | MPI_LEAVE,
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_run(page, tmp_path):
    need("sklearn", "pandas", "pyarrow", "matplotlib", "rich_click", "shap", "onnx", "onnxruntime")
    if shutil.which("bash") is None:
        pytest.skip("no bash to run shell examples with")
    if any("mpirun" in block.text for block in blocks_of(page)):
        need("mpi4py")
        if find_mpirun() is None:
            pytest.skip("there is no mpirun")
    ran = run_page(page, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_no_code_hides_from_the_runner():
    """Fences of other names would not be run; pieces of files are for the test that follows the contributing page."""
    known = {"python", "sh", "text", "toml", "dockerfile", ""}
    for page in PAGES:
        languages = set(re.findall(r"^ *```(\w+)", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert languages <= known | ({"py", "diff"} if page.name == "contributing.md" else set()), page.name


def test_the_runner_finds_blocks_and_outputs(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n\ntext\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n\n"
        "```sh\npip install arboost\narboost --version\n```\n\n```toml\neta = 1\n```\n\n"
        '```toml title="a.toml"\neta = 2\n```\n\n'
        '``` { .python }\n--8<-- "examples/a.py"\n```\n'  # scripts of the gallery have a test of their own
    )
    assert blocks_of(page) == [
        Block("python", "x = 1\n", 2),
        Block("python", "print(x)\n", 8, "1\n"),
        Block("sh", "arboost --version", 16),
        Block("toml", "eta = 2\n", 25, name="a.toml"),
    ]
    assert same_output("1 \n", "1\n") and not same_output("1", "2")


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("```python\nraise ValueError('why')\n```\n", "why"),
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "the page shows"),
        ("```sh\narboost predict nowhere.csv --model nothing.json\n```\n", "exit status"),
        ("```sh\ncurl somewhere\n```\n", "neither run nor known"),
    ],
)
def test_the_runner_fails_where_a_page_is_wrong(tmp_path, text, complaint):
    page = tmp_path / "page.md"
    page.write_text(text)
    ran = run_page(page, tmp_path)
    assert ran.returncode != 0 and complaint in ran.stderr
