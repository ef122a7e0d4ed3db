"""Packs what `make test-gpu` needs into build/gpu-packages.tar.xz, for a machine with a GPU and without a network.

`make gpu-packages FOR=3.12` makes it for that version of Python on 64-bit Linux. Not in it: NumPy, SciPy and CUDA's own
compilers (NVVM, nvJitLink, NVRTC), which a CUDA toolkit or PyTorch's packages bring; `--compilers` packs them too.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "build" / "gpu-packages.tar.xz"
PACKAGES = ("numba", "llvmlite", "cuda-core", "cuda-bindings", "cuda-pathfinder", "packaging",
            "pytest", "pluggy", "iniconfig", "pygments", "hypothesis", "sortedcontainers", "psutil")  # fmt: skip
COMPILERS = ("nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvrtc")
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_24_x86_64", "manylinux_2_27_x86_64",
             "manylinux_2_28_x86_64")  # fmt: skip
# numba-cuda takes the place of numba.cuda from a .pth file, which Python reads in folders of packages alone
START = "import site\nfrom pathlib import Path\n\nsite.addsitedir(str(Path(__file__).parent))\n"


def numba_cuda() -> str:
    """The version that the extra `cuda` asks for."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        (asked,) = tomllib.load(file)["project"]["optional-dependencies"]["cuda"]
    return str(asked.partition(";")[0].replace("[cu13]", ""))


def main() -> None:
    """Download wheels, unpack them, pack them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="3.12", help="version of the other machine's Python")
    parser.add_argument("--compilers", action="store_true", help="CUDA's too")
    parser.add_argument("--preset", type=int, default=6, help="of xz: how hard it tries")
    options = parser.parse_args()
    wanted = (*PACKAGES, numba_cuda(), *(COMPILERS if options.compilers else ()))
    with tempfile.TemporaryDirectory() as temporary:
        wheels, packages = Path(temporary, "wheels"), Path(temporary, "packages")
        platforms = [word for name in PLATFORMS for word in ("--platform", name)]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary=:all:", "--python-version", options.python, *platforms, "--dest", str(wheels), *wanted],
            check=True,
        )  # fmt: skip
        for wheel in sorted(wheels.iterdir()):
            zipfile.ZipFile(wheel).extractall(packages)
        (packages / "sitecustomize.py").write_text(START)
        ARCHIVE.parent.mkdir(exist_ok=True)
        with tarfile.open(ARCHIVE, "w:xz", preset=options.preset) as archive:
            archive.add(packages, ".", filter=lambda entry: None if "/tests/" in entry.name else entry)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
