"""Real processes, brought together by MPI or a tracker, train the very models that one machine trains.

A launch is one test's worth of seconds, so each trains every kind of model, and ends in one of the ways to end.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import worker_program
from arboost.runtime.errors import XGBoostError
from arboost.tracker import RabitTracker
from child_process import MPI_LEAVE, find_mpirun, need

PROGRAM = worker_program.__file__
ROWS = slice(0, worker_program.cases.N_ROWS)


@pytest.fixture(scope="module")
def alone():
    """What one machine gets, as it comes out of a file."""
    return json.loads(json.dumps(worker_program.train_kinds(ROWS)))


def check(folder, world_size, alone):
    """All workers have what one machine has, and what they said to each other arrived."""
    tenths = 0.1
    for rank in range(1, world_size):
        tenths += 0.1 * (rank + 1)
    large = 1e16 + 0.0
    for rank in range(world_size):
        found = json.loads((folder / f"{rank}.json").read_text())
        assert found["kinds"] == alone
        assert found["place"] == [rank, world_size]
        sums, least, sent = found["talk"]
        assert sums == [tenths, large, float(world_size)]  # in the order of ranks
        assert least == [0, 1 - world_size]
        assert sent == {"from": 1}


def check_output(text):
    """The scores of a round are printed once, not by every worker."""
    lines = [line for line in text.splitlines() if line.startswith("[")]
    assert [line.split("\t")[0] for line in lines] == ["[0]", "[1]"]


def run_mpi(folder, world_size, ending):
    """`mpirun python worker_program.py`, which finds its world by itself."""
    need("mpi4py")
    mpirun = find_mpirun()
    if mpirun is None:
        pytest.skip("there is no mpirun")
    return subprocess.run(
        [mpirun, "-n", str(world_size), sys.executable, PROGRAM, str(folder), ending],
        env=os.environ | MPI_LEAVE,
        capture_output=True,
        text=True,
        check=False,
    )


def test_three_processes_of_mpi(alone, tmp_path):
    ran = run_mpi(tmp_path, 3, "leave")
    assert ran.returncode == 0, ran.stderr
    check(tmp_path, 3, alone)
    check_output(ran.stdout)


def test_two_processes_of_mpi_one_of_which_fails(alone, tmp_path):
    """The other does not wait for it for ever: MPI ends both, and the error is there to be read."""
    ran = run_mpi(tmp_path, 2, "raise")
    check(tmp_path, 2, alone)
    assert ran.returncode != 0
    assert "ZeroDivisionError: on purpose" in ran.stderr
    assert "worker 1 of 2 gave up, all are ended" in ran.stderr


def start_workers(tracker, folder, n, ending):
    arguments = [f"{name}={value}" for name, value in tracker.worker_args().items()]
    command = [sys.executable, PROGRAM, str(folder), ending, *arguments]
    return [
        subprocess.Popen([*command, f"dmlc_task_id={i}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for i in range(n)
    ]


def test_two_processes_of_a_tracker_one_of_which_is_killed(alone, tmp_path):
    """The other is told at once who was lost, and so is who waits for the tracker."""
    tracker = RabitTracker(2, "127.0.0.1", sortby="task")
    tracker.start()
    first, second = start_workers(tracker, tmp_path, 2, "die")
    output, errors = first.communicate()
    second.communicate()
    check(tmp_path, 2, alone)
    check_output(output)
    assert first.returncode == 1 and "CommError: worker 1 was lost" in errors
    told = json.loads((tmp_path / "0.told.json").read_text())
    assert (told["peer"], told["lost"]) == (1, True)
    with pytest.raises(
        XGBoostError, match=r"worker 1 on 127\.0\.0\.1 ended without leaving|worker 0 gave up: CommError"
    ):
        tracker.wait_for()


def test_shares_are_as_unequal_as_they_should_be():
    """Guards the tests above: one of three processes has no rows."""
    sizes = [len(np.arange(ROWS.stop)[worker_program.cases.share_of(3, rank)]) for rank in range(3)]
    assert sizes == [0, 396, 204]
