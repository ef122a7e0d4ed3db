"""Builds the wheel and the sdist, checks them, tries the wheel in a fresh environment, and stops before the upload.

`make release` runs it. Needs the extra `release` (build, twine). What it leaves is dist/, nothing else.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Run in an environment that has the wheel and what it asks for, nothing more.
SMOKE = """
import importlib.util, sys
for package in ("pandas", "sklearn", "matplotlib", "pyarrow", "rich_click", "rich"):
    assert importlib.util.find_spec(package) is None, f"{package} is here: this is not the bare installation"
import arboost as xgb
from arboost.demo import load_bike_sharing
from arboost.report import report_html
X, y, names = load_bike_sharing()
data = xgb.DMatrix(X[:2000], y[:2000], feature_names=names)
model = xgb.train({"max_depth": 3}, data, 5)
model.save_model("model.json")
assert (xgb.Booster(model_file="model.json").predict(data) == model.predict(data)).all()
xgb.trace.example("salary").to_html("trace.html")
assert "</html>" in open("trace.html", encoding="utf-8").read()
assert "</html>" in report_html(model, data)
print("arboost", xgb.__version__, "on", sys.version.split()[0], "trains, saves, traces and reports")
"""


def read_version() -> str:
    """The version in the source."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/arboost/version.py").read_text(encoding="utf-8"), re.M)
    if found is None:
        raise SystemExit("src/arboost/version.py: no __version__")
    return found[1]


def check_changelog(text: str, version: str) -> None:
    """Stop unless the changelog has an entry for the version that says something and is not marked as unreleased."""
    entry = re.search(rf"^## {re.escape(version)}\b(.*)\n((?:(?!## ).*\n?)*)", text, re.M)
    if entry is None:
        raise SystemExit(f"CHANGELOG.md has no entry for {version}: write one, `## {version} (date)`.")
    if "not released" in entry[1]:
        raise SystemExit(f"CHANGELOG.md says that {version} is not released yet: put the date there.")
    if not entry[2].strip():
        raise SystemExit(f"CHANGELOG.md: the entry for {version} is empty.")


def wanted_files() -> set[str]:
    """Every file of the package, as it is to be found in the wheel."""
    source = ROOT / "src"
    return {
        path.relative_to(source).as_posix()
        for path in (source / "arboost").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def check_wheel(wheel: Path) -> None:
    """Stop unless the wheel holds the whole package, its data included, and nothing beside it."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    lacking, beside = wanted_files() - held, held - wanted_files()
    if lacking or beside:
        raise SystemExit(f"{wheel.name} lacks {sorted(lacking)} and holds {sorted(beside)} beside the package.")


def check_sdist(sdist: Path) -> None:
    """Stop unless the sdist can be built, tested and documented from."""
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    needed = {f"src/{name}" for name in wanted_files()} | {
        "CHANGELOG.md", "LICENSE", "Makefile", "NOTICE", "README.md", "mkdocs.yml", "pyproject.toml",
        "docs/index.md", "examples/same_bits.py", "tests/conftest.py", "tools/release.py", "benchmarks/harness.py",
    }  # fmt: skip
    if needed - held:
        raise SystemExit(f"{sdist.name} lacks {sorted(needed - held)}.")


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a program; stop where it fails."""
    shown = [Path(part).name if os.path.isabs(part) else str(part) for part in command]
    print("$", *("..." if "\n" in part else part for part in shown), flush=True)
    if subprocess.run([str(part) for part in command], cwd=cwd, env=env, check=False).returncode:
        raise SystemExit(f"failed: {command[0]}")


def build(folder: Path, isolated: bool = True) -> tuple[Path, Path]:
    """The wheel and the sdist of the source, in `folder`."""
    how = [] if isolated else ["--no-isolation"]
    run(sys.executable, "-m", "build", *how, "--outdir", folder, ROOT)
    version = read_version()
    return folder / f"arboost-{version}-py3-none-any.whl", folder / f"arboost-{version}.tar.gz"


def try_wheel(wheel: Path) -> None:
    """Install the wheel in a fresh environment, bare and then with its commands, and use it as users do."""
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=True)
        programs = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        python, arboost = programs / "python", programs / "arboost"
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, wheel, cwd=folder, env=outside)
        run(python, "-c", SMOKE, cwd=folder, env=outside)
        run(arboost, "--help", cwd=folder, env=outside)
        run(*pip, f"arboost[cli] @ {wheel.resolve().as_uri()}", cwd=folder, env=outside)
        run(arboost, "--help", cwd=folder, env=outside)
        (folder / "t.csv").write_text("x,label\n" + "".join(f"{i},{i % 7 > 3}\n" for i in range(60)), encoding="utf-8")
        run(
            arboost,
            "train",
            "t.csv",
            "--target",
            "label",
            "--model",
            "m.json",
            "--rounds",
            "3",
            cwd=folder,
            env=outside,
        )
        run(arboost, "predict", "t.csv", "--model", "m.json", "--out", "p.csv", cwd=folder, env=outside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where wheel and sdist go (default dist)")
    options = parser.parse_args()
    version = read_version()
    check_changelog((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    wheel, sdist = build(options.out)
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    check_wheel(wheel)
    check_sdist(sdist)
    try_wheel(wheel)
    print(f"\narboost {version} is ready: {wheel.name} and {sdist.name}. Not uploaded; that is yours to do:")
    print(f"  python -m twine upload {wheel} {sdist}")


if __name__ == "__main__":
    main()
