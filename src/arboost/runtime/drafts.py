"""Files that appear under their name when they are whole: a crash or a full disk does not destroy what they replace."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator


@contextlib.contextmanager
def draft_of(path: str | os.PathLike) -> Iterator[str]:
    """The path to write to for a file at `path`: a new one beside it, moved there at the end, removed after an error.

    `~` stands for the home directory. Links are followed and permissions stay. A pipe or device is no place for another
    file: it is written to directly.
    """
    target = os.path.realpath(os.path.expanduser(os.fsdecode(path)))
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        yield target
        return
    draft = f"{target}.{secrets.token_hex(4)}.tmp"
    try:
        yield draft
        if mode is not None:
            os.chmod(draft, stat.S_IMODE(mode))
        os.replace(draft, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def write_text(path: str | os.PathLike, text: str) -> None:
    """A text file of that content."""
    with draft_of(path) as draft, open(draft, "w", encoding="utf-8") as out:
        out.write(text)
