"""Models of LightGBM, CatBoost and scikit-learn as Boosters: `from_lightgbm`, `from_catboost`, `from_sklearn`.

Those libraries compare values of 64 bits, trees here values of 32. Thresholds are rounded so that data of 32 bits goes
the same way to the last row; leaves are rounded to 32 bits. None of the libraries is imported here.
"""

from arboost.convert.catboost_model import from_catboost
from arboost.convert.lightgbm_model import from_lightgbm
from arboost.convert.sklearn_model import from_sklearn

__all__ = ["from_catboost", "from_lightgbm", "from_sklearn"]
