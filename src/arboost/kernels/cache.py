"""Where machine code is kept: one file per kernel and signature, in a folder per version of the kernels.

A file is its format's name, a checksum and the bytes that `linking.py` made. What is damaged reads as if it were not
there, so it is compiled anew and replaced. Machine code is code: what another user (but root) owns or may write is not
loaded, nor is a symbolic link. No fault of the disk gets out of here: at worst, kernels live as long as their process.
`docs/cache.md` is the page for users.
"""

import contextlib
import errno
import functools
import hashlib
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import llvmlite
import numba

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_SOURCE = Path(__file__).parent
_APART = "gpu"  # the folder of kernels that nothing outside it imports, with a stamp of their own
_FORMAT = b"arboost kernel 1\n"
_N_CHECKSUM = 32
# Opening never follows a link, waits for a pipe or hands the file to a child process.
_OPEN = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
LONGEST_WAIT = 180.0  # seconds: on a crowded machine one kernel has taken more than 60; who takes longer has stopped
_LOCKED_BY_ANOTHER = {errno.EACCES, errno.EAGAIN, errno.EDEADLK}


@functools.cache
def kernels_digest() -> str:
    """Digest of every source file of kernels for the CPU and of the compiler: the version of the machine code."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for path in sorted(_SOURCE.rglob("*.py")):
        name = path.relative_to(_SOURCE)
        if name.parts[0] == _APART:
            continue
        digest.update(name.as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def kernel_folder() -> "KernelFolder":
    """The folder of this process, opened on first use."""
    return KernelFolder()


def cache_folder() -> Path | None:
    """Where machine code is kept; None where nothing can be kept nor read."""
    return kernel_folder().path


class KernelFolder:
    """The files of one version of the kernels.

    `path` is None where there is no folder, or none that may be trusted; `trouble` says why nothing (more) is kept, and
    is empty as long as all is well. `n_lost` counts what was compiled and could not be kept.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self.trouble = ""
        self.n_lost = 0
        try:
            path = _base_folder() / kernels_digest()
            self._make(path)
            self.trouble = _distrust(path, os.lstat(path), stat.S_ISDIR)
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
            self.trouble = f"there is no folder for them: {error}"
            return
        if not self.trouble:
            self.path = path
            if not os.access(path, os.W_OK):
                self.trouble = f"{path} cannot be written"

    def _make(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o755, exist_ok=True)  # whatever the umask: group and others may not write

    def read(self, name: str) -> bytes | None:
        """What was written under a name; None where there is nothing, or nothing to be trusted."""
        if self.path is None:
            return None
        try:
            with open(os.open(self.path / name, os.O_RDONLY | _OPEN), "rb") as file:
                if _distrust(self.path / name, os.fstat(file.fileno()), stat.S_ISREG):
                    return None
                content = file.read()
        except OSError:
            return None
        start = len(_FORMAT) + _N_CHECKSUM
        body = content[start:]
        return body if content[:start] == _FORMAT + _checksum(name, body) else None

    def write(self, name: str, body: bytes) -> None:
        """Keep something under a name: all of it, or nothing."""
        if self.path is None:
            self.n_lost += 1
            return
        part = self.path / f".{name}.{os.getpid()}.{secrets.token_hex(4)}"
        try:
            self._make(self.path)  # somebody may have cleared the cache since it was opened
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o644), "wb") as file:
                file.write(_FORMAT + _checksum(name, body) + body)
            os.replace(part, self.path / name)
            self.trouble = ""
        except OSError as error:
            self.trouble = f"{self.path} cannot be written: {error.strerror}"
            self.n_lost += 1
        finally:
            with contextlib.suppress(OSError):
                part.unlink()

    @contextlib.contextmanager
    def compiling(self, name: str) -> Iterator[None]:
        """Waits while another process compiles for this name; what it wrote can be read then.

        The lock dies with its process. Where there are no locks, or one is held for too long, nobody waits.
        """
        with contextlib.ExitStack() as held:
            if self.path is not None and not self.trouble:
                with contextlib.suppress(OSError):
                    handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | _OPEN, 0o600)
                    held.callback(os.close, handle)  # which unlocks
                    _wait_for_lock(handle, int.from_bytes(_checksum(name, b"")[:3], "big"))
            yield


def _base_folder() -> Path:
    """ARBOOST_CACHE_DIR, or the user's folder for caches."""
    chosen = os.environ.get("ARBOOST_CACHE_DIR")
    if chosen == "":
        raise FileNotFoundError("ARBOOST_CACHE_DIR is empty")
    if chosen:
        return Path(chosen).absolute()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "arboost"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "arboost"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arboost"


def _distrust(path: Path, found: os.stat_result, is_kind: Callable[[int], bool]) -> str:
    """Why somebody else could have put code at `path`; empty where only this user and root could."""
    if not is_kind(found.st_mode):
        return f"{path} is a link, or not what it should be"
    if sys.platform == "win32":
        return ""  # its folders for caches are closed to others, and st_mode does not say who may write
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written by others"
    return ""


def _checksum(name: str, body: bytes) -> bytes:
    """Of a file's bytes and its name: a file copied onto another's name is damaged too."""
    digest = hashlib.sha256(name.encode())
    digest.update(body)
    return digest.digest()


def _wait_for_lock(handle: int, byte: int) -> None:
    """Lock one byte of a file, or wait until whoever has it is done or gone."""
    end = time.monotonic() + LONGEST_WAIT
    pause = 0.005
    while not _try_lock(handle, byte) and time.monotonic() < end:
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _try_lock(handle: int, byte: int) -> bool:
    try:
        if sys.platform == "win32":
            os.lseek(handle, byte, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError as error:
        if error.errno in _LOCKED_BY_ANOTHER:
            return False
        raise
    return True
