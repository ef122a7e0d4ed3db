"""Draws combinations (`combinations.py`) and checks them (`combination_checks.py`), for a time or a number of draws.

    python tests/soak.py --seconds 120 --seed 7     many draws
    python tests/soak.py --draw 700012              one of them again

Draws are made in processes of their own, which say what they begin, so that one that crashes or hangs is known too.
Every eighth draw trains several models at once on one matrix.
"""

import argparse
import faulthandler
import json
import os
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

SHARED_EVERY = 8
DRAWS_OF_A_SEED = 100_000
SILENCE_S = 600  # a worker that says nothing for so long hangs; the largest draws take a few seconds


@dataclass
class Report:
    """What became of the draws; failures in words."""

    outcomes: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def n_draws(self) -> int:
        return sum(self.outcomes.values())


def soak(seed: int, n_draws: int | None = None, seconds: float | None = None, n_workers: int = 1) -> Report:
    """Draws of this seed until their number or the time is over."""
    report, lock = Report(), threading.Lock()
    end = None if seconds is None else time.monotonic() + seconds
    threads = [
        threading.Thread(target=_drive, args=(report, lock, seed, i, n_workers, n_draws, end)) for i in range(n_workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return report


def _drive(report: Report, lock: Any, seed: int, first: int, step: int, n_draws: int | None, end: float | None) -> None:
    """One worker after the other on draws first, first + step, ...: a new one after each that dies."""
    stop = DRAWS_OF_A_SEED if n_draws is None else n_draws
    while first < stop and (end is None or time.monotonic() < end):
        left = -1.0 if end is None else end - time.monotonic()
        command = [sys.executable, "-B", __file__, "--worker", *map(str, (seed, first, stop, step, left))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
            said: queue.Queue[str | None] = queue.Queue()
            errors: queue.Queue[str | None] = queue.Queue()
            streams = ((worker.stdout, said), (worker.stderr, errors))
            listeners = [threading.Thread(target=_listen, args=pair, daemon=True) for pair in streams]
            for listener in listeners:
                listener.start()
            last = _follow(report, lock, worker, said)
            for listener in listeners:
                listener.join()
        if last is None:
            return
        place, phase = last
        with lock:
            if phase == "XGBoost":  # the peer's fault, not ours
                report.outcomes["peer crashed"] += 1
            else:
                report.outcomes["failed"] += 1
                tail = "".join([line for line in errors.queue if line][-40:])
                report.failures.append(
                    f"draw {_draw_seed(seed, place)} died while {phase} ({worker.returncode})\n{tail}"
                )
        first = place + step


def _listen(stream: Any, lines: "queue.Queue[str | None]") -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _follow(report: Report, lock: Any, worker: Any, said: "queue.Queue[str | None]") -> tuple[int, str] | None:
    """Take down what a worker says; (draw, phase) in which it died, None if it came to its end."""
    place, phase = 0, "starting"
    while True:
        try:
            line = said.get(timeout=SILENCE_S)
        except queue.Empty:
            worker.kill()
            return place, f"{phase}, silent for {SILENCE_S} s"
        if line is None:
            return (place, phase) if worker.wait() else None
        message = json.loads(line)
        place, phase = message.get("begin", place), message.get("phase", phase)
        if "outcome" in message:
            with lock:
                report.outcomes[message["outcome"]] += 1
                if "failure" in message:
                    report.failures.append(message["failure"])


def _draw_seed(seed: int, place: int) -> int:
    return seed * DRAWS_OF_A_SEED + place


def _work(seed: int, first: int, stop: int, step: int, seconds: float) -> None:
    """Make and check the draws of one worker."""
    faulthandler.enable()
    say_to, sys.stdout = sys.stdout, sys.stderr  # whatever else is printed is no message
    end = time.monotonic() + seconds if seconds >= 0 else None

    def say(**message: Any) -> None:
        print(json.dumps(message), file=say_to, flush=True)

    for place in range(first, stop, step):
        if end is not None and time.monotonic() >= end:
            return
        say(begin=place, phase="drawing")
        outcome, failure = run_draw(_draw_seed(seed, place), lambda phase: say(phase=phase))
        say(outcome=outcome, **({} if failure is None else {"failure": failure}))


def run_draw(seed: int, say: Any = lambda phase: None) -> tuple[str, str | None]:
    """(outcome, failure in words or None) of one draw."""
    import combination_checks

    try:
        if seed % DRAWS_OF_A_SEED % SHARED_EVERY == SHARED_EVERY - 1:
            return combination_checks.check_shared(seed), None
        return combination_checks.check(seed, say), None
    except Exception as error:  # whatever it is, it is reported with its draw
        return "failed", f"draw {seed}: {''.join(traceback.format_exception(error, limit=-4))}"


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--worker"]:
        _work(*map(int, arguments[1:5]), float(arguments[5]))
        return 0
    parser = argparse.ArgumentParser(description="Draw combinations of parameters and data, and check each.")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10_000)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--draw", type=int, help="repeat this draw only")
    options = parser.parse_args(arguments)
    if options.draw is not None:
        outcome, failure = run_draw(options.draw, print)
        print(failure or outcome)
        return 1 if failure else 0
    report = soak(options.seed, seconds=options.seconds, n_workers=options.jobs)
    for failure in report.failures:
        print(failure)
    found = ", ".join(f"{n} {outcome}" for outcome, n in sorted(report.outcomes.items()))
    print(f"seed {options.seed}: {report.n_draws} draws ({found}), {len(report.failures)} failures")
    if report.failures:
        print("one of them again: python tests/soak.py --draw NUMBER")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
