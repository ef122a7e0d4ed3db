"""Training time on small data, where overhead decides: 10,000 x 50 and 1,000 x 20, depth 6, 100 rounds."""

import harness
from harness import Claim, Work


def main() -> None:
    options = harness.parse_options(__doc__, repeats=10, rounds=100)
    harness.print_start()
    for n_rows, n_features in ((10_000, 50), (1_000, 20)):
        X, y = harness.make_dense(n_rows + 10_000, n_features)
        libraries = harness.choose_libraries(options.peers)
        work = Work(rounds=options.rounds, threads=options.threads)
        data, test = (X[:n_rows], y[:n_rows]), (X[n_rows:], y[n_rows:])
        samples = harness.time_fits(libraries, data, test, work, options.repeats)
        title = f"train {n_rows:,} x {n_features}, {options.rounds} rounds, depth 6"
        harness.report(title, samples, options, Claim(1.0, 0.6))


if __name__ == "__main__":
    main()
