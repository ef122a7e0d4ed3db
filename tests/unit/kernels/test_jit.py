"""Where machine code is kept, what it is stamped with, and who is told of a compilation."""

import collections
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from arboost.kernels import cache, jit

# A process of its own calls one small kernel, and reports whether that had to be compiled.
PROBE = """
import json
import numpy as np
from numba.core import event
import arboost
from arboost.kernels import jit
from arboost.kernels.cpu.round.sample import sample_rows
from arboost.runtime import settings
{setup}
with settings.announcing(), event.install_recorder("numba:compile") as recorder:
    n = sample_rows(np.uint64(1), 1 << 31, 0, np.empty(100, np.int32), 0, 100)
print(json.dumps({{"compiled": len(recorder.buffer), "n": int(n), "folder": str(jit.cache_folder())}}))
"""


def probe(tmp_path, setup="", **environment):
    run = subprocess.run(
        [sys.executable, "-B", "-c", PROBE.format(setup=setup)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")} | environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout), run.stderr


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file())


def test_compiled_once_and_kept_where_the_user_says(tmp_path):
    kept = tmp_path / "kept"
    first, said = probe(tmp_path, ARBOOST_CACHE_DIR=str(kept))
    assert first["compiled"] > 0
    assert said.count("\n") == 1
    assert "compiling" in said
    assert first["folder"] == str(kept / jit.kernels_digest())
    files = files_below(tmp_path)
    assert files
    assert all(name.startswith(f"kept/{jit.kernels_digest()}/") for name in files)
    again, said = probe(tmp_path, ARBOOST_CACHE_DIR=str(kept))
    assert again == {**first, "compiled": 0}
    assert said == ""
    assert files_below(tmp_path) == files


def test_an_empty_folder_name_keeps_nothing(tmp_path):
    found, said = probe(tmp_path, setup="arboost.set_config(verbosity=0)", ARBOOST_CACHE_DIR="")
    assert found["compiled"] > 0
    assert found["folder"] == "None"
    assert files_below(tmp_path) == []
    assert said == ""


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Stands in for the kernels' source."""
    source = tmp_path / "kernels"
    (source / "cpu").mkdir(parents=True)
    (source / "scalar.py").write_text("a = 1\n")
    (source / "cpu" / "split.py").write_text("b = 2\n")
    monkeypatch.setattr(cache, "_SOURCE", source)
    return source


def digest():
    return cache.kernels_digest.__wrapped__()


def test_any_edit_changes_the_stamp(folder):
    seen = {digest()}
    (folder / "scalar.py").write_text("a = 3\n")
    seen.add(digest())
    (folder / "cpu" / "split.py").write_text("b = 4\n")
    seen.add(digest())
    (folder / "new.py").write_text("")
    seen.add(digest())
    (folder / "new.py").rename(folder / "cpu" / "new.py")
    seen.add(digest())
    assert len(seen) == 5
    before = digest()
    (folder / "notes.txt").write_text("no code")
    (folder / "gpu").mkdir()
    (folder / "gpu" / "split.py").write_text("c = 5\n")  # a device's kernels have a stamp of their own
    assert digest() == before


@pytest.mark.parametrize("package", ["numba", "llvmlite"])
def test_another_compiler_is_another_stamp(folder, monkeypatch, package):
    before = digest()
    monkeypatch.setattr(getattr(cache, package), "__version__", "0.0.0")
    assert digest() != before


def cache_folder():
    return cache.KernelFolder().path


def test_folder_by_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("ARBOOST_CACHE_DIR", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "arboost" / jit.kernels_digest()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "arboost" / jit.kernels_digest()
    monkeypatch.setenv("ARBOOST_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine" / jit.kernels_digest()
    assert cache_folder().is_dir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARBOOST_CACHE_DIR", "relative")
    assert cache_folder() == tmp_path / "relative" / jit.kernels_digest()  # wherever the process goes next


def test_no_folder_where_none_can_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ARBOOST_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert cache_folder() is None


def test_a_kernel_is_lazy(monkeypatch):
    """Decorating compiles nothing; the first call does, and works without a cache folder too."""

    def twice(x, out, start, stop):
        for i in range(start, stop):
            out[i] = 2 * x[i]

    kernel = jit.kernel(twice)
    assert not kernel.overloads
    monkeypatch.setenv("ARBOOST_CACHE_DIR", "")
    nowhere = cache.KernelFolder()
    assert nowhere.path is None
    monkeypatch.setattr(jit, "kernel_folder", lambda: nowhere)
    x, out = np.arange(5.0), np.zeros(5)
    kernel(x, out, 1, 4)
    assert out.tolist() == [0, 2, 4, 6, 0]
    assert kernel.targetoptions["nogil"]
    assert not kernel.targetoptions.get("fastmath", False)


def test_each_kind_is_announced_once(monkeypatch):
    said = []
    monkeypatch.setattr(jit, "_announced", set())
    monkeypatch.setattr(jit, "announce", lambda line: said.append(line) or len(said) > 1)  # the first time in vain
    for kind in ("hist", "hist", "hist", "rank", "rank"):
        jit._announce(kind, "")
    assert said[0] == said[1] == "arboost: compiling kernels for this machine, once: " + jit.KINDS["hist"] + " ..."
    assert said[2:] == ["arboost: compiling kernels for this machine, once: ranking ..."]


def keeps(*types):
    """The name of the file for a function's code and the types of its arguments."""

    def same(a, b):
        return a

    return jit._file_name(jit.kernel(same), types)


def test_the_file_is_named_for_types_and_code():
    """Equal types have one name; types that Numba keeps apart have two, whatever they print as."""
    row = np.dtype([("a", np.int32), ("b", np.float32)])
    pair, couple = (collections.namedtuple(name, "x y") for name in ("pair", "couple"))
    arrays = [np.zeros(3), np.zeros(3)[::2], np.zeros((3, 3)), np.zeros((3, 3), order="F"), np.zeros(3, np.float32)]
    arrays += [np.zeros(3, row), np.zeros(3, np.dtype([("b", np.float32), ("a", np.int32)]))]
    values = [*arrays, 1, 1.0, True, np.uint64(1), (1, 2), (1, 2.0), (1, 2, 3), ((1, 2), 3), pair(1, 2), couple(1, 2)]
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    types = [numba.typeof(value) for value in (*values, fixed)]
    names = [keeps(each, numba.int64) for each in types]
    assert len(set(names)) == len(names)
    assert names == [keeps(numba.typeof(value), numba.int64) for value in (*values, fixed)]
    assert keeps(numba.int64, numba.float64) != keeps(numba.float64, numba.int64)


def test_a_kernel_that_compiled_code_calls_is_compiled_into_it(monkeypatch, tmp_path):
    """Also when the kernel itself was linked from disk, where there is only machine code."""
    monkeypatch.setenv("ARBOOST_CACHE_DIR", str(tmp_path))
    folder = cache.KernelFolder()
    monkeypatch.setattr(jit, "kernel_folder", lambda: folder)

    def halve(x):
        return x / 2

    def check(inner):
        assert inner(3.0) == 1.5
        assert numba.njit(lambda x: inner(x) + 1)(3.0) == 2.5
        assert inner(5.0) == 2.5

    check(jit.kernel(halve))
    assert list(tmp_path.rglob("*.kernel"))
    check(jit.kernel(halve))


# A process that compiles a kernel and prints what would be kept of it.
PACK = """
import numba
from arboost.kernels import jit, linking
def f(x):
    return x + {k}
kernel = jit.kernel(f)
kernel(1.0)
print(linking.pack(kernel.overloads[numba.float64,]).hex())
"""


def test_kernels_of_two_processes_do_not_meet(tmp_path):
    """Names are unique in one process: what another one compiled may have the same names for other code."""
    packed = []
    for k in (1, 2):
        run = subprocess.run(
            [sys.executable, "-c", PACK.format(k=k)],
            env=os.environ | {"ARBOOST_CACHE_DIR": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        packed.append(bytes.fromhex(run.stdout))
    (_, (*_, first), *_), (_, (*_, second), *_) = (pickle.loads(each) for each in packed)
    assert first == second, "or the test shows nothing"
    kernel = jit.kernel(lambda x: x)
    linked = [jit.linking.link(each, kernel, (numba.float64,)).entry_point for each in (*packed, *packed)]
    assert [function(1.0) for function in linked] == [2.0, 3.0, 2.0, 3.0]
