"""A program in a process of its own: taking XGBoost's name changes a process for good."""

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from arboost.kernels.jit import cache_folder

# Tools may talk to their own processes on this machine, to nobody else.
OFFLINE = """
import socket
_connect = socket.socket.connect
def _local_only(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"the test is offline, and {address} is elsewhere")
    return _connect(self, address)
socket.socket.connect = _local_only
"""

# A small model of each kind, for tools to work on.
MODELS = """
import numpy as np
import xgboost as xgb
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4)).astype(np.float32)
y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
score = 2 * X[:, 0] + np.sin(X[:, 1])
dtrain = xgb.DMatrix(X, y)
booster = xgb.train({"objective": "binary:logistic", "max_depth": 3}, dtrain, 5)
classifier = xgb.XGBClassifier(n_estimators=5, max_depth=3).fit(X, y)
regressor = xgb.XGBRegressor(n_estimators=5, max_depth=3).fit(X, score)
"""

# More processes than cores, and as any user: Open MPI asks for leave. Others do not know these names.
MPI_LEAVE = {
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_mpi_yield_when_idle": "1",  # waiting processes leave their core to others
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}

INSTALL = "import arboost\narboost.install_as_xgboost()\n"


def need(*packages: str) -> None:
    """Skip the test where a package is not installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


def find_mpirun() -> str | None:
    """MPI's launcher: that of this Python's environment, or the machine's."""
    return shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


def run(folder: Path, *arguments: str, fails: bool = False) -> subprocess.CompletedProcess:
    """`python arguments` in `folder`, where everything it writes stays; compiled kernels are found where they are."""
    home = {name: str(folder) for name in ("HOME", "USERPROFILE", "TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME")}
    kernels = {} if cache_folder() is None else {"ARBOOST_CACHE_DIR": str(cache_folder())}
    ran = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | home | kernels,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode != 0) == fails, f"{ran.stdout}\n{ran.stderr}"
    return ran


def run_code(folder: Path, code: str, before: str = "") -> str:
    """Run a program offline, `before` first; what it printed."""
    program = folder / "program.py"
    program.write_text(OFFLINE + before + textwrap.dedent(code), encoding="utf-8")
    return run(folder, "-W", "ignore", str(program)).stdout


def run_tool(folder: Path, code: str) -> str:
    """Run code of a tool with arboost installed as xgboost, `X`, `y`, `score`, and three models made; its output."""
    return run_code(folder, code, before=INSTALL + MODELS)
