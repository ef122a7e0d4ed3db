"""`python -m arboost.demo`: the tour."""

import sys

from arboost.demo.tour import main

if __name__ == "__main__":
    sys.exit(main())
