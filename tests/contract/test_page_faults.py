"""What goes wrong with pages on disk is said by name, never in a wrong model, and leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import arboost
import child_process
import page_sources
from arboost.matrix import page_files
from arboost.matrix.page_files import SUFFIX, PageFile, Place, remove_leftovers
from page_sources import MadeUp, open_page_files

fcntl = pytest.importorskip("fcntl")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="faults are made with /dev/full, looked at in /proc")

PROGRAM = f"""
import os, resource, signal, sys
sys.path.insert(0, {str(Path(page_sources.__file__).parent)!r})
import arboost
from page_sources import MadeUp, open_page_files
"""


@pytest.fixture
def data(tmp_path):
    return arboost.ExtMemQuantileDMatrix(MadeUp(str(tmp_path)))


def file_of(data):
    """The page file of a matrix."""
    return data.pages(data._ctx, 256)._files[0]


def size_of(file):
    return os.fstat(file._handle).st_size


@pytest.mark.parametrize("place", [0, 5000, -1])
def test_a_byte_that_has_changed(data, place):
    file = file_of(data)
    place %= size_of(file)
    before = os.pread(file._handle, 1, place)
    os.pwrite(file._handle, bytes([before[0] ^ 4]), place)
    # deep trees look at every column
    with pytest.raises(arboost.core.XGBoostError, match=f"page read from {file.folder} is not what was written"):
        arboost.train({"max_depth": 8}, data, 20)
    os.pwrite(file._handle, before, place)
    assert arboost.train({"max_depth": 8}, data, 2).num_boosted_rounds() == 2


def test_a_file_that_was_cut_off(data):
    file = file_of(data)
    os.ftruncate(file._handle, size_of(file) // 2)
    with pytest.raises(arboost.core.XGBoostError, match=f"A page file in {file.folder} ends at byte .* too early"):
        arboost.train({}, data, 2)


def test_a_file_that_cannot_be_read(data):
    file = file_of(data)
    with open(os.devnull, "wb") as other:
        os.dup2(other.fileno(), file._handle)
    with pytest.raises(
        arboost.core.XGBoostError, match=f"Pages cannot be read from {file.folder}: Bad file descriptor"
    ):
        arboost.train({}, data, 2)


def test_a_disk_that_is_full(tmp_path):
    file = PageFile(Place(tmp_path, ""))
    with open("/dev/full", "r+b", buffering=0) as full:
        os.dup2(full.fileno(), file._handle)
    with pytest.raises(arboost.core.XGBoostError, match=f"cannot be written to {tmp_path}: No space left on device"):
        file.append(np.zeros(100, np.uint8))


def test_a_folder_that_vanishes(tmp_path, data):
    """Files have no name any more: pages are still there."""
    expected = arboost.train({}, data, 2).save_raw()
    folder = file_of(data).folder
    shutil.rmtree(folder)
    assert arboost.train({}, data, 2).save_raw() == expected
    with pytest.raises(arboost.core.XGBoostError, match=f"The folder for pages is not there: {folder}"):
        arboost.ExtMemQuantileDMatrix(MadeUp(str(folder / "cache")))


def test_a_folder_that_nothing_can_be_written_to(tmp_path):
    with pytest.raises(arboost.core.XGBoostError, match="No page file can be made in /proc"):
        arboost.ExtMemQuantileDMatrix(MadeUp("/proc/cache"))


def test_a_closed_matrix(data):
    data.close()
    data.close()
    with pytest.raises(arboost.core.XGBoostError, match="it was closed"):
        arboost.train({}, data, 2)


def test_an_error_of_the_source_leaves_nothing(tmp_path):
    class Failing(MadeUp):
        n_passes = 0

        def reset(self):
            super().reset()
            self.n_passes += 1

        def next(self, input_data):
            if self.n_passes == 5 and self.at == 3:
                raise RuntimeError("the source broke")
            return super().next(input_data)

    source = Failing(str(tmp_path), n_batches=5, n_rows=100_000)
    with pytest.raises(RuntimeError, match="the source broke"):
        arboost.ExtMemQuantileDMatrix(source)
    assert source.n_passes == 5, "it was being binned"
    assert list(tmp_path.iterdir()) == []
    assert not open_page_files(tmp_path)


def test_files_have_no_name_and_end_with_their_matrix(tmp_path):
    data = arboost.ExtMemQuantileDMatrix(MadeUp(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
    assert open_page_files(tmp_path)
    del data
    assert not open_page_files(tmp_path)


# ---- where a name stays ----


def named_file(monkeypatch, folder):
    """A file in a folder that does not let go of names."""
    with monkeypatch.context() as patch:
        patch.setattr(page_files, "_take_name", lambda path: False)
        return PageFile(Place(folder, "cache"))


def test_a_file_with_a_name_is_removed_at_the_end(tmp_path, monkeypatch):
    file = named_file(monkeypatch, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [SUFFIX]
    remove_leftovers(tmp_path)
    assert file.path.exists(), "its process is alive"
    PageFile(Place(tmp_path, ""))
    assert file.path.exists()
    child = os.fork()
    if child == 0:
        file.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert file.path.exists(), "a child has no business with it"
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    code = f"""
from pathlib import Path
from arboost.matrix import page_files
page_files._take_name = lambda path: False
file = page_files.PageFile(page_files.Place(Path({str(tmp_path)!r}), "cache"))
print("made", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "made\n"
        arboost.ExtMemQuantileDMatrix(MadeUp(str(tmp_path)))
        assert len(list(tmp_path.iterdir())) == 1, "it is alive"
        child.kill()
    (tmp_path / "mine.txt").write_text("not a page")
    (tmp_path / f"locked{SUFFIX}").touch()
    with open(tmp_path / f"locked{SUFFIX}") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        arboost.ExtMemQuantileDMatrix(MadeUp(str(tmp_path)))
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"locked{SUFFIX}", "mine.txt"]


