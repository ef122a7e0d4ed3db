"""Where progress is drawn, and that nothing is drawn where nobody asked."""

import os
import subprocess
import sys

import pytest

from arboost.progress import PlainLines, Progress, TerminalLine, bar_html, make_surface

HALF = Progress(5, 10, "valid-rmse:0.25000", 2.0)


def test_a_line_tells_count_scores_and_time():
    assert HALF.line() == "[##########..........] 5/10  valid-rmse:0.25000  2.0 s, 2.0 s left"
    assert Progress(3, None, "", 1.0).line() == "3 rounds  1.0 s"
    assert Progress(12, 10, "", 1.0).line() == "[####################] 12/10  1.0 s"


def test_a_bar_of_html_is_as_wide_as_its_share_and_escapes_names():
    text = bar_html(Progress(1, 4, "<b>-rmse:1", 1.0))
    assert "width:25.0%" in text and "&lt;b&gt;-rmse:1" in text and "<b>-rmse" not in text


def test_surfaces_by_stream(tmp_path, monkeypatch):
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        assert isinstance(make_surface(log), PlainLines)
    monkeypatch.setattr(sys, "stderr", None)  # pythonw
    assert make_surface(None) is None


TRAIN = """
import sys
{hide}
import numpy as np, arboost
from arboost.callback import ProgressBar
data = arboost.DMatrix(np.arange(20.0).reshape(10, 2), np.arange(10.0))
arboost.train({{"verbosity": {verbosity}}}, data, 4, evals=[(data, "t")], verbose_eval=False,
              callbacks=[ProgressBar(interval=0)])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    "hide, verbosity, bar",
    [("", 1, "━"), ("sys.modules['rich'] = sys.modules['rich.console'] = None", 1, "#"), ("", 0, "")],
    ids=["rich", "plain", "silent"],
)
def test_on_a_terminal(hide, verbosity, bar):
    """A real terminal: in colour where rich is there, in plain letters where it is not; stdout stays empty."""
    import pty

    if bar == "━":
        pytest.importorskip("rich")
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"}
    run = subprocess.Popen(
        [sys.executable, "-c", TRAIN.format(hide=hide, verbosity=verbosity)],
        stdout=subprocess.PIPE, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert run.communicate()[0] == b"" and run.returncode == 0
    text = seen.decode()
    if verbosity == 0:
        assert text == ""
    else:
        assert bar in text and "4/4" in text and "t-rmse" in text and text.count("\n") == 1


def test_a_terminal_line_ends_with_a_line_break(capsys):
    TerminalLine(sys.stderr).finish(HALF)
    assert capsys.readouterr().err.endswith("\n")
