"""These tests need a device: `ARBOOST_TEST_DEVICE` says `cuda` (`make test-gpu`) or `simulator`.

Elsewhere they are not there: tests/contract/test_device.py runs them in a process of its own, on a simulated device.
"""

import os

import pytest

KIND = os.environ.get("ARBOOST_TEST_DEVICE", "")
collect_ignore_glob = [] if KIND else ["test_*.py"]


def pytest_sessionstart():
    """Say at once that there is no device, instead of passing on the CPU."""
    if KIND:
        from arboost.runtime.device import why_not

        reason = why_not(0)
        if reason:
            pytest.exit(f"ARBOOST_TEST_DEVICE={KIND}, but no device can be used: {reason}", returncode=1)
        from arboost.kernels.gpu.jit import SIMULATED

        if (KIND == "simulator") != SIMULATED:
            pytest.exit(f"ARBOOST_TEST_DEVICE={KIND}, but NUMBA_ENABLE_CUDASIM says otherwise", returncode=1)
