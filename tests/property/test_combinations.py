"""Any parameters together on any data: what `combination_checks.py` asserts holds of a fixed set of draws.

`make soak SECONDS=...` makes other draws, as many as there is time for.
"""

import pytest

import soak

N_DRAWS = 64


@pytest.mark.parametrize("seed", range(4))
def test_draws(seed):
    report = soak.soak(seed, n_draws=N_DRAWS)
    assert not report.failures, "\n".join(report.failures)
    assert report.n_draws == N_DRAWS
    assert report.outcomes["trained"] + report.outcomes["alone"] > N_DRAWS / 2, report.outcomes
