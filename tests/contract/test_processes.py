"""Training behaves among other threads and processes, when interrupted, and keeps to itself.

Scripts run in processes of their own; each prints what it found as JSON.
"""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import arboost
from boosting_cases import make_features, make_label

X = make_features(40_000, missing=0.1)  # enough for threads to work together on a tree
Y = make_label("reg:squarederror", X)
PARAMS = {"max_depth": 5, "nthread": 4, "subsample": 0.9}

HEADER = """
import json, os, sys
import numpy as np
import arboost
def make():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 6)).astype(np.float32)
    return arboost.DMatrix(X, X[:, 0] * X[:, 1] + X[:, 2])
"""


def fit(n_rounds=4):
    return bytes(arboost.train(PARAMS, arboost.DMatrix(X, Y), n_rounds).save_raw())


@pytest.fixture(scope="module")
def expected():
    return fit()


def run_script(body, **options):
    """Run a script to its end; `options` go to subprocess.run."""
    command = [sys.executable, "-B", "-c", HEADER + textwrap.dedent(body)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)
    assert run.returncode == 0, run.stderr
    return run


# ---- threads ----


def test_threads_train_at_once(expected):
    """More threads train than the pool serves; each data set is shared by two of them."""
    with ThreadPoolExecutor(4) as executor:
        assert list(executor.map(lambda _: fit(), range(4))) == [expected] * 4
    data = arboost.DMatrix(X, Y)
    with ThreadPoolExecutor(2) as executor:
        models = executor.map(lambda _: bytes(arboost.train(PARAMS, data, 4).save_raw()), range(2))
        assert list(models) == [expected] * 2


def fit_all(all_params, make_data, n_threads=4):
    """Models of all parameters, each on data of its own, and on one matrix that threads share."""

    def fit_one(params, data):
        return bytes(arboost.train({"nthread": 1, "max_depth": 4, **params}, data, 6).save_raw())

    shared, start = make_data(), threading.Barrier(n_threads)

    def fit_shared(params):
        start.wait()
        return fit_one(params, shared)

    alone = [fit_one(params, make_data()) for params in all_params]
    together = []
    with ThreadPoolExecutor(n_threads) as executor:
        for i in range(0, len(all_params), n_threads):
            together += executor.map(fit_shared, all_params[i : i + n_threads])
    return alone, together


def test_threads_train_on_one_categorical_matrix():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 30, (3000, 4))
    label = np.sin(codes).sum(axis=1)
    params = [{"max_cat_to_onehot": 1, "subsample": 0.8, "seed": seed} for seed in range(12)]
    for tree_method in ("hist", "approx"):
        alone, together = fit_all(
            [{**p, "tree_method": tree_method} for p in params],
            lambda: arboost.DMatrix(codes, label, feature_types=["c"] * 4),
        )
        assert together == alone


def test_threads_ask_one_matrix_for_pages_of_different_kinds():
    kinds = [{"max_bin": 16}, {"max_bin": 64}, {"max_bin": 300}, {"tree_method": "exact"}, {"tree_method": "approx"}]
    kinds += [{"enable_bundle": False}, {"monotone_constraints": "(1,0,0,0,0,0)"}, {"max_bin": 16, "subsample": 0.5}]
    for data in (X[:4000, :6], scipy.sparse.csr_matrix(np.where(X[:4000, :6] > 0.5, X[:4000, :6], 0))):
        alone, together = fit_all(kinds * 2, lambda data=data: arboost.DMatrix(data, Y[:4000]))
        assert together == alone


def test_threads_predict_with_one_booster():
    booster = arboost.train({**PARAMS, "objective": "reg:pseudohubererror"}, arboost.DMatrix(X, Y), 20)
    data = arboost.DMatrix(X)
    alone = booster.predict(data)
    fresh = arboost.Booster(model_file=booster.save_raw())  # nothing is packed or resolved yet: threads race to do it
    start = threading.Barrier(8)

    def predict(i):
        start.wait()
        if i % 2:
            return fresh.predict(data)
        return np.concatenate([fresh.inplace_predict(X[:10_000]), fresh.inplace_predict(X[10_000:])])

    with ThreadPoolExecutor(8) as executor:
        for found in executor.map(predict, range(8)):
            assert np.array_equal(found, alone)


def test_a_thread_predicts_while_another_trains():
    data, other = arboost.DMatrix(X, Y), arboost.DMatrix(X[:500])
    booster = arboost.train(PARAMS, data, 3)
    alone = booster.predict(other)
    with ThreadPoolExecutor(2) as executor:
        training = executor.submit(arboost.train, PARAMS, data, 20)
        while not training.done():
            assert np.array_equal(booster.predict(other), alone)
        assert training.result().num_boosted_rounds() == 20


# ---- processes ----


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_after_training(expected):
    """The pool's threads do not live on in a child; it makes its own."""
    assert fit() == expected
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # never return into pytest
        try:
            os.write(write, b"same" if fit() == expected else b"different")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        assert answer.read() == b"same"
    assert os.waitpid(child, 0)[1] == 0
    assert fit() == expected, "the parent trains on"


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_fork_while_another_thread_trains(expected):
    """A child forked in the middle of someone's round must not wait for a lock that nobody will release."""
    stop = threading.Event()

    def keep_training():
        while not stop.is_set():
            fit(1)

    trainer = threading.Thread(target=keep_training)
    trainer.start()
    try:
        with multiprocessing.get_context("fork").Pool(2) as workers:
            assert workers.map_async(fit, [4, 4]).get(timeout=120) == [expected] * 2
    finally:
        stop.set()
        trainer.join()


