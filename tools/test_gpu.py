"""What this machine's GPU does to the CPU's bytes, feature by feature, as a table: `make test-gpu` runs it.

Every row is a process of its own with a time limit: what fails, dies or never ends costs its row and no other. Rows
that train compare whole models; the others are files of tests/device and need pytest. Packages that this Python lacks
are taken from build/gpu-packages.tar.xz, if it is there: `make gpu-packages` makes it on a machine with a network.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "build" / "gpu-packages.tar.xz"
TOOLKIT = Path("/usr/local/cuda")
SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
METRICS = "evaluation sets and metrics"
# What is asked of the parameters and the matrix of a case, in this order; "plain trees" is the rest.
FEATURES = {
    "path_smooth": lambda params, given: "path_smooth" in params,
    "min_data_in_leaf": lambda params, given: "min_data_in_leaf" in params,
    "extra_trees": lambda params, given: "extra_trees" in params,
    "monotone constraints": lambda params, given: "monotone_constraints" in params,
    "categories": lambda params, given: "enable_categorical" in given,
    "ranking": lambda params, given: params.get("objective", "").startswith("rank:"),
    "survival": lambda params, given: params.get("objective", "").startswith("survival:"),
    "quantiles": lambda params, given: re.search("quantile|absolute|expectile", params.get("objective", "")),
    "samples of rows": lambda params, given: "subsample" in params or "sampling_method" in params,
    "samples of columns": lambda params, given: any(name.startswith("colsample") for name in params),
}
PLAIN = "plain trees"
RUNNING: list[subprocess.Popen] = []
# Tests that the rows above do already.
ELSEWHERE = "not test_trees_of_a_device and not test_metrics_have_the_bits_of_the_cpu"
NOTHING_RAN = 5  # pytest's exit status where all tests of a file are done elsewhere


class Row(NamedTuple):
    """A line of the table."""

    name: str
    command: list[str]


class Found(NamedTuple):
    """What became of the cases of a row: those that are the same, those that are not and why, what was skipped."""

    same: int
    others: list[str]
    skipped: int
    seconds: float


# ---- in a process of its own: cases of one feature ----


def feature_of(params: dict, given: dict) -> str:
    """The row that a case belongs to."""
    return next((name for name, is_of in FEATURES.items() if is_of(params, given)), PLAIN)


def run_cases(name: str) -> None:
    """Print a line for every case before and after it."""
    import device_cases as cases

    if name == METRICS:
        work = [(f"{case}{', weighted' * weighted}", lambda device, case=case, weighted=weighted: cases.score(
            device, case, weighted)) for case in cases.SCORED for weighted in (False, True)]  # fmt: skip
    else:
        work = [(case, lambda device, params=params, given=given: cases.train(device, params, given))
                for case, (params, given) in cases.ON_DEVICE.items()
                if feature_of(params, given) == name]  # fmt: skip
    for case, train in work:
        print(json.dumps({"case": case, "result": "did not end"}), flush=True)
        started = time.perf_counter()
        try:
            result = "same" if same(train("cpu"), train("cuda")) else "other bytes"
        except Exception as error:
            result = f"{type(error).__name__}: {error}"[:300]
        seconds = time.perf_counter() - started
        print(json.dumps({"case": case, "result": result, "seconds": round(seconds, 2)}), flush=True)


def same(a: Any, b: Any) -> bool:
    """Whether both trained alike; NaN equals NaN."""
    import numpy as np

    try:
        np.testing.assert_equal(a, b)
    except AssertionError:
        return False
    return True


# ---- the table ----


def rows() -> list[Row]:
    """All of them, those that train first."""
    own = [sys.executable, __file__, "--row"]
    pytest = [sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider", "-k", ELSEWHERE]
    files = sorted((ROOT / "tests" / "device").glob("test_*.py"))
    trained = [Row(name, [*own, name]) for name in (PLAIN, *FEATURES, METRICS)]
    return trained + [Row(path.stem, [*pytest, str(path)]) for path in files]


def run_row(row: Row, limit: float, environment: dict[str, str], folder: Path) -> Found:
    """Run it to its end or to the limit; what it says stays in the folder."""
    if limit <= 0:
        return Found(0, ["not begun: no time left"], 0, 0.0)
    log, started = folder / f"{row.name.replace(' ', '_')}.log", time.perf_counter()
    with log.open("w") as out:
        child = subprocess.Popen(
            row.command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, process_group=0
        )
        RUNNING.append(child)
        try:
            status: int | None = child.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
            end(child)
    seconds = time.perf_counter() - started
    results = read_log(log.read_text(errors="replace"))
    others = [f"{case}: {result}" for case, result in results.items() if result not in ("same", "skipped")]
    if status is None and not any("did not end" in other for other in others):
        others.append(f"did not end in {limit:.0f} s")
    elif status not in (0, None, NOTHING_RAN) and not others:
        others.append(f"exit status {status}: {log.read_text(errors='replace').strip()[-300:]}")
    n_same, n_skipped = (list(results.values()).count(word) for word in ("same", "skipped"))
    return Found(n_same, others, n_skipped, seconds)


def end(child: subprocess.Popen) -> None:
    """End a process and those that it has started: with a kernel that never ends it hears nothing softer."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def read_log(text: str) -> dict[str, str]:
    """What became of every case, or test, that a log names."""
    results = {}
    for line in text.splitlines():
        test = re.match(r"\S+\.py::(.*?)(?: (PASSED|SKIPPED|FAILED|ERROR)\b.*)?$", line.rstrip())
        if line.startswith('{"case"'):
            told = json.loads(line)
            results[told["case"]] = told["result"]
        elif test:
            words = {"PASSED": "same", "SKIPPED": "skipped", "FAILED": "failed", "ERROR": "failed"}
            if test[2]:
                results[test[1]] = words[test[2]]
            else:  # it has begun, or the summary of warnings names it once more
                results.setdefault(test[1], "did not end")
    return results


