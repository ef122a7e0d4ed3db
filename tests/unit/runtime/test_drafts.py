"""What stands under a file's name while it is written, after an error, and where something else than a file stands."""

import os
import stat
import threading

import numpy as np
import pytest

import arboost
from arboost.report import write_report
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


# ---- who writes files ----

X = np.arange(40.0, dtype=np.float32).reshape(20, 2)


@pytest.fixture(scope="module")
def booster():
    return arboost.train({"max_depth": 2}, arboost.DMatrix(X, X[:, 0] > 20), 2)


class OneBatch(arboost.DataIter):
    """One batch."""

    def __init__(self, X):
        self.X, self.done = X, False
        super().__init__()

    def reset(self):
        self.done = False

    def next(self, input_data):
        if not self.done:
            input_data(data=self.X)
        self.done, before = True, self.done
        return not before


WRITERS = {
    "save_model": lambda booster, path: booster.save_model(path),
    "dump_model": lambda booster, path: booster.dump_model(path),
    "to_python": lambda booster, path: booster.to_python(path),
    "save_binary": lambda booster, path: arboost.DMatrix(X).save_binary(path),
    "report": lambda booster, path: write_report(booster, path, X, X[:, 0] > 20),
    "trace": lambda booster, path: arboost.trace(X[:6], X[:6, 0], {"max_depth": 1}, 1).to_html(path),
    "trace as JSON": lambda booster, path: arboost.trace(X[:6], X[:6, 0], {"max_depth": 1}, 1).to_json(path),
    "predictions": lambda booster, path: booster.predict(OneBatch(X), output=path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_leaves_one_whole_file(name, booster, tmp_path):
    path, link = tmp_path / "real", tmp_path / "link.json"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)
    WRITERS[name](booster, str(link))
    assert link.is_symlink() and path.stat().st_size > len("before")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.json", "real"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.parametrize("name", [name for name in WRITERS if name != "predictions"])  # Parquet is no stream
def test_a_pipe_is_written_to_and_stays(name, booster, tmp_path):
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    WRITERS[name](booster, str(path))
    reader.join()
    assert stat.S_ISFIFO(path.stat().st_mode) and len(read[0]) > 10