# ---- ends of a process ----


def test_too_large_a_file(tmp_path):
    code = """
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    arboost.ExtMemQuantileDMatrix(MadeUp("."))
except arboost.core.XGBoostError as error:
    print(error)
print(os.listdir("."), open_page_files())
"""
    said = child_process.run_code(tmp_path, code, PROGRAM)
    assert "Pages cannot be written to .: File too large, after" in said
    assert said.endswith("['program.py'] []\n"), said


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_stopped(tmp_path, how):
    code = f"""
data = arboost.ExtMemQuantileDMatrix(MadeUp({str(tmp_path)!r}))
class Say(arboost.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        if epoch == 2:
            print("training", flush=True)
try:
    arboost.train({{"max_depth": 8}}, data, 1_000_000, callbacks=[Say()])
except KeyboardInterrupt:
    kept = arboost.train({{}}, data, 2).save_raw()
    data.close()
    print("interrupted", open_page_files(), len(kept) > 0, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", PROGRAM + code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "training\n"
        child.send_signal(how)
        rest = child.stdout.read()
    assert rest == ("interrupted [] True\n" if how == signal.SIGINT else "")
    assert list(tmp_path.iterdir()) == []


# ---- where files go ----


def test_places(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    folder = tmp_path / "folder"
    assert page_files.places_of(tmp_path / "cache") == [Place(tmp_path, "cache")]
    assert page_files.places_of(str(folder)) == page_files.places_of(f"{folder}/") == [Place(folder, "")]
    assert page_files.places_of((folder, f"{folder}/x")) == [Place(folder, ""), Place(folder, "x")]
    assert page_files.places_of("cache") == [Place(Path("."), "cache")]
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(page_files.tempfile, "tempdir", None)
    assert page_files.places_of(None) == page_files.places_of("") == [Place(folder, "")]
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    assert page_files.places_of(None) == [Place(Path("/var/tmp"), "")], "on disk, unlike /tmp at times"
