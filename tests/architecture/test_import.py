"""Importing is light: nothing is compiled, nothing is written, no optional package comes along."""

import json
import os
import subprocess
import sys

import pytest

HEAVY = [
    "sklearn",
    "pandas",
    "pyarrow",
    "polars",
    "matplotlib",
    "graphviz",
    "dask",
    "distributed",
    "mpi4py",
    "xgboost",
    "lightgbm",
]

# Runs in a process of its own: imports one thing and reports what that did.
PROBE = """
import json, sys
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    {statement}
print(json.dumps({{"compiled": len(recorder.buffer), "modules": sorted(sys.modules)}}))
"""


def probe(statement, tmp_path):
    folders = {"ARBOOST_CACHE_DIR": str(tmp_path / "kernels"), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    run = subprocess.run(
        [sys.executable, "-B", "-c", PROBE.format(statement=statement)],
        env=os.environ | folders,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1]), run


def test_import_is_quiet_and_light(tmp_path):
    seen, run = probe("import arboost", tmp_path)
    assert run.stderr == ""
    assert len(run.stdout.splitlines()) == 1
    assert seen["compiled"] == 0
    assert [name for name in HEAVY if name in seen["modules"]] == []
    assert list(tmp_path.iterdir()) == [], "importing wrote files"


def test_importing_every_module_compiles_nothing(modules, tmp_path):
    optional = ("sklearn", "ensemble", "dask", "plotting", "__main__", "demo.__main__", "kernels.gpu")
    names = [f"arboost.{m.name}" for m in modules if m.name and not m.name.startswith(optional)]
    seen, _ = probe(f"import {', '.join(names)}", tmp_path)
    assert seen["compiled"] == 0
    assert [name for name in HEAVY if name in seen["modules"]] == []
    assert list(tmp_path.iterdir()) == [], "importing wrote files"


@pytest.mark.parametrize("module", ["arboost.cli", "arboost.demo", "arboost.demo.peers"])
def test_commands_import_no_peer(module, tmp_path):
    seen, _ = probe(f"import {module}", tmp_path)
    assert [name for name in HEAVY if name in seen["modules"]] == []
