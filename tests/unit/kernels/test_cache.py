"""Files of machine code: what is trusted, what is replaced, who waits for whom. Real files, processes and users."""

import errno
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core import event

from arboost.kernels import cache, jit, kinds

resource = pytest.importorskip("resource", reason="users, links and limits of POSIX")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
FORK = multiprocessing.get_context("fork")
SOMEBODY = 54321
BODY = bytes(range(256)) * 20


@pytest.fixture
def base(monkeypatch):
    """A folder for kernels that every user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="arboost-cache-"))
    folder.chmod(0o755)
    monkeypatch.setenv("ARBOOST_CACHE_DIR", str(folder))
    yield folder
    shutil.rmtree(folder)


def double(x, out):
    for i in range(len(x)):
        out[i] = 2 * x[i]


def run_kernel():
    """Meet `double` for the first time: (times it was compiled, result, the folder's state)."""
    folder = cache.KernelFolder()
    with pytest.MonkeyPatch.context() as patch, event.install_recorder("numba:compile") as recorder:
        patch.setattr(jit, "kernel_folder", lambda: folder)
        out = np.zeros(3)
        jit.kernel(double)(np.arange(3.0), out)
    return sum(happened.is_start for _, happened in recorder.buffer), out.tolist(), folder


def entry(base):
    """The one file that `run_kernel` leaves."""
    (path,) = base.rglob("*.kernel")
    return path


def in_child(function, uid=None):
    """What a forked child, perhaps of another user, gets from `function()`; an exception there is one here."""

    def run(sender):
        try:
            if uid is not None:
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            sender.send((True, function()))
        except BaseException as error:
            sender.send((False, repr(error)))

    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=run, args=(sender,))
    child.start()
    sender.close()
    fine, value = receiver.recv()
    child.join()
    assert fine, value
    return value


def counted():
    n_compiled, result, folder = run_kernel()
    assert result == [0, 2, 4]
    return n_compiled, folder.trouble


def damages():
    def cut(n):
        return lambda content: content[:n]

    def flip(position, bit):
        return lambda content: bytes(c ^ (bit if i == position % len(content) else 0) for i, c in enumerate(content))

    yield "empty", lambda content: b""
    yield "random", lambda content: np.random.default_rng(0).bytes(len(content))
    for n in (1, 10, 30, 49, 50, 1000, -1):
        yield f"cut to {n}", cut(n)
    for position in (0, 20, 49, 60, 700, -1):
        yield f"bit flipped at {position}", flip(position, 1 << abs(position) % 8)
    yield "longer", lambda content: content + b"\0"
    yield "twice", lambda content: content + content
    yield "text", lambda content: b"machine code\n" * 100


@pytest.mark.parametrize("damage", [pytest.param(change, id=name) for name, change in damages()])
def test_a_damaged_file_is_compiled_anew_and_replaced(base, damage):
    assert counted() == (1, "")
    path = entry(base)
    path.write_bytes(damage(path.read_bytes()))
    assert counted() == (1, "")
    assert counted() == (0, ""), "replaced"


def test_a_file_under_another_name_is_damaged(base):
    folder = cache.KernelFolder()
    folder.write("a.kernel", BODY)
    (folder.path / "a.kernel").rename(folder.path / "b.kernel")
    assert folder.read("a.kernel") is folder.read("b.kernel") is None


def test_a_whole_file_that_is_of_no_use_is_compiled_anew(base):
    """Its checksum is right, its content is not ours: another format, or what an import of it needs is gone."""
    for body in (b"", b"no pickle", b"cno_such_module\nname\n."):
        assert counted()[0] >= 0
        cache.KernelFolder().write(entry(base).name, body)
        assert counted() == (1, "")
        assert counted() == (0, "")


def test_machine_code_that_needs_what_is_not_there_is_compiled_anew(base, monkeypatch):
    counted()
    monkeypatch.setattr(jit.linking.binding, "address_of_symbol", lambda name: None)
    monkeypatch.setattr(jit.linking, "_linked", {})
    assert counted() == (1, "")


def test_in_place_of_the_file_there_is_something_else(base):
    counted()
    path = entry(base)
    for make in (os.mkdir, os.mkfifo, lambda where: os.symlink("/nowhere", where)):
        path.unlink()
        make(path)
        assert counted()[0] == 1
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        counted()


