"""The version, and what the installation can do."""

from importlib import metadata
from typing import Any

__version__ = "0.1.0"


def build_info() -> dict[str, Any]:
    """Facts about this installation.

    Returns
    -------
    dict
        XGBoost's names where they mean something here (there is no C++ compiler to report), and what kernels are
        compiled with. Nothing is compiled by asking.
    """
    from arboost.kernels.cache import cache_folder, kernels_digest

    folder = cache_folder()
    return {
        "version": __version__,
        "numba": metadata.version("numba"),
        "llvmlite": metadata.version("llvmlite"),
        "numpy": metadata.version("numpy"),
        "kernels": kernels_digest(),
        "kernel_cache": None if folder is None else str(folder),
        "BUILTIN_PREFETCH_PRESENT": True,  # kernels/intrinsics.py
        "DEBUG": False,
        "USE_CUDA": False,
        "USE_DLOPEN_NCCL": False,
        "USE_FEDERATED": False,
        "USE_NCCL": False,
        "USE_OPENMP": False,  # threads are our own
        "USE_RMM": False,
    }
