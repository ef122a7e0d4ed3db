"""One self-contained HTML page about a trained model: `write_report(model, "report.html", data, label)`.

`subject` gathers model, rows and predictions; `facts`, `curves`, `quality` (with `classification`, `regression`,
`ranking`, `survival`), `explain` and `trees` turn them into plain lists and dicts; `page` writes them into HTML,
which `assets/` draws in the browser. No number is computed in the page, none by anything but the engine.
"""

from arboost.report.write import report_html, write_report

__all__ = ["report_html", "write_report"]