@pytest.mark.parametrize("mode", [0o020, 0o002, 0o022])
def test_what_others_may_write_is_not_loaded(base, mode):
    counted()
    path = entry(base)
    path.chmod(0o644 | mode)
    assert counted() == (1, "")
    assert stat.S_IMODE(entry(base).stat().st_mode) & 0o022 == 0, "replaced by a file of our own"
    assert counted() == (0, "")
    path.parent.chmod(0o755 | mode)
    assert counted() == (1, f"{path.parent} can be written by others")
    assert counted()[0] == 1, "nothing is kept there either"
    path.parent.chmod(0o755)
    assert counted() == (0, "")


@as_root
def test_what_another_user_owns_is_not_loaded(base):
    counted()
    path = entry(base)
    os.chown(path, SOMEBODY, SOMEBODY)
    assert counted() == (1, "")
    assert entry(base).stat().st_uid == 0, "replaced by a file of our own"
    os.chown(path.parent, SOMEBODY, SOMEBODY)
    assert counted() == (1, f"{path.parent} belongs to another user")
    os.chown(path, SOMEBODY, SOMEBODY)
    third = SOMEBODY + 1
    assert in_child(counted, third) == (1, f"{path.parent} belongs to another user")
    assert in_child(counted, SOMEBODY) == (0, ""), "but by the owner it is"


@as_root
def test_what_root_owns_is_used_by_all(base):
    """A container image: filled by root, used by somebody who cannot write there."""
    counted()
    before = entry(base).stat().st_mtime_ns
    n_compiled, trouble = in_child(counted, SOMEBODY)
    assert n_compiled == 0
    assert "cannot be written" in trouble
    assert entry(base).stat().st_mtime_ns == before


@as_root
def test_what_a_cache_that_cannot_be_written_lacks_is_compiled(base):
    cache.KernelFolder()
    said = []

    def compile_and_listen():
        jit.announce, jit._announced = lambda line: bool(said.append(line)) or True, set()
        return counted(), said

    (n_compiled, _), lines = in_child(compile_and_listen, SOMEBODY)
    assert n_compiled == 1
    assert list(base.rglob("*.kernel")) == list(base.rglob("lock")) == []
    (line,) = lines
    assert "compiling kernels for this process only" in line
    assert f"{base / cache.kernels_digest()} cannot be written" in line


def test_links_are_not_followed(base, tmp_path):
    counted()
    path = entry(base)
    copied = tmp_path / path.name
    path.rename(copied)
    path.symlink_to(copied)
    assert counted() == (1, "")
    assert not entry(base).is_symlink()
    moved = tmp_path / "folder"
    path.parent.rename(moved)
    path.parent.symlink_to(moved)
    n_compiled, trouble = counted()
    assert n_compiled == 1
    assert "link" in trouble


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o077])
def test_what_is_made_is_closed_whatever_the_umask(base, mask):
    before = os.umask(mask)
    try:
        assert counted() == (1, "")
        assert counted() == (0, "")
    finally:
        os.umask(before)
    assert all(path.stat().st_mode & 0o022 == 0 for path in base.rglob("*"))


def test_a_full_disk_is_no_obstacle(base):
    """A file may have 100 bytes here, which fails as a full disk does: in the middle of a write."""

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        return counted()

    n_compiled, trouble = in_child(fill)
    assert n_compiled == 1
    assert os.strerror(errno.EFBIG) in trouble
    assert [path.name for path in base.rglob("*") if path.is_file()] == ["lock"], "no half files"
    assert counted() == (1, "")


@as_root
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small file system")
def test_a_file_system_that_is_full(base):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=20,mode=755", "tmpfs", str(base)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.strip()}")
    try:
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)), open(base / "other", "wb", 0) as file:
            while True:
                file.write(bytes(4096))
        n_compiled, trouble = counted()
        assert n_compiled == 1
        assert os.strerror(errno.ENOSPC) in trouble
        assert list(base.rglob("*.kernel*")) == list(base.rglob(".*")) == [], "no half files"
        (base / "other").unlink()
        for i in range(100):  # no file more can be made, nor a folder
            try:
                (base / f"file-{i}").touch()
            except OSError:
                break
        shutil.rmtree(base / cache.kernels_digest(), ignore_errors=True)
        (base / "one-more").touch()
        n_compiled, trouble = counted()
        assert n_compiled == 1
        assert trouble
    finally:
        subprocess.run(["umount", str(base)], check=True)


def test_a_cache_that_is_cleared_is_filled_again(base):
    folder = cache.KernelFolder()
    folder.write("a.kernel", BODY)
    shutil.rmtree(folder.path)
    assert folder.read("a.kernel") is None
    folder.write("a.kernel", BODY)
    assert folder.read("a.kernel") == BODY
    assert (folder.trouble, folder.n_lost) == ("", 0)


