"""Where a progress bar is drawn: a cell of a notebook, a line of a terminal (in colour with rich), or plain lines.

A surface keeps nothing running: no thread, no redirected stream. Training that ends in an error leaves the last frame.
"""

import importlib
import shutil
import sys
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol, TextIO

_CELLS = 20  # of the bar


@dataclass(frozen=True)
class Progress:
    """How far training is: rounds done of a total (None if unknown), the latest scores, seconds so far."""

    done: int
    total: int | None
    scores: str
    seconds: float

    @property
    def share(self) -> float:
        return min(self.done, self.total) / self.total if self.total else 0.0

    @property
    def count(self) -> str:
        return f"{self.done}/{self.total}" if self.total else f"{self.done} rounds"

    @property
    def time(self) -> str:
        if not self.total or self.done >= self.total:
            return f"{self.seconds:.1f} s"
        return f"{self.seconds:.1f} s, {self.seconds / self.done * (self.total - self.done):.1f} s left"

    def line(self) -> str:
        """In plain letters."""
        filled = int(_CELLS * self.share)
        bar = f"[{'#' * filled}{'.' * (_CELLS - filled)}] " if self.total else ""
        return "  ".join(part for part in (bar + self.count, self.scores, self.time) if part)


class Surface(Protocol):
    """What a progress bar draws on."""

    renews: bool  # whether a frame replaces the one before

    def show(self, progress: Progress) -> None:
        """Draw a frame."""

    def finish(self, progress: Progress) -> None:
        """Draw the last frame."""


class PlainLines:
    """A line for every frame: log files, pipes."""

    renews = False

    def __init__(self, stream: TextIO):
        self._stream = stream

    def show(self, progress: Progress) -> None:
        self._stream.write(progress.line() + "\n")
        self._stream.flush()

    finish = show


class TerminalLine:
    """One line that is overwritten, cut to the terminal, with blanks over what was longer before."""

    renews = True

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._shown = ""

    def show(self, progress: Progress) -> None:
        line = progress.line()[: max(1, shutil.get_terminal_size().columns - 1)]
        self._stream.write("\r" + line + " " * (len(self._shown) - len(line)))
        self._stream.flush()
        self._shown = line

    def finish(self, progress: Progress) -> None:
        self.show(progress)
        self._stream.write("\n")
        self._stream.flush()


class RichLine(TerminalLine):
    """The same in colour, drawn by rich."""

    def __init__(self, stream: TextIO, console: Any, text: Any):
        super().__init__(stream)
        self._console = console.Console(file=stream)
        self._text = text.Text

    def show(self, progress: Progress) -> None:
        filled = round(2 * _CELLS * progress.share)
        line = self._text()
        if progress.total:
            line.append("━" * filled, "cyan").append("━" * (2 * _CELLS - filled), "dim").append("  ")
        line.append(progress.count, "bold").append(f"  {progress.scores}" if progress.scores else "")
        line.append(f"  {progress.time}", "dim")
        self._stream.write("\r\x1b[2K")
        self._console.print(line, end="", no_wrap=True, overflow="ellipsis", crop=True)
        self._stream.flush()


class NotebookCell:
    """A bar below the cell that trains, renewed in place."""

    renews = True

    def __init__(self, display: Any):
        self._display = display
        self._handle: Any = None

    def show(self, progress: Progress) -> None:
        frame = self._display.HTML(bar_html(progress))
        if self._handle is None:
            self._handle = self._display.display(frame, display_id=True)
        else:
            self._handle.update(frame)

    finish = show


def bar_html(progress: Progress) -> str:
    """The bar as HTML; the names of data sets and metrics are escaped."""
    width = 100.0 * progress.share if progress.total else 100.0
    return (
        '<div class="arboost-progress" style="display:flex;flex-wrap:wrap;align-items:center;gap:4px 14px;'
        'font:13px/1.6 system-ui,sans-serif"><div style="flex:0 0 220px;height:8px;border-radius:4px;overflow:hidden;'
        f'background:rgba(128,128,128,.25)"><div style="width:{width:.1f}%;height:100%;background:#2563c9"></div></div>'
        f"<b>{escape(progress.count)}</b><span>{escape(progress.scores)}</span>"
        f'<span style="opacity:.65">{escape(progress.time)}</span></div>'
    )


def make_surface(stream: TextIO | None) -> Surface | None:
    """The surface for a stream; without one the notebook's cell or stderr. None where there is nothing to draw on."""
    if stream is None:
        display = _notebook_display()
        if display is not None:
            return NotebookCell(display)
    target = sys.stderr if stream is None else stream
    if target is None:
        return None
    if not target.isatty():
        return PlainLines(target)
    if stream is None:
        try:
            return RichLine(target, importlib.import_module("rich.console"), importlib.import_module("rich.text"))
        except ImportError:
            return TerminalLine(target)
    return TerminalLine(target)


def _notebook_display() -> Any:
    """IPython's display module where this process is the kernel of a notebook, else None."""
    ipython = sys.modules.get("IPython")  # a notebook has imported it
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    return importlib.import_module("IPython.display")
