"""What may still be allocated: the machine's word, a cgroup's word, and what is refused."""

import pytest

from arboost.config import config_context
from arboost.runtime import memory
from arboost.runtime.errors import XGBoostError


def test_available_is_unknown_or_positive():
    available = memory.available_bytes()
    assert available is None or available > 0


def test_more_than_available_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "limit", 3 * 2**30)
    memory.check_room(3 * 2**30, "Sorting", "Use less.")
    with pytest.raises(XGBoostError, match=r"Sorting needs about 3.5 GiB of memory; 3.0 GiB are available. Use less."):
        memory.check_room(7 * 2**29, "Sorting", "Use less.")


def test_a_machine_that_says_nothing_refuses_nothing(monkeypatch):
    monkeypatch.setattr(memory, "_machine_room", lambda: None)
    monkeypatch.setattr(memory.cgroups, "folders", lambda controller: [])
    assert memory.available_bytes() is None
    memory.check_room(1 << 60, "Anything", "")


@pytest.mark.parametrize(
    ("names", "granted", "room"),
    [
        (("memory.max", "memory.current"), "1000", 1000 - 300 + 70),
        (("memory.max", "memory.current"), "max", None),
        (("memory.limit_in_bytes", "memory.usage_in_bytes"), "9223372036854771712", None),
        (("memory.limit_in_bytes", "memory.usage_in_bytes"), "500", 500 - 300 + 70),
    ],
)
def test_a_cgroup_grants_its_limit_less_what_is_in_use(tmp_path, names, granted, room):
    (tmp_path / names[0]).write_text(granted + "\n")
    (tmp_path / names[1]).write_text("300\n")
    (tmp_path / "memory.stat").write_text("anon 200\nactive_file 30\ninactive_file 40\n")
    assert memory._cgroup_room(tmp_path) == room
    assert memory._cgroup_room(tmp_path / "nowhere") is None


def test_the_budget_is_what_was_asked_for_or_a_share(monkeypatch):
    monkeypatch.setattr(memory, "limit", 8 * 2**30)
    assert memory.budget() == (6 * 2**30, "8.0 GiB are available, and 6.0 GiB of that is used", False)
    with config_context(memory_budget="2GiB"):
        assert memory.budget() == (2**31, "memory_budget is 2.0 GiB", True)
        assert memory.budget("512MiB") == (2**29, "memory_budget is 0.5 GiB", True)
    with pytest.raises(XGBoostError, match="memory_budget is a number of bytes"):
        memory.budget("few")


def test_small_trainings_are_tried_on_any_machine(monkeypatch):
    monkeypatch.setattr(memory, "limit", 2**27)
    assert memory.budget()[:2] == (2**28, "128.0 MiB are available, and 256.0 MiB are tried all the same")


def test_the_budget_of_a_machine_that_says_nothing(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    assert memory.budget().n_bytes is None
