"""Training time on real data: flights_3m, 3,000,000 x 7, depth 6, 50 rounds, array to model.

Airports are integer codes for every library. The last 300,000 flights (in time) are the test set of the quality column.
"""

import harness
from harness import Claim, Work, datasets


def main() -> None:
    options = harness.parse_options(__doc__, rows=3_000_000, rounds=50)
    harness.print_start()
    try:
        flights = datasets.load("flights_3m")
    except datasets.DataUnavailable as reason:
        raise SystemExit(f"cannot run: {reason}") from None
    X, y = flights.X[: options.rows], flights.y[: options.rows]
    test = flights.X[-300_000:], flights.y[-300_000:]
    libraries = harness.choose_libraries(options.peers)
    work = Work(rounds=options.rounds, threads=options.threads)
    samples = harness.time_fits(libraries, (X, y), test, work, options.repeats)
    title = f"train flights_3m, {len(y):,} x {X.shape[1]}, {options.rounds} rounds, depth 6"
    harness.report(title, samples, options, Claim(0.65, 0.50), quality="logloss of the last 300,000")


if __name__ == "__main__":
    main()