def show(row: Row, found: Found) -> None:
    """One line, and one for each that is not the same."""
    verdict = "no" if found.others else "yes" if found.same else "-"
    skipped = f", {found.skipped} skipped" if found.skipped else ""
    n = found.same + len(found.others)
    print(f"{row.name:28} {verdict:4} {found.same} of {n}{skipped}, {found.seconds:.0f} s", flush=True)
    for other in found.others:
        print(f"    {other}", flush=True)


# ---- what it needs ----


def ready(folder: Path, cold: bool) -> dict[str, str]:
    """The environment of the rows: packages, whether they share compiled kernels, which device."""
    environment = dict(os.environ)
    paths = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT)]
    if ARCHIVE.exists() and not has_packages():
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(folder / "packages", filter="data")
        paths.append(str(folder / "packages"))
    environment["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [environment.get("PYTHONPATH")])])
    if cold:
        environment["ARBOOST_CACHE_DIR"] = ""
    if TOOLKIT.is_dir():  # where its compilers are, if no package has them
        environment.setdefault("CUDA_HOME", str(TOOLKIT))
    environment["ARBOOST_TEST_DEVICE"] = "simulator" if SIMULATED else "cuda"
    return environment


def has_packages() -> bool:
    """Whether this Python can do without the archive."""
    look = "import numba.cuda, pytest, hypothesis; assert 'numba_cuda' in numba.cuda.__file__"
    return not subprocess.run([sys.executable, "-c", look], capture_output=True, check=False).returncode


ASK = """
import importlib.metadata as metadata, sys
from arboost.runtime.device import why_not
reason = why_not(0)
if reason:
    sys.exit(f"no device can be used: {reason}")
names = ("numpy", "numba", "numba-cuda", "cuda-core", "cuda-bindings", "nvidia-nvvm", "nvidia-nvjitlink", "pytest")
found = {one.metadata["Name"].lower(): one.version for one in metadata.distributions()}
print("Python", sys.version.split()[0], *(f"{name} {found.get(name, '-')}" for name in names), sep=", ")
from arboost.runtime.device import device
from arboost.kernels.gpu.jit import SIMULATED, cuda
here = device("cuda")
here.use()
if not SIMULATED:
    it = cuda.get_current_device()
    print(it.name, *it.compute_capability, f"{here.n_processors} processors, {here.free_bytes() / 1e9:.0f} GB free")
"""


def main() -> int:
    """Run the rows, show the table; the exit status says whether all is the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=560, help="for all rows; later ones are not begun")
    parser.add_argument("--limit", type=float, default=240, help="seconds of one row")
    parser.add_argument(
        "--at-once", type=int, default=max(1, min(6, (os.cpu_count() or 1) // 2)), help="rows at a time"
    )
    parser.add_argument("--only", default="", help="rows whose names match this pattern")
    parser.add_argument("--cold", action="store_true", help="every row compiles its kernels, none are kept")
    parser.add_argument("--logs", type=Path, help="a folder for what the rows say")
    options = parser.parse_args()
    if options.row:
        warnings.simplefilter("ignore")
        run_cases(options.row)
        return 0
    stop = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        environment = ready(folder, options.cold)
        asked = subprocess.run(
            [sys.executable, "-c", ASK], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        print((asked.stdout + asked.stderr).strip()[-2000:], flush=True)
        if asked.returncode:
            return 1
        chosen = [row for row in rows() if re.search(options.only, row.name)]
        logs = options.logs or folder
        logs.mkdir(parents=True, exist_ok=True)
        print(f"{'feature':28} same bytes", flush=True)
        results = list(run_all(chosen, options, stop, environment, logs))
        return int(any(found.others for found in results))


def run_all(
    chosen: list[Row], options: argparse.Namespace, stop: float, environment: dict[str, str], logs: Path
) -> Iterator[Found]:
    """Some rows at a time, shown in their order; what is left running when this is left is ended."""

    def run(row: Row) -> Found:
        return run_row(row, min(options.limit, stop - time.monotonic()), environment, logs)

    pool = ThreadPoolExecutor(options.at_once)
    try:
        for row, found in zip(chosen, pool.map(run, chosen), strict=True):
            show(row, found)
            yield found
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in RUNNING:
            end(child)


if __name__ == "__main__":
    sys.exit(main())
