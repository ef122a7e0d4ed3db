"""Runs every benchmark, one after the other, and prints the README's table from their result lines.

--quick uses small sizes: it shows that everything runs, its figures mean nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SCRIPTS = {
    "train_dense.py": ["--rows", "20000", "--rounds", "5"],
    "train_flights.py": ["--rows", "50000", "--rounds", "5"],
    "train_small.py": ["--rounds", "10"],
    "train_covtype.py": ["--rows", "20000", "--rounds", "3"],
    "train_sparse.py": ["--rows", "10000", "--rounds", "3", "--paper-rows", "1000", "--paper-features", "500"],
    "train_wide.py": ["--rows", "1000", "--features", "100", "--rounds", "5"],
    "predict.py": ["--rows", "20000", "--train-rows", "5000", "--rounds", "20", "--calls", "20"],
    "memory.py": ["--rows", "50000", "--rounds", "2"],
    "cold_start.py": [],
    "frames.py": ["--rows", "20000"],
    "read_text.py": ["--rows", "2000"],
    "shap_values.py": [
        "--rows",
        "500",
        "--pair-rows",
        "10",
        "--train-rows",
        "5000",
        "--rounds",
        "10",
        "--deep-rounds",
        "3",
    ],
    "train_approx.py": ["--rows", "5000", "--rounds", "2"],
    "sketch_eps.py": ["--rows", "5000", "--rounds", "2", "--seeds", "1", "--plot", os.devnull],
    "train_dart.py": ["--rows", "2000", "--rounds", "5"],
    "train_symmetric.py": ["--rows", "20000", "--rounds", "5"],
    "train_linear_leaves.py": ["--rows", "10000", "--rounds", "3"],
    "train_exact.py": ["--rows", "5000", "--rounds", "2"],
    "cache_aware.py": ["--small", "2000", "--large", "20000", "--entries", "100000"],
    "train_multi.py": ["--rows", "2000", "--rounds", "2", "--class-rows", "5000", "--class-rounds", "2"],
    "extmem.py": ["--rows", "20000", "--features", "8", "--rounds", "2", "--parts", "4"],
    "forest.py": ["--rows", "2000", "--trees", "4", "--sets", "dense"],
    "train_ranking.py": ["--rows", "5000", "--rounds", "5", "--skip", "accuracy"],
    "train_dask.py": ["--rows", "20000", "--rounds", "3", "--workers", "1,2"],
    "accuracy.py": ["--rows", "1000", "--rounds", "5", "--seeds", "2", "--sets", "bike_sharing,adult,letter"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes and one repeat")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", default="all")
    options = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.jsonl"
        for script, quick in SCRIPTS.items():
            command = [sys.executable, str(FOLDER / script), "--json", str(results)]
            command += ["--threads", str(options.threads), "--peers", options.peers]
            command += [*quick, "--repeats", "1"] if options.quick else []
            print(f"\n===== {script} =====", flush=True)
            if subprocess.run(command, check=False).returncode:
                failed.append(script)
        lines = results.read_text().splitlines() if results.exists() else []
        if options.quick:
            print(f"\n{len(lines)} results; sizes too small to mean anything, so no table")
        else:
            print_summary([json.loads(line) for line in lines])
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def print_summary(results: list[dict]) -> None:
    """The table of the README, in Markdown."""
    if results:
        here = results[0]["machine"]
        print(f"\n{here['cpu']}, {here['cores']} cores, Python {here['python']}, NumPy {here['numpy']}\n")
    print("| work | arboost | best rival | ratio | must | aim |\n|---|---|---|---|---|---|")
    for result in results:
        verdict, samples = result["verdict"], result["samples"]
        if verdict is None or not verdict["valid"]:
            print(f"| {result['benchmark']} | {verdict['text'] if verdict else 'no verdict'} | | | | |")
            continue
        if verdict["ratio"] is None:
            print(f"| {result['benchmark']} | {verdict['text']} | | | | |")
            continue
        rival, limits = verdict["rival"], f"{verdict['must']} | {verdict['aim']}"
        if rival is None:  # cold start: seconds against seconds
            print(f"| {result['benchmark']} | {verdict['ratio']:.2f} s | | | {limits} s |")
            continue
        own, other = (_format(min(samples[name]["values"])) for name in ("arboost", rival))
        print(f"| {result['benchmark']} | {own} | {rival} {other} | {verdict['ratio']:.2f} | {limits} |")


def _format(value: float) -> str:
    """Seconds, microseconds or, for the large numbers of the memory benchmark, bytes as MiB."""
    if value > 1e5:
        return f"{value / 2**20:.0f} MiB"
    return f"{value:.2f} s" if value >= 1e-2 else f"{value * 1e6:.1f} us"


if __name__ == "__main__":
    sys.exit(main())
