"""Settings per thread, what is said and what is not, and the word before the first compilation."""

import subprocess
import sys
import threading
import warnings

import pytest

from arboost.kernels import jit
from arboost.runtime import settings


@pytest.fixture(autouse=True)
def restore():
    with settings.changed():
        yield


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_changed_restores_everything_even_after_an_error():
    settings.change(verbosity=2)
    with pytest.raises(RuntimeError), settings.changed(verbosity=0, nthread=3):
        settings.change(strict_parameters=True)
        assert settings.current().nthread == 3
        raise RuntimeError
    assert settings.current() == settings.Settings(verbosity=2)


def test_every_thread_starts_from_the_defaults():
    settings.change(verbosity=3)
    assert in_thread(settings.as_dict) == settings.Settings().__dict__

    def change_own():
        settings.change(verbosity=0)
        return settings.current().verbosity

    assert in_thread(change_own) == 0
    assert settings.current().verbosity == 3


@pytest.mark.parametrize("verbosity", range(4))
def test_say(capfd, verbosity):
    with settings.changed(verbosity=verbosity):
        for level in (1, 2, 3):
            settings.say(level, f"level {level}")
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "".join(f"level {level}\n" for level in (1, 2, 3) if level <= verbosity)


def test_warn_points_at_the_caller():
    with pytest.warns(FutureWarning, match="careful") as caught:
        settings.warn("careful", FutureWarning)
    assert caught[0].filename == __file__
    with settings.changed(verbosity=0), warnings.catch_warnings():
        warnings.simplefilter("error")
        settings.warn("careful")


def test_announcement_obeys_verbosity(capfd):
    assert not jit.announce("compiling")  # nothing long is under way
    assert capfd.readouterr() == ("", "")
    with settings.announcing():
        assert jit.announce("compiling")
        assert capfd.readouterr() == ("", "compiling\n")
        with settings.changed(verbosity=0):
            jit.announce("compiling")
            in_thread(lambda: jit.announce("compiling"))  # a pool thread has chosen nothing: as quiet as the caller
        assert capfd.readouterr() == ("", "")
        in_thread(lambda: jit.announce("compiling"))
        assert capfd.readouterr() == ("", "compiling\n")


COMPILE = """
from arboost.runtime import settings
from arboost.kernels.jit import kernel
def twice(x, start, stop):
    return 2 * x
settings.change(verbosity={verbosity})
with settings.announcing():
    kernel(twice)(1, 0, 1)
    kernel(twice)(1.5, 0, 1)
"""


@pytest.mark.parametrize("verbosity", [0, 1])
def test_first_compilation_is_announced_once(tmp_path, verbosity):
    script = tmp_path / "script.py"
    script.write_text(COMPILE.format(verbosity=verbosity))
    env = {"ARBOOST_CACHE_DIR": str(tmp_path), "PATH": ""}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=env)
    assert done.stdout == ""
    assert done.stderr.count("\n") == verbosity
    assert ("compiling" in done.stderr) == bool(verbosity)
