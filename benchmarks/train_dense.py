"""Training time on 1,000,000 x 28 float32, array to model: depthwise depth 6 and lossguide 31 leaves.

The README's rows 1-3: run with --threads 2, and with --threads 16 on a machine with 16 cores.
"""

import harness
from harness import Claim, Work


def main() -> None:
    options = harness.parse_options(
        __doc__, rows=1_000_000, features=28, rounds=100, policy=("both", "depthwise, lossguide or both")
    )
    harness.print_start()
    X, y = harness.make_dense(options.rows + options.rows // 10, options.features)
    data, test = (X[: options.rows], y[: options.rows]), (X[options.rows :], y[options.rows :])
    shape = f"{options.rows:,} x {options.features}, {options.rounds} rounds"

    if options.policy in ("depthwise", "both"):
        claim = Claim(0.60, 0.45) if options.threads < 16 else Claim(0.75, 0.50)
        libraries = harness.choose_libraries(options.peers)
        work = Work(rounds=options.rounds, threads=options.threads)
        samples = harness.time_fits(libraries, data, test, work, options.repeats)
        harness.report(f"train {shape}, depthwise depth 6", samples, options, claim)

    if options.policy in ("lossguide", "both"):
        claim = Claim(0.65, 0.45, ("lightgbm", "lightgbm quantized"))
        libraries = harness.choose_libraries(options.peers, best_first=True)
        work = Work(rounds=options.rounds, leaves=31, threads=options.threads)
        samples = harness.time_fits(libraries, data, test, work, options.repeats)
        harness.report(f"train {shape}, lossguide 31 leaves", samples, options, claim)


if __name__ == "__main__":
    main()