def test_joblib_workers(expected):
    joblib = pytest.importorskip("joblib")
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(_fit_elsewhere)(X, Y, PARAMS) for _ in range(3)) == [expected] * 3
    booster = arboost.train(PARAMS, arboost.DMatrix(X, Y), 3)
    parts = joblib.Parallel(n_jobs=2)(joblib.delayed(booster.inplace_predict)(part) for part in np.array_split(X, 4))
    assert np.array_equal(np.concatenate(parts), booster.inplace_predict(X))


def _fit_elsewhere(X, y, params):
    return bytes(arboost.train(params, arboost.DMatrix(X, y), 4).save_raw())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_one_cpu():
    """With one CPU there is one thread by default; more on demand, with the same result."""
    found = run_script(
        """
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        data = make()
        default, many = (arboost.train(params, data, 3) for params in ({}, {"nthread": 4}))
        print(json.dumps([default._learner.ctx.n_threads, default.save_raw() == many.save_raw()]))
        """
    )
    assert json.loads(found.stdout) == [1, True]


# ---- Ctrl-C ----


INTERRUPTED = """
class Tell(arboost.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        if epoch == 2:
            print("training", flush=True)
        return False

data, log = make(), {}
params = {"max_depth": 8, "subsample": 0.8}
arguments = {"evals": [(data, "train")], "evals_result": log, "verbose_eval": False, "callbacks": [Tell()]}
"""
CAUGHT = """
try:
    arboost.train(params, data, 100_000, **arguments)
except KeyboardInterrupt as stopped:
    booster = stopped.booster
n = booster.num_boosted_rounds()
again = arboost.train(params, data, n)
booster.save_model("model.ubj")
booster.update(data, n)
print(json.dumps({
    "rounds": n,
    "scores": len(log["train"]["rmse"]),
    "same": arboost.Booster(model_file="model.ubj").save_raw() == again.save_raw(),
    "more": booster.num_boosted_rounds() - n,
    "prediction": bool(np.isfinite(booster.predict(data)).all()),
}))
"""


def interrupt(body, tmp_path):
    """Run a script, send it Ctrl-C once it says that it is training, return its code, output and errors."""
    command = [sys.executable, "-B", "-c", HEADER + INTERRUPTED + body]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "training\n"
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    return process.returncode, out, errors


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_interrupt_leaves_a_usable_model(tmp_path):
    code, out, errors = interrupt(CAUGHT, tmp_path)
    assert code == 0, errors
    found = json.loads(out)
    assert found.pop("rounds") >= 3
    assert found.pop("scores") >= 3
    assert found == {"same": True, "more": 1, "prediction": True}


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_interrupt_that_nobody_catches_ends_the_script(tmp_path):
    code, out, errors = interrupt("arboost.train(params, data, 100_000, **arguments)\nprint('on')", tmp_path)
    assert code == -signal.SIGINT, "a shell sees that it was Ctrl-C"
    assert out == ""
    assert "KeyboardInterrupt: training was interrupted after" in errors


# ---- manners ----


@pytest.fixture(scope="module")
def first_day(tmp_path_factory):
    """All of the package's faces used at verbosity 0 by a user whose kernel cache is empty."""
    home, work = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ARBOOST", "XDG", "NUMBA"))}
    environment = {**kept, "HOME": str(home), "LOCALAPPDATA": str(home), "TMPDIR": str(work / "tmp")}
    (work / "tmp").mkdir()
    run = run_script(
        """
        with arboost.config_context(verbosity=0):  # a DMatrix knows no parameters of the training to come
            data = make()
            small = data.slice(range(400))
        params = {"verbosity": 0, "no_such_parameter": 1, "nthread": 2}
        booster = arboost.train(params, data, 3, evals=[(data, "train")], early_stopping_rounds=2)
        arboost.cv(params, small, 2, verbose_eval=True, callbacks=[arboost.callback.ProgressBar()])
        booster.eval_set([(data, "train")])
        booster.predict(data)
        booster.inplace_predict(np.zeros((2, 6)))
        booster.get_dump(with_stats=True)
        booster.save_config()
        booster.copy().save_raw()
        """,
        cwd=work,
        env=environment,
    )
    return run, home, work


def test_verbosity_0_prints_nothing(first_day):
    run, _, _ = first_day
    assert (run.stdout, run.stderr) == ("", "")


def test_nothing_is_written_outside_the_kernel_cache(first_day):
    _, home, work = first_day
    assert [path for path in work.rglob("*") if path.is_file()] == []
    written = [path.relative_to(home) for path in home.rglob("*") if path.is_file()]
    caches = (Path(".cache/arboost"), Path("Library/Caches/arboost"), Path("arboost"))
    assert written, "the kernels are kept"
    assert [path for path in written if not any(path.is_relative_to(cache) for cache in caches)] == []


def test_importing_compiles_and_writes_nothing(tmp_path):
    run = run_script(
        """
        from numba.core import event
        with event.install_recorder("numba:compile") as recorder:
            import arboost.callback, arboost.core, arboost.training
            arboost.Booster({"max_depth": 3}).set_param("eta", 0.1)
            arboost.build_info()
        print(len(recorder.buffer))
        """,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "ARBOOST_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert (run.stdout, run.stderr) == ("0\n", "")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path):
    """Without a kernel cache everything is compiled anew, and works."""
    run = run_script(
        "print(arboost.build_info()['kernel_cache'], arboost.Booster().num_boosted_rounds())",
        cwd=tmp_path,
        env={**os.environ, "ARBOOST_CACHE_DIR": ""},
    )
    assert run.stdout == "None 0\n"
