"""Global configuration: XGBoost's names and manners, and `strict_parameters`."""

import inspect

import pytest

from arboost import config
from arboost.params.resolve import resolve
from arboost.runtime.errors import XGBoostError


@pytest.fixture(autouse=True)
def restore():
    with config.config_context():
        yield


def test_get_and_set():
    config.set_config(verbosity="2", nthread=3, use_rmm=1, strict_parameters="true")
    assert config.get_config() == {
        "verbosity": 2, "nthread": 3, "use_rmm": True, "use_cuda_async_pool": False, "strict_parameters": True,
        "memory_budget": 0,
    }  # fmt: skip
    config.set_config(verbosity=None)
    assert config.get_config()["verbosity"] == 2


def test_context_restores_everything():
    before = config.get_config()
    with config.config_context(verbosity=3):
        with config.config_context(verbosity=0, nthread=1):
            config.set_config(strict_parameters=True)
            assert config.get_config()["verbosity"] == 0
        assert config.get_config() == {**before, "verbosity": 3}
    assert config.get_config() == before
    with config.config_context(**before):
        assert config.get_config() == before


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"verbosity": 5}, r"value 5 for Parameter verbosity exceed bound \[0, 3\]"),
        ({"verbosity": 1.5}, "Invalid Parameter format for verbosity"),
        ({"verbosity": True}, "Invalid Parameter format for verbosity"),
        ({"use_cuda_async_pool": True}, "not available"),
        ({"memory_budget": "much"}, 'memory_budget is a number of bytes, or a text such as "4GB"'),
        ({"memory_budget": -1}, "memory_budget is a number of bytes"),
        ({"verbosty": 1}, r'Unknown global parameters: \{ verbosty \}.*Did you mean "verbosity"'),
    ],
)
def test_wrong_entry_changes_nothing(entry, message):
    before = config.get_config()
    with pytest.raises(XGBoostError, match=message):
        config.set_config(nthread=7, **entry)
    with pytest.raises(XGBoostError, match=message), config.config_context(nthread=7, **entry):
        pass
    assert config.get_config() == before


def test_strict_parameters():
    with config.config_context(strict_parameters=True), pytest.raises(XGBoostError, match="are not used"):
        resolve({"max_dept": 3})
    with pytest.warns(UserWarning, match="are not used"):
        resolve({"max_dept": 3})


def test_say(capfd):
    with config.config_context(verbosity=2):
        config.say(2, "information")
        config.say(3, "detail")
    assert capfd.readouterr().err == "information\n"


def test_signatures_are_xgboosts():
    xgboost = pytest.importorskip("xgboost")
    for name in ("set_config", "get_config", "config_context"):
        ours, theirs = (inspect.signature(getattr(module, name)) for module in (config, xgboost.config))
        assert [(p.name, p.kind) for p in ours.parameters.values()] == [
            (p.name, p.kind) for p in theirs.parameters.values()
        ]
