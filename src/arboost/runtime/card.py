"""A small HTML card for notebooks: a title and a table of facts. Every text is escaped."""

from collections.abc import Sequence
from html import escape
from typing import Any

_MAX_LETTERS = 200  # of one value

_BOX = (
    "display:inline-block;max-width:100%;box-sizing:border-box;margin:2px 0;padding:12px 16px;border-radius:10px;"
    "border:1px solid rgba(128,128,128,.35);font:13px/1.5 system-ui,sans-serif"
)
_NAME = "text-align:left;padding:1px 18px 1px 0;font-weight:400;opacity:.65;background:none;border:0;white-space:nowrap"
_VALUE = "text-align:left;padding:1px 0;font-weight:550;background:none;border:0;overflow-wrap:anywhere"


def make_card(title: str, subtitle: str, facts: Sequence[tuple[str, Any]]) -> str:
    """The card; colours are those of the notebook, so that it fits a light and a dark one."""
    rows = "".join(
        f'<tr style="background:none"><th style="{_NAME}">{escape(name)}</th>'
        f'<td style="{_VALUE}">{escape(shorten(str(value)))}</td></tr>'
        for name, value in facts
    )
    return (
        f'<div class="arboost-card" style="{_BOX}"><div style="font-weight:650;font-size:14px">{escape(title)}'
        f'<span style="font-weight:400;opacity:.65;padding-left:10px">{escape(shorten(subtitle))}</span></div>'
        f'<table style="border-collapse:collapse;border:0;margin:6px 0 0;font:inherit">{rows}</table></div>'
    )


def shorten(text: str) -> str:
    """At most so many letters."""
    return text if len(text) <= _MAX_LETTERS else text[: _MAX_LETTERS - 1] + "…"
