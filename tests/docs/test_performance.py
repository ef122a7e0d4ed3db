"""The script behind the curves of the performance page runs, and the page shows its tables."""

import re
import subprocess
import sys
from pathlib import Path

from child_process import need

ROOT = Path(__file__).resolve().parents[2]


def test_the_curves_are_measured_and_drawn(tmp_path):
    need("matplotlib")
    plot = tmp_path / "curves.png"
    sizes = ["--rows", "400", "--rounds", "1", "--repeats", "1"]
    ran = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "scaling.py"), *sizes, "--plot", str(plot)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    curves = re.findall(r"^\| (\w+) \|", ran.stdout, re.MULTILINE)
    assert curves == ["rows", "features", "max_bin", "depth", "threads"]
    assert re.findall(r"^\| (\w+) \| [\d,]+ \|", page, re.MULTILINE) == curves
    assert plot.stat().st_size > 10_000
