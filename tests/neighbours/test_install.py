"""`install_as_xgboost` and `python -m arboost.as_xgboost`: what `xgboost` is then, and what is left when it is over."""

import importlib.util

import pytest

from child_process import INSTALL, need, run, run_code

HAS_XGBOOST = importlib.util.find_spec("xgboost") is not None


def test_every_module_and_name(tmp_path):
    """The names of the package and its modules are ours, under XGBoost's module names and version."""
    need("sklearn")
    run_code(
        tmp_path,
        """
        import importlib, importlib.metadata
        import xgboost, xgboost as xgb
        from xgboost.core import Booster, DMatrix, XGBoostError, _LIB
        from xgboost.sklearn import XGBClassifier
        from xgboost._typing import ArrayLike
        assert xgboost.__version__ == importlib.metadata.version("xgboost") == "3.2.0"
        assert arboost.__version__ != "3.2.0"
        assert xgboost.Booster is Booster is arboost.Booster and xgb.XGBClassifier is XGBClassifier
        modules = ["core", "sklearn", "callback", "training", "data", "compat", "config", "plotting", "collective",
                   "objective", "interpret", "libpath", "_typing"]
        for name in modules:
            module, twin = importlib.import_module(f"xgboost.{name}"), importlib.import_module(f"arboost.{name}")
            assert module.__name__ == f"xgboost.{name}" and getattr(xgboost, name) is module
            assert all(getattr(module, key) is getattr(twin, key) for key in getattr(twin, "__all__", ())), name
        assert {"train", "core", "XGBModel", "__version__"} <= set(dir(xgboost))
        for cls, home in ((Booster, "core"), (DMatrix, "core"), (xgb.QuantileDMatrix, "core"), (XGBoostError, "core"),
                          (XGBClassifier, "sklearn"), (xgb.callback.EarlyStopping, "callback"),
                          (xgb.objective.Objective, "objective"), (xgb.training.CVPack, "training")):
            assert cls.__module__ == f"xgboost.{home}", cls
        assert importlib.util.find_spec("xgboost") is not None and importlib.util.find_spec("xgboost.nonsense") is None
        """,
        before=INSTALL,
    )


def test_what_is_not_here_is_refused_by_name(tmp_path):
    run_code(
        tmp_path,
        """
        import xgboost
        from xgboost.core import _LIB, _check_call
        try:
            _check_call(_LIB.XGBoosterPredict(None))
        except xgboost.core.XGBoostError as error:
            assert "XGBoosterPredict" in str(error) and "arboost" in str(error)
        else:
            raise AssertionError
        assert not hasattr(_LIB, "nonsense")
        for statement in ("import xgboost.federated", "from xgboost import nonsense"):
            try:
                exec(statement)
            except ImportError as error:
                assert statement.split()[-1] in str(error)
            else:
                raise AssertionError(statement)
        """,
        before=INSTALL,
    )


def test_a_patch_reaches_both_names(tmp_path):
    need("sklearn")
    run_code(
        tmp_path,
        """
        import xgboost
        from unittest import mock
        train = arboost.train
        with mock.patch("xgboost.train") as patched:
            assert arboost.train is xgboost.train is patched
        assert arboost.train is xgboost.train is train
        with mock.patch("xgboost.sklearn.train") as patched:
            assert arboost.sklearn.train is patched
        assert "train" in vars(xgboost.sklearn) and arboost.sklearn.train is train
        assert arboost.core is not xgboost.core
        """,
        before=INSTALL,
    )


@pytest.mark.skipif(not HAS_XGBOOST, reason="xgboost is not installed")
def test_refuses_when_xgboost_is_there_already(tmp_path):
    output = run_code(
        tmp_path,
        """
        import xgboost, sys, arboost, pickle
        before = set(sys.modules), list(sys.meta_path), arboost.Booster.__module__
        try:
            arboost.install_as_xgboost()
        except ImportError as error:
            print(error)
        assert sys.modules["xgboost"] is xgboost and list(sys.meta_path) == before[1]
        assert arboost.Booster.__module__ == before[2] == "arboost.booster"
        """,
    )
    assert "imported already" in output and "python -m arboost.as_xgboost" in output


def test_again_by_threads_and_undone(tmp_path):
    run_code(
        tmp_path,
        """
        import importlib.util, os, sys, threading
        import arboost
        from arboost import as_xgboost
        arboost.XGBClassifier, arboost.plot_tree  # what they import may put finders of its own in place
        before = list(sys.meta_path), list(sys.path), os.environ.get("PYTHONPATH")
        for _ in range(3):
            barrier, seen = threading.Barrier(8), []
            def install():
                barrier.wait()
                arboost.install_as_xgboost(children=True)
                import xgboost.core
                seen.append((sys.modules["xgboost"], xgboost.core.Booster))
            threads = [threading.Thread(target=install) for _ in range(8)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            assert len(set(seen)) == 1 and len(seen) == 8
            assert as_xgboost.is_installed() and arboost.Booster.__module__ == "xgboost.core"
            as_xgboost.uninstall()
            as_xgboost.uninstall()
            assert not as_xgboost.is_installed() and arboost.Booster.__module__ == "arboost.booster"
            assert "__reduce_ex__" not in vars(arboost.Booster)
            assert not [name for name in sys.modules if name.startswith("xgboost")]
            assert (list(sys.meta_path), list(sys.path), os.environ.get("PYTHONPATH")) == before
        """,
    )


