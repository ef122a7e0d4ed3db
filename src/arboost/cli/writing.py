"""Columns to files: CSV and TSV, also compressed, Parquet, and CSV to stdout."""

import csv
import gzip
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from arboost.matrix import parquet


def write_columns(path: str, columns: dict[str, Any]) -> None:
    """Columns to a CSV or Parquet file by its suffix, or as CSV to stdout."""
    with writing(path) as write:
        write(columns)


@contextmanager
def writing(path: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """The same, some rows at a time: write(columns)."""
    import pyarrow

    target = Path(path).expanduser()
    if target.suffix.lower() in parquet.SUFFIXES:
        with parquet.writing(target) as write:
            yield write
        return
    mark = "\t" if Path(path.lower().removesuffix(".gz")).suffix in (".tsv", ".tab") else ","
    files: list[Any] = []  # opened when there is something to write: an error before that leaves an older file alone
    with ExitStack() as opened:

        def write_text(columns: dict[str, Any]) -> None:
            text = _csv_bytes(pyarrow.table(columns), mark, has_header=not files)
            if not files:
                files.append(sys.stdout.buffer if path == "-" else _opened(target, opened))
            files[0].write(text)
            files[0].flush()

        yield write_text


def as_lists(parts: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Columns that came in parts, whole and as JSON can hold them."""
    import pyarrow

    found: dict[str, list[Any]] = pyarrow.concat_tables([pyarrow.table(part) for part in parts]).to_pydict()
    return found


def _opened(target: Path, opened: ExitStack) -> Any:
    """The file, compressed if it is called so; without a time in it, so that the same rows give the same file."""
    file = opened.enter_context(target.open("wb"))
    if target.suffix.lower() != ".gz":
        return file
    return opened.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))


def _csv_bytes(table: Any, mark: str, has_header: bool) -> bytes:
    """CSV with quotes only if some text needs them."""
    import pyarrow
    import pyarrow.csv as arrow_csv

    header = io.StringIO()
    if has_header:
        csv.writer(header, delimiter=mark, lineterminator="\n").writerow(table.column_names)
    for style in ("none", "needed"):
        stream = pyarrow.BufferOutputStream()
        options = arrow_csv.WriteOptions(include_header=False, delimiter=mark, quoting_style=style)
        try:
            arrow_csv.write_csv(table, stream, options)
            break
        except pyarrow.ArrowInvalid:  # a text with a quote, a delimiter or a line end in it
            continue
    return header.getvalue().encode() + stream.getvalue().to_pybytes()
