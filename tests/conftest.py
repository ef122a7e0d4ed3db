"""What every test shares: repeatable hypothesis runs and the real data sets."""

import signal
from collections.abc import Callable

import hypothesis
import pytest

import datasets
from arboost.runtime import settings

# Compilation happens inside examples, so no deadline; the same examples in every run, so a failure can be repeated.
hypothesis.settings.register_profile("arboost", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("arboost")


# A shell starts background jobs with Ctrl-C ignored, and tests that send it would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def load_dataset() -> Callable[..., datasets.Dataset]:
    """Reads a real data set by name, at most `n_rows` of it; skips the test where the data is not at hand."""

    def load(name: str, n_rows: int | None = None) -> datasets.Dataset:
        try:
            found = datasets.load(name)
        except datasets.DataUnavailable as reason:
            pytest.skip(str(reason))
        return found if n_rows is None else found.sample(n_rows)

    return load


@pytest.fixture(autouse=True)
def _settings_stay_in_a_test():
    """What a test sets for this thread (verbosity, above all) is over with it."""
    with settings.changed():
        yield


@pytest.fixture(scope="session")
def dask_client():
    """A client of three Dask workers, processes that all tests share; skips where Dask is not installed."""
    pytest.importorskip("distributed")
    from dask_cluster import cluster

    with cluster(3) as client:
        yield client
