"""The table of `make test-gpu`: no row stops the others, whatever becomes of it."""

import argparse
import importlib.util
import json
import os
import sys
import time
from pathlib import Path

import pytest

import device_cases as cases

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool():
    """tools/test_gpu.py as a module."""
    spec = importlib.util.spec_from_file_location("gpu_report", ROOT / "tools" / "test_gpu.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def said(case, result):
    return f"print({json.dumps(json.dumps({'case': case, 'result': result}))}, flush=True)"


ENDS = {
    "same": (said("a case", "same"), 1, []),
    "other bytes": (f"{said('a case', 'same')}; {said('b case', 'other bytes')}", 1, ["b case: other bytes"]),
    "nothing": ("raise SystemExit('no such row')", 0, ["exit status 1: no such row"]),
    "a crash": (f"{said('a case', 'did not end')}; import os; os.abort()", 0, ["a case: did not end"]),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_becomes_of_a_row(tool, end, tmp_path):
    program, n_same, others = ENDS[end]
    found = tool.run_row(tool.Row("a row", [sys.executable, "-c", program]), 600, dict(os.environ), tmp_path)
    assert (found.same, found.others) == (n_same, others)


def test_a_row_that_never_ends(tool, tmp_path):
    """Not even when asked: a kernel that waits for ever leaves its process deaf."""
    program = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {said('a case', 'did not end')}\n"
    program += "while True: time.sleep(1)"
    started = time.monotonic()
    found = tool.run_row(tool.Row("a row", [sys.executable, "-c", program]), 1.0, dict(os.environ), tmp_path)
    assert found.same == 0
    assert len(found.others) == 1
    assert "did not end" in found.others[0]
    assert time.monotonic() - started >= 1.0
    assert tool.run_row(tool.Row("a row", ["/no/such/program"]), 0.0, {}, tmp_path).others == [
        "not begun: no time left"
    ]


def test_rows_go_on_after_one_that_fails(tool, tmp_path, capsys):
    programs = "raise SystemExit(3)", said("a case", "same")
    rows = [tool.Row(f"row {i}", [sys.executable, "-c", program]) for i, program in enumerate(programs)]
    options = argparse.Namespace(at_once=1, limit=600)
    found = list(tool.run_all(rows, options, time.monotonic() + 600, dict(os.environ), tmp_path))
    assert [bool(one.others) for one in found] == [True, False]
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in shown[::2]] == [["row", "0", "no"], ["row", "1", "yes"]]
    assert shown[1].strip().startswith("exit status 3")


def test_what_is_left_running_is_ended(tool, tmp_path):
    rows = [tool.Row("short", [sys.executable, "-c", said("a case", "same")]),
            tool.Row("long", [sys.executable, "-c", "import time; time.sleep(3600)"])]  # fmt: skip
    running = tool.run_all(rows, argparse.Namespace(at_once=2, limit=3600), time.monotonic() + 3600, {}, tmp_path)
    next(running)
    running.close()
    assert all(child.poll() is not None for child in tool.RUNNING)


def test_tests_that_a_log_names(tool):
    log = """
tests/device/test_a.py::test_one[halves-1] PASSED                  [ 10%]
tests/device/test_a.py::test_one[two words] FAILED                 [ 20%]
tests/device/test_a.py::test_two SKIPPED (one of the host)         [ 30%]
FAILED tests/device/test_a.py::test_one[two words] - AssertionError: bytes
tests/device/test_a.py::test_one[halves-1]
  /a/file.py:7: DeprecationWarning: it warned
tests/device/test_a.py::test_three """
    wanted = {"test_one[halves-1]": "same", "test_one[two words]": "failed", "test_two": "skipped",
              "test_three": "did not end"}  # fmt: skip
    assert tool.read_log(log) == wanted


def test_every_feature_has_cases(tool):
    found = [tool.feature_of(params, given) for params, given in cases.ON_DEVICE.values()]
    assert set(found) == {tool.PLAIN, *tool.FEATURES}
    names = [row.name for row in tool.rows()]
    assert len(set(names)) == len(names)
    assert {*found, tool.METRICS, "test_explanations", "test_keeping"} <= set(names)
