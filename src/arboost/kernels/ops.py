"""The kernels that everything above the level engines uses, by the name of their module: `ops.gradient`, `ops.rank`.

Who imports from here says what it wants done, not where: `kernels/cpu` may be grouped anew, and a device bring its own
modules of the same names, without a change anywhere else. A module is imported when it is first asked for.
"""

import importlib
from typing import Any

_GROUPS = {
    "data": ("binning", "bundle", "compressed", "counting", "paging", "statistics", "text"),
    "grow": ("team",),
    "model": ("candidates", "linear_leaves", "predict", "shap", "symmetric"),
    "round": (
        "expectile", "gradient", "leaf_fit", "leaf_quantile", "linear", "metric", "quantize", "rank", "refresh",
        "sample", "sums", "support", "survival",
    ),
    "sorted": ("rebin", "sorting", "summary"),
}  # fmt: skip
_GROUP_OF = {module: group for group, modules in _GROUPS.items() for module in modules}


def __getattr__(name: str) -> Any:
    if name not in _GROUP_OF:
        raise AttributeError(f"no kernels are called {name!r}; there are {', '.join(sorted(_GROUP_OF))}")
    return importlib.import_module(f"arboost.kernels.cpu.{_GROUP_OF[name]}.{name}")
