"""`python -m arboost`: the command line."""

import sys

from arboost.cli import main

if __name__ == "__main__":
    sys.exit(main())
