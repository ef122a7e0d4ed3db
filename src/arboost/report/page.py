"""The HTML page: tables are written here, charts are drawn by `assets/*.js` from a block of JSON.

Names of features, categories, classes and attributes may be hostile. Here every text goes through `html.escape`; in
the JSON `<`, `>` and `&` are escapes; the scripts only ever set text, never HTML. A content security policy names
the one script that may run by its digest and forbids everything else, the network included.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from html import escape
from importlib import resources
from typing import Any

from arboost.report.numbers import NO_VALUE, words
from arboost.version import __version__

_SCRIPTS = ("draw.js", "charts.js", "explain.js", "trees.js", "page.js")
_FEATURES_AT_ONCE = 40  # rows of the table of features; the others are folded
_LONG = 60  # letters of a fact that takes a line of its own
_LOGO = (
    '<svg class="logo" viewBox="0 0 32 32" aria-hidden="true"><path d="M16 8 9 18M16 8l7 10M9 18l-4 7M9 18l4 7'
    'M23 18l-4 7M23 18l4 7"/><circle cx="16" cy="7" r="4"/><circle cx="9" cy="17" r="3.2"/>'
    '<circle cx="23" cy="17" r="3.2"/><circle class="leaf" cx="5" cy="26" r="2.6"/>'
    '<circle class="leaf" cx="13" cy="26" r="2.6"/><circle class="leaf" cx="19" cy="26" r="2.6"/>'
    '<circle class="leaf" cx="27" cy="26" r="2.6"/></svg>'
)


def render(tables: dict[str, Any], charts: dict[str, Any]) -> str:
    """The page from what the other modules gathered."""
    style = _asset("page.css")
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    sections = [section for section in _sections(tables, charts) if section[2]]
    links = "".join(f'<li><a href="#{anchor}">{escape(name)}</a></li>' for anchor, name, _ in sections)
    body = "".join(
        f'<section id="{anchor}"><h2>{escape(name)}</h2>{content}</section>' for anchor, name, content in sections
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="arboost {escape(__version__)}">\n'
        f"<title>{escape(tables['title'])}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<nav class="side"><a class="brand" href="#top">{_LOGO}<span>arboost</span></a><ul>{links}</ul>'
        '<button id="theme" type="button" title="Light or dark">Dark</button></nav>\n'
        f'<main id="top">{_header(tables)}{body}'
        f"<footer>Made with arboost {escape(__version__)}. This page is complete: it loads nothing.</footer></main>\n"
        '<div id="tip" role="status" hidden></div>\n'
        f'<script type="application/json" id="charts">{to_json(charts)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return resources.files("arboost.report").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )


def to_json(value: Any) -> str:
    """JSON that is safe inside a script element and in JavaScript."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _header(tables: dict[str, Any]) -> str:
    tiles = "".join(_tile(tile) for tile in tables["tiles"])
    chips = "".join(
        f'<span class="chip">{escape(text)}</span>'
        for text in (tables["kind"], tables["objective"], f"sha256 {tables['digest'][:12]}")
    )
    heading = f'<p class="chips">{chips}</p><h1>{escape(tables["title"])}</h1>'
    return f'<header>{heading}<div class="tiles">{tiles}</div></header>'


def _tile(tile: dict[str, Any]) -> str:
    name, exact = escape(tile["name"]), f' title="{escape(repr(tile["exact"]))}"' if "exact" in tile else ""
    return (
        f'<div class="tile"><b title="{name}">{name}</b><strong{exact}>{escape(tile["value"])}</strong>'
        f"<small>{escape(tile['note'])}</small></div>"
    )


