"""Where machine code is kept, what it is stamped with, and who is told of a compilation."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arboost.kernels import jit

# A process of its own calls one small kernel, and reports whether that had to be compiled.
PROBE = """
import json
import numpy as np
from numba.core import event
import arboost
from arboost.kernels import jit
from arboost.kernels.cpu.sample import sample_rows
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
    monkeypatch.setattr(jit, "_FOLDER", source)
    return source


def digest():
    return jit.kernels_digest.__wrapped__()


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
    assert digest() == before


def test_another_numba_is_another_stamp(folder, monkeypatch):
    before = digest()
    monkeypatch.setattr(jit.numba, "__version__", "0.0.0")
    assert digest() != before


def cache_folder():
    return jit.cache_folder.__wrapped__()


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


def test_no_folder_where_none_can_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ARBOOST_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert cache_folder() is None


def test_a_kernel_is_lazy():
    """Decorating compiles nothing; the first call does, and works without a cache folder too."""

    def twice(x, out, start, stop):
        for i in range(start, stop):
            out[i] = 2 * x[i]

    kernel = jit.kernel(twice)
    assert not kernel.overloads
    assert isinstance(kernel._cache, jit._LazyCache)
    kernel._cache = jit.caching.NullCache()
    x, out = np.arange(5.0), np.zeros(5)
    kernel(x, out, 1, 4)
    assert out.tolist() == [0, 2, 4, 6, 0]
    assert kernel.targetoptions["nogil"]
    assert not kernel.targetoptions.get("fastmath", False)