PICKLED = """
import pickle, sys
import numpy as np
X = np.linspace(0, 1, 60).reshape(20, 3)
if sys.argv[1] == "write":
    model = xgb.XGBRegressor(n_estimators=3, callbacks=[xgb.callback.EvaluationMonitor()])
    model.fit(X, X[:, 0], verbose=False)
    things = (model, model.get_booster(), xgb.core.XGBoostError("why", 3), model.predict(X))
    for protocol in (0, 2, pickle.HIGHEST_PROTOCOL):
        open(f"{protocol}.pkl", "wb").write(pickle.dumps(things, protocol))
else:
    for protocol in (0, 2, pickle.HIGHEST_PROTOCOL):
        model, booster, error, predicted = pickle.load(open(f"{protocol}.pkl", "rb"))
        assert type(model) is xgb.XGBRegressor and type(booster) is xgb.Booster
        assert type(model.callbacks[0]) is xgb.callback.EvaluationMonitor
        assert type(error) is xgb.core.XGBoostError and error.args == ("why", 3)
        np.testing.assert_array_equal(model.predict(X), predicted)
        np.testing.assert_array_equal(booster.inplace_predict(X), predicted)
"""


@pytest.mark.parametrize("write, read", [("xgboost", "arboost"), ("arboost", "xgboost")])
def test_pickles_cross_over(tmp_path, write, read):
    """A pickle names the classes' true home, so that it loads with and without the other name."""
    need("sklearn")
    for library, step in ((write, "write"), (read, "read")):
        program = tmp_path / f"{step}.py"
        program.write_text((INSTALL if library == "xgboost" else "") + f"import {library} as xgb\n" + PICKLED)
        run(tmp_path, str(program), step)
    if write == "xgboost":
        assert b"xgboost.core" not in (tmp_path / "0.pkl").read_bytes()


@pytest.mark.skipif(not HAS_XGBOOST, reason="xgboost is not installed")
def test_a_pickle_of_xgboost_itself_is_refused(tmp_path):
    need("sklearn")
    code = """
        import pickle, sys
        import numpy as np
        import xgboost
        X = np.linspace(0, 1, 60).reshape(20, 3)
        model = xgboost.XGBRegressor(n_estimators=2).fit(X, X[:, 0])
        open("theirs.pkl", "wb").write(pickle.dumps(model))
        """
    run_code(tmp_path, code)
    code = """
        import pickle
        try:
            pickle.load(open("theirs.pkl", "rb"))
        except arboost.core.XGBoostError as error:
            print(error)
        """
    assert "Booster of XGBoost itself" in run_code(tmp_path, code, before=INSTALL)


def test_subclasses_and_copies(tmp_path):
    need("sklearn")
    run_code(
        tmp_path,
        """
        import copy, pickle
        import xgboost
        from sklearn.base import clone
        class Mine(xgboost.XGBRegressor):
            pass
        model = Mine(max_depth=2)
        for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model), clone(model)):
            assert type(twin) is Mine and twin.max_depth == 2
        twin = copy.deepcopy(xgboost.XGBClassifier(max_depth=2))
        assert type(twin) is xgboost.XGBClassifier and twin.max_depth == 2
        """,
        before=INSTALL,
    )


WHO = """
import sys, subprocess, multiprocessing
import xgboost
def who():
    import xgboost
    return xgboost.train.__module__
def send(pipe):
    pipe.send(who())
if __name__ == "__main__":
    assert sys.modules["__main__"].who is who
    print(sys.argv[1:], __name__, who())
    ran = subprocess.run([sys.executable, "-c", "import xgboost.core; print(xgboost.train.__module__)"],
                         capture_output=True, text=True, check=True)
    print(ran.stdout.strip())
    if globals().get("__file__"):
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=send, args=(there,))
        process.start()
        print(here.recv() if here.poll(120) else None)
        process.join()
"""


@pytest.mark.parametrize("form", ["script", "module", "code"])
def test_command(tmp_path, form):
    """The three forms of `python`, and the processes that the program starts."""
    (tmp_path / "who.py").write_text(WHO)
    program = {"script": ["who.py"], "module": ["-m", "who"], "code": ["-c", WHO]}[form]
    lines = run(tmp_path, "-m", "arboost.as_xgboost", *program, "one", "--two").stdout.splitlines()
    assert lines[0] == "['one', '--two'] __main__ arboost.training"
    assert lines[1:] == ["arboost.training"] * (1 if form == "code" else 2)


def test_command_refuses(tmp_path):
    for arguments, text in ((["nowhere.py"], "no file 'nowhere.py'"), (["-x"], "no option -x"), (["-m"], "-m needs")):
        ran = run(tmp_path, "-m", "arboost.as_xgboost", *arguments, fails=True)
        assert ran.returncode == 2 and text in ran.stderr and "Traceback" not in ran.stderr
    assert "usage" in run(tmp_path, "-m", "arboost.as_xgboost", "--help").stdout
    (tmp_path / "stop.py").write_text("raise SystemExit(7)")
    assert run(tmp_path, "-m", "arboost.as_xgboost", "stop.py", fails=True).returncode == 7