def _sections(tables: dict[str, Any], charts: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(anchor, heading, content) of every section; one without content is left out."""
    shap = charts["shap"]
    has_shap = bool(shap and shap["features"])
    return [
        ("quality", "Quality", _quality(tables, charts)),
        ("learning", "Learning curves", _mount("learning", "grid") if charts["learning"] else ""),
        ("importance", "Importance", _importance(charts)),
        ("shap", "SHAP values", _shap(shap) if has_shap else ""),
        ("rows", "Row by row", _rows(charts["rows"], bool(charts["forest"]))),
        ("trees", "Trees", _trees(charts["forest"])),
        ("data", "Data" if tables["data"] else "Features", _data(tables, charts)),
        ("parameters", "Parameters", _parameters(tables)),
        ("reproduce", "Reproduce", _reproduce(tables)),
    ]


def _mount(view: str, kind: str = "") -> str:
    """Where the script draws a view."""
    return f'<div class="view {kind}" data-view="{view}"></div>'


def _lead(text: str) -> str:
    return f'<p class="lead">{escape(text)}</p>'


def _quality(tables: dict[str, Any], charts: dict[str, Any]) -> str:
    parts = []
    if tables["metrics"]:
        parts.append(_lead("Scores of the model on all rows, beside those of its intercept alone."))
        parts.append(_metric_table(tables["metrics"]))
    if charts["quality"]:
        parts.append(_mount("quality"))
    return "".join(parts)


def _metric_table(metrics: list[dict[str, Any]]) -> str:
    rows = []
    for row in metrics:
        baseline = row["baseline"]
        cells = [
            f'<td class="name"><b>{escape(row["name"])}</b> <span class="better">{_arrow(row)}</span></td>',
            f'<td class="number value" data-value="{row["value"]!r}">{escape(words(row["value"], 6))}</td>',
            f'<td class="number">{escape(words(baseline, 6))}</td>',
            f"<td>{escape(row['meaning'])}</td>",
        ]
        rows.append(f'<tr data-metric="{escape(row["name"])}">{"".join(cells)}</tr>')
    head = "<th>metric</th><th class=number>model</th><th class=number>intercept only</th><th>meaning</th>"
    return _table(head, rows, "metrics")


def _arrow(row: dict[str, Any]) -> str:
    return '<abbr title="larger is better">↑</abbr>' if row["maximize"] else '<abbr title="smaller is better">↓</abbr>'


def _table(head: str, rows: Iterable[str], name: str) -> str:
    body = "".join(rows)
    return (
        f'<div class="scroll"><table class="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _importance(charts: dict[str, Any]) -> str:
    if not any(kind["names"] for kind in charts["importance"].values()):
        return ""
    text = (
        "How much each feature matters: SHAP says how far it moves predictions, gain how much its splits lower the "
        "loss, weight how often it is split on, cover how many rows those splits see."
    )
    return _lead(text) + _mount("importance")


def _shap(shap: dict[str, Any]) -> str:
    text = f"A dot is a row: how far the feature moves its prediction, and how large its value is. {shap['note']}"
    return _lead(text) + _mount("shap")


def _rows(rows: list[dict[str, Any]], has_trees: bool) -> str:
    if not rows:
        return ""
    text = "From the mean prediction to that of one row: what each feature adds to the margin."
    if has_trees:
        text += " The path of the row is drawn in the trees below."
    return _lead(text) + _mount("rows")


def _trees(forest: dict[str, Any]) -> str:
    if not forest or not forest["trees"]:
        return ""
    text = (
        "Click a node for its details, + to open what is folded, ← and → for the next tree. Lines are as wide as "
        "their share of the cover; a dot marks the side that missing values go to. " + forest["note"]
    )
    return _lead(text.strip()) + _mount("trees")


def _data(tables: dict[str, Any], charts: dict[str, Any]) -> str:
    parts = []
    if tables["data"]:
        parts.append(_facts(tables["data"]))
    if charts["labels"]:
        parts.append(_mount("labels", "grid"))
    shown, total = len(tables["features"]), tables["n_features"]
    caption = f"Features, {shown:,} of {total:,}" if shown < total else f"Features ({total:,})"
    parts.append(f"<h3>{caption}, the most important first</h3>")
    rows, head = _feature_rows(tables["features"])
    parts.append(_table(head, rows[:_FEATURES_AT_ONCE], "features"))
    if rest := rows[_FEATURES_AT_ONCE:]:
        parts.append(f"<details><summary>{len(rest)} more features</summary>{_table(head, rest, 'features')}</details>")
    return "".join(parts)


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    entries = "".join(
        f"<div{' class=wide' if len(value) > _LONG else ''}><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts
    )
    return f'<dl class="facts">{entries}</dl>'


def _feature_rows(features: list[dict[str, Any]]) -> tuple[list[str], str]:
    """Rows of the table of features, and its head."""
    has_data = any("missing" in row for row in features)
    rows = []
    for rank, row in enumerate(features, start=1):
        cells = [f"<td class=number>{rank}</td><td class=name><b>{escape(row['name'])}</b></td><td>{row['type']}</td>"]
        if has_data:
            missing = row["missing"]
            cells.append(f"<td class=number>{NO_VALUE if missing == 0 else f'{missing:.1%}'}</td>")
            cells.append(f"<td>{escape(row.get('range', ''))}</td><td class=number>{escape(row.get('mean', ''))}</td>")
            cells.append(f"<td>{_bars(row['bars'])}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "<th class=number>#</th><th>feature</th><th>type</th>"
    if has_data:
        head += "<th class=number>missing</th><th>range</th><th class=number>mean</th><th>distribution</th>"
    return rows, head


def _bars(counts: list[int]) -> str:
    """A little histogram."""
    if not counts:
        return ""
    width = 120 / len(counts)
    tallest = max(counts)
    bars = "".join(
        f'<rect x="{i * width:.1f}" y="{24 - 24 * n / tallest:.1f}" width="{max(width - 1, 1):.1f}" '
        f'height="{24 * n / tallest:.1f}"/>'
        for i, n in enumerate(counts)
        if n
    )
    return f'<svg class="bars" viewBox="0 0 120 24" width="120" height="24" aria-hidden="true">{bars}</svg>'


def _parameters(tables: dict[str, Any]) -> str:
    head = "<th>parameter</th><th>value</th><th>default</th><th>meaning</th>"

    def rows(entries: list[tuple[str, str, str, str]]) -> list[str]:
        return [
            f"<tr><td class=name><b>{escape(name)}</b></td><td class=value>{escape(value)}</td>"
            f"<td>{escape(default)}</td><td>{escape(doc)}</td></tr>"
            for name, value, default, doc in entries
        ]

    parts = [_facts(tables["model"])]
    if tables["given"]:
        parts += ["<h3>Not at their defaults</h3>", _table(head, rows(tables["given"]), "given")]
    whole = _table(head, rows(tables["parameters"]), "parameters")
    parts.append(f"<details><summary>All {len(tables['parameters'])} parameters in force</summary>{whole}</details>")
    return "".join(parts)


def _reproduce(tables: dict[str, Any]) -> str:
    text = (
        "Training gives the same bits on any number of threads: with the same data this program ends with the same "
        "digest."
    )
    return (
        _lead(text)
        + f'<div class="code"><button type="button" id="copy">Copy</button><pre><code>{escape(tables["code"])}</code>'
        + f"</pre></div>{_facts(tables['versions'])}"
    )
