"""Code blocks of Markdown pages, and a process that runs a page's blocks in order, as a reader would.

Run as a program: `python page_blocks.py PAGE` executes the page in the current folder. Python blocks share one
namespace; a ```sh block is run by bash; a ```toml block with a title is written to the file it names; a ```text block
that follows a block at once is what that block prints.
"""

import contextlib
import io
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_NOT_RUN = re.compile(r"(pip|make|git|docker|source|cd) ")  # these set a machine up; tests of their own cover them
_RUN = re.compile(r"(arboost|python|mpirun) |cat \S+ \| arboost ")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, text, first line in the page, and what it must print (None: anything)."""

    language: str
    text: str
    line: int
    output: str | None = None
    name: str = ""  # of a file


def blocks_of(page: Path) -> list[Block]:
    """The Python and shell blocks of a page that are run, each with the output shown right after it."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = -1
    for match in _FENCE.finditer(text):
        indent, language, rest, body = match.groups()
        body = re.sub(f"^{indent}", "", body, flags=re.MULTILINE)
        line = text.count("\n", 0, match.start(4)) + 1
        if language == "text" and found and not text[end : match.start()].strip():
            last = found.pop()
            found.append(Block(last.language, last.text, last.line, body))
        elif language == "python":
            found.append(Block(language, body, line))
        elif language == "sh":
            found.append(Block(language, _commands(body, page, line), line))
        elif language == "toml" and (title := _TITLE.search(rest)):
            found.append(Block(language, body, line, name=title[1]))
        else:
            continue
        end = match.end()
    return [block for block in found if block.text.strip()]


def _commands(body: str, page: Path, line: int) -> str:
    """The commands of a shell block that are run; an unknown one is an error, so that none drops out unseen."""
    kept = []
    for command in re.sub(r"\\\n\s*", " ", body).splitlines():
        if not command or command.startswith("#") or _NOT_RUN.match(command):
            continue
        if not _RUN.match(command):
            raise ValueError(f"{page.name}:{line}: neither run nor known as a set-up command: {command}")
        kept.append(command)
    return "\n".join(kept)


def same_output(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed, apart from space at the ends of lines."""
    left, right = ([line.rstrip() for line in text.strip().splitlines()] for text in (shown, printed))
    return left == right


def run_page(page: Path) -> None:
    """Execute a page's blocks; an error, or output other than the page shows, ends the process with its place."""
    sys.path.insert(0, "")  # modules that a page writes are found, as in a session of the reader
    namespace = {"__name__": "__main__"}
    for block in blocks_of(page):
        place = f"{page.name}:{block.line}"
        print(f"# {place}", flush=True)
        out = io.StringIO()
        if block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            with contextlib.redirect_stdout(out):
                exec(code, namespace)
        elif block.language == "toml":
            Path(block.name).write_text(block.text, encoding="utf-8")
        else:
            shell = ["bash", "-euo", "pipefail", "-c", block.text]
            ran = subprocess.run(shell, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise SystemExit(f"{place}: exit status {ran.returncode}\n{ran.stdout}{ran.stderr}")
            out.write(ran.stdout)
        if block.output is not None and not same_output(block.output, out.getvalue()):
            raise SystemExit(f"{place}: the page shows\n{block.output}\nbut this is printed:\n{out.getvalue()}")


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
