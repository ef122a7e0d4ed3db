"""What is said: tables, bars and the progress of training on the terminal, or one JSON object for machines.

Results go to stdout; progress, notes and errors to stderr, so that a pipe carries results alone.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

_BAR = "█"
_HALF = "▌"
_BAR_WIDTH = 32
_UPDATE_SECONDS = 0.05
_NAME_WIDTH = 28
QUIET = "arboost.quiet"  # in the meta of a command's context


def out() -> Console:
    """The console for results."""
    return Console(highlight=False, soft_wrap=False)


def err() -> Console:
    """The console for everything else."""
    return Console(stderr=True, highlight=False)


def note(message: str) -> None:
    """Something the user should know: one line on stderr, of any width; nothing under --quiet."""
    context = click.get_current_context(silent=True)
    if context is None or QUIET not in context.meta:
        say("note", "yellow", message)


def say(kind: str, style: str, message: str) -> None:
    """A line on stderr that scripts can look for: it is not broken where the terminal ends."""
    err().print(Text(f"{kind}: ", style=style) + Text(message), soft_wrap=True)


def print_json(result: Mapping[str, Any]) -> None:
    """One JSON object on stdout."""
    print(as_json(result))


def as_json(result: Mapping[str, Any]) -> str:
    """JSON that every reader takes: numbers that are none, such as the auc of one class, are null."""
    return json.dumps(_plain(result), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """Only what JSON has: NumPy's numbers as Python's, no NaN and no infinity."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def number(value: float) -> str:
    """Four places, so that columns line up; more for what is tiny, fewer for what is large."""
    size = abs(value)
    if 0 < size < 1e-3:
        return f"{value:.3g}"
    return f"{value:.4f}" if size < 100 else f"{value:,.2f}" if size < 1e5 else f"{value:,.0f}"


def _table(title: str, **options: Any) -> Table:
    """A table without lines."""
    return Table(
        title=title or None, title_justify="left", title_style="bold", box=None, header_style="dim", pad_edge=False,
        **options,
    )  # fmt: skip


def facts(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """Names and what they are, without lines."""
    table = _table(title, show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


def scores(columns: Mapping[str, Mapping[str, float]], title: str = "") -> Table:
    """A row for each metric, a column for each part of the data."""
    table = _table(title)
    table.add_column("metric", style="cyan")
    for name in columns:
        table.add_column(name, justify="right")
    for metric in dict.fromkeys(metric for values in columns.values() for metric in values):
        table.add_row(metric, *(number(v[metric]) if metric in v else "" for v in columns.values()))
    return table


def bars(
    values: Sequence[tuple[str, float]], title: str, words: Callable[[float], str] = number, most: int = 10
) -> Table:
    """The largest values as bars."""
    table = _table(title, show_header=False)
    shown = [(name, value, words(value)) for name, value in sorted(values, key=lambda pair: -pair[1])[:most]]
    largest = max((value for _, value, _ in shown), default=0.0) or 1.0
    text_width = max((min(len(name), _NAME_WIDTH) + len(text) for name, _, text in shown), default=0)
    width = max(1, min(_BAR_WIDTH, out().width - text_width - 4))  # two spaces on either side of the bar
    table.add_column(style="cyan", max_width=_NAME_WIDTH, no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for name, value, text in shown:
        halves = round(2 * width * max(value, 0.0) / largest)
        table.add_row(Text(name), Text(_BAR * (halves // 2) + _HALF * (halves % 2), style="green"), text)
    if len(values) > most:
        table.add_row(f"and {len(values) - most} more", "", "", style="dim")
    return table


def plain_table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> Table:
    """Text in columns, the first to the left."""
    table = _table(title)
    for k, name in enumerate(header):
        table.add_column(name, justify="left" if k == 0 else "right", style="cyan" if k == 0 else "")
    for row in rows:
        table.add_row(*row)
    return table


def rounds_bar(n_rounds: int, shown: bool) -> Any:
    """A callback of `train` and `cv` that draws the rounds, the last metric, rounds per second and the time left."""
    from arboost.callback import TrainingCallback

    class RoundsBar(TrainingCallback):
        """Lives on stderr while training runs, and leaves nothing behind there."""

        def __init__(self) -> None:
            super().__init__()
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("round {task.fields[at]}"),
                BarColumn(_BAR_WIDTH),
                TextColumn("{task.fields[words]}"),
                console=err(),
                transient=True,
            )
            self._began = self._last = 0.0
            self._task: Any = None

        def before_training(self, model: Any) -> Any:
            if shown and self._progress.console.is_terminal:
                self._progress.start()
                self._task = self._progress.add_task("", total=n_rounds, at=f"0/{n_rounds}", words="")
            return model

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            now = time.perf_counter()
            self._began = self._began or now  # the first round may have had kernels to load
            if self._task is not None and (now - self._last > _UPDATE_SECONDS or epoch + 1 == n_rounds):
                self._last = now
                done = epoch + 1
                words = _progress_words(evals_log, done, n_rounds, now - self._began)
                self._progress.update(self._task, completed=done, at=f"{done}/{n_rounds}", words=words)
            return False

        def after_training(self, model: Any) -> Any:
            if self._task is not None:
                self._progress.stop()
            return model

    return RoundsBar()


def _progress_words(log: Any, done: int, n_rounds: int, seconds: float) -> str:
    if done < 2:
        return _last_score(log)
    speed = (done - 1) / max(seconds, 1e-9)
    left = (n_rounds - done) / speed
    clock = f"{int(left // 60)}:{int(left % 60):02d}"
    return f"{_last_score(log)}  [dim]{speed:,.0f} rounds/s  {clock} left[/dim]".strip()


def _last_score(log: Any) -> str:
    """The last metric of the last part of the data: what early stopping looks at."""
    for part, metrics in reversed(list((log or {}).items())):
        for metric, values in reversed(list(metrics.items())):
            value = values[-1][0] if isinstance(values[-1], tuple) else values[-1]
            return f"[bold]{part} {metric} {value:.5f}[/bold]"
    return ""
