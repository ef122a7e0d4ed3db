"""Training time on many features: 20,000 x 2,000 dense, depth 6, 50 rounds, array to model."""

import harness
from harness import Claim, Work


def main() -> None:
    options = harness.parse_options(__doc__, rows=20_000, features=2_000, rounds=50)
    harness.print_start()
    X, y = harness.make_dense(options.rows + 5_000, options.features)
    libraries = harness.choose_libraries(options.peers)
    work = Work(rounds=options.rounds, threads=options.threads)
    data, test = (X[: options.rows], y[: options.rows]), (X[options.rows :], y[options.rows :])
    samples = harness.time_fits(libraries, data, test, work, options.repeats)
    title = f"train {options.rows:,} x {options.features:,}, {options.rounds} rounds, depth 6"
    harness.report(title, samples, options, Claim(1.0, 0.6))


if __name__ == "__main__":
    main()
