"""What stands under a file's name while it is written, after an error, and where something else than a file stands."""

import os
import stat

import pytest

from arboost.runtime.drafts import draft_of


def put(path, text, error=None):
    with draft_of(path) as draft, open(draft, "w") as file:
        file.write(text)
        file.flush()
        if error is not None:
            raise error


def test_the_file_is_there_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    put(path, "new")
    os.chmod(path, 0o640)
    with draft_of(path) as draft, open(draft, "w") as file:
        file.write("newer")
        assert path.read_text() == "new"
    assert path.read_text() == "newer" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_an_error_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "file"
    for before in ([], ["file"]):
        with pytest.raises(type(error)):
            put(path, "half", error)
        assert os.listdir(tmp_path) == before
        path.write_text("old")
    assert path.read_text() == "old"


def test_links_are_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    put(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "text"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_stays_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        put(path, "text")
        assert os.read(reader, 10) == b"text" and stat.S_ISFIFO(path.stat().st_mode)
    finally:
        os.close(reader)
