"""The version, and what the installation can do."""

from importlib import metadata, util
from typing import Any

__version__ = "0.1.0"


def build_info() -> dict[str, Any]:
    """Facts about this installation, under XGBoost's names where they mean something here."""
    from arboost.kernels.jit import cache_folder, kernels_digest

    folder = cache_folder()
    return {
        "version": __version__,
        "numba": metadata.version("numba"),
        "numpy": metadata.version("numpy"),
        "kernels": kernels_digest(),
        "kernel_cache": None if folder is None else str(folder),
        "USE_OPENMP": False,
        "USE_CUDA": False,
        "USE_DASK": util.find_spec("dask") is not None,
    }
