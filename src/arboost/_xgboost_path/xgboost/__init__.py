"""What `import xgboost` finds in processes started with this folder on PYTHONPATH (`arboost.as_xgboost`).

It puts arboost in its own place; nothing else imports it.
"""

import sys

if __name__ == "xgboost":
    from arboost.as_xgboost import install_as_xgboost

    del sys.modules[__name__]
    install_as_xgboost()