@as_root
def test_no_home_no_cache(monkeypatch):
    """A container whose user has no entry and no HOME."""
    for name in ("HOME", "XDG_CACHE_HOME", "ARBOOST_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    n_compiled, trouble = in_child(counted, SOMEBODY)
    assert n_compiled == 1
    assert "no folder" in trouble and "home" in trouble


# A module of small kernels, and a process that meets all of them, beginning when told.
SMALL = """
from arboost.kernels.jit import kernel


@kernel
def twice(x, out):
    for i in range(len(x)):
        out[i] = 2 * x[i]


@kernel
def thrice(x, out):
    for i in range(len(x)):
        out[i] = 3 * x[i]


@kernel
def sorted_sum(x, out):
    values = x.copy()
    values.sort()
    for i in range(len(x)):
        out[i] = values[: i + 1].sum()
"""
MEET = """
import sys
import numpy as np
from numba.core import event
import small
from arboost.runtime import settings
print("ready", flush=True)
sys.stdin.readline()
x = np.array([3.0, 1.0, 2.0])
with settings.announcing(), event.install_recorder("numba:compile") as recorder:
    for function in (small.twice, small.thrice, small.sorted_sum):
        out = np.zeros(3)
        function(x, out)
        print(out.tolist())
started = [happened.data["dispatcher"].py_func for _, happened in recorder.buffer if happened.is_start]
print("compiled", sum(function.__module__ == "small" for function in started), flush=True)
"""


def start(base, script=MEET):
    (base / "small.py").write_text(SMALL)
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", textwrap.dedent(script)],
        cwd=base,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n", process.communicate()[1]
    return process


def finish(process):
    """How many kernels a process compiled; its results must be right."""
    *results, compiled = process.communicate("go\n")[0].splitlines()
    assert results == ["[6.0, 2.0, 4.0]", "[9.0, 3.0, 6.0]", "[1.0, 3.0, 6.0]"]
    return int(compiled.split()[1])


def test_processes_on_an_empty_cache_compile_each_kernel_once(base):
    processes = [start(base) for _ in range(3)]
    for process in processes:  # all at once: none begins before it is told
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sum(finish(process) for process in processes) == 3
    assert finish(start(base)) == 0


HOLD = """
import time
import small
from arboost.kernels import cache, jit
from numba import float64
names = [jit._file_name(f, (float64[::1], float64[::1])) for f in (small.twice, small.thrice)]
with cache.kernel_folder().compiling(names[0]):
    print("ready", flush=True)
    time.sleep(600)
"""


def waiting_for(base, holder):
    """A process that waits for the kernel which `holder` has the lock of."""
    process = start(base)
    process.stdin.write("go\n")
    process.stdin.flush()
    assert "compiling" in process.stderr.readline()  # said before it waits
    time.sleep(0.5)
    assert holder.poll() is None and process.poll() is None
    assert list(base.rglob("*.kernel")) == [], "it does wait"
    return process


def test_the_lock_of_a_killed_process_is_free(base):
    holder = start(base, HOLD)
    processes = [waiting_for(base, holder) for _ in range(2)]
    holder.send_signal(signal.SIGKILL)
    assert sum(finish(process) for process in processes) == 3
    holder.communicate()


def test_a_stopped_process_is_not_waited_for_for_ever(base):
    holder = start(base, HOLD)
    holder.send_signal(signal.SIGSTOP)
    impatient = "from arboost.kernels import cache\ncache.LONGEST_WAIT = 0.5\n" + textwrap.dedent(MEET)
    assert finish(start(base, impatient)) == 3
    holder.kill()
    holder.communicate()


def test_threads_compile_a_kernel_once(base, monkeypatch):
    folder = cache.KernelFolder()
    monkeypatch.setattr(jit, "kernel_folder", lambda: folder)
    kernel = jit.kernel(double)
    outs = [np.zeros(3) for _ in range(4)]
    barrier = threading.Barrier(4)

    def call(out):
        barrier.wait()
        kernel(np.arange(3.0), out)

    with event.install_recorder("numba:compile") as recorder:
        threads = [threading.Thread(target=call, args=(out,)) for out in outs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(happened.is_start for _, happened in recorder.buffer) == 1
    assert all(out.tolist() == [0, 2, 4] for out in outs)


def test_kinds_name_modules_that_are_there():
    source = Path(cache.__file__).parent
    assert {path.stem for path in source.rglob("*.py")} >= set(kinds._KIND_OF_MODULE)
    assert set(kinds._KIND_OF_MODULE.values()) <= set(kinds.KINDS)
    assert kinds.kind_of("arboost.kernels.cpu.round.rank") == "rank"
    assert kinds.kind_of("arboost.kernels.cpu.level") == "hist"
