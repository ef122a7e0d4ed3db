"""The page: one HTML file with style, script and recorded runs inside; it asks no one for anything.

The files are in `web/`. Runs are JSON, deflated and written in base64; browsers unpack that by themselves.
"""

import base64
import html
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from arboost.trace.parts import REASONS, VERDICTS, Run
from arboost.version import __version__

SCRIPTS = ("format.js", "steps.js", "tree.js", "chart.js", "panels.js", "app.js")


def render(data: Mapping[str, Any], runs: Sequence[Run], title: str) -> str:
    """The page of these runs on this data."""
    web = files("arboost.trace") / "web"
    content = {**data, "runs": [asdict(run) for run in runs], "reasons": REASONS, "verdicts": VERDICTS}
    content["version"] = __version__
    packed = zlib.compress(json.dumps(content, allow_nan=False, separators=(",", ":")).encode(), 9)
    parts = {
        "title": html.escape(title),
        "style": (web / "style.css").read_text(encoding="utf-8"),
        "script": "\n".join((web / name).read_text(encoding="utf-8") for name in SCRIPTS),
        "data": base64.b64encode(packed).decode(),
    }
    found = (web / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], found)


def frame(page: str) -> str:
    """The page inside another one, such as a notebook's."""
    style = "width:100%;height:860px;border:1px solid #8884;border-radius:8px"
    return f'<iframe srcdoc="{html.escape(page)}" style="{style}" title="arboost trace"></iframe>'
