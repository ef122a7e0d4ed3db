"""How many threads there are: what the process may use, not what the host has."""

import os

import pytest

from arboost.runtime import context
from arboost.runtime.context import Context


def test_requested_threads():
    assert context.resolve_threads(3) == 3
    available = context.available_threads()
    assert available >= 1
    for everything in (None, 0, -1):
        assert context.resolve_threads(everything) == available


@pytest.mark.parametrize(
    "text, cores", [("max 100000", None), ("100000 100000", 1), ("150000 100000", 2), ("5000 100000", 1), ("", None)]
)
def test_quota_of_a_control_group(tmp_path, text, cores):
    (tmp_path / "cpu.max").write_text(text + "\n")
    assert context._quota(tmp_path) == cores


@pytest.mark.parametrize("quota, cores", [("-1", None), ("200000", 2), ("50000", 1)])
def test_quota_of_a_control_group_of_version_1(tmp_path, quota, cores):
    (tmp_path / "cpu.cfs_quota_us").write_text(quota + "\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert context._quota(tmp_path) == cores


def test_no_control_group(tmp_path):
    assert context._quota(tmp_path) is None


@pytest.mark.parametrize("quota, expected", [(None, 6), (1, 1), (4, 4), (64, 6)])
def test_the_smaller_of_affinity_and_quota(monkeypatch, quota, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setattr(context, "_cgroup_quota", lambda: quota)
    assert context.available_threads.__wrapped__() == expected


def test_without_affinity_the_cores_of_the_machine(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    monkeypatch.setattr(context, "_cgroup_quota", lambda: None)
    assert context.available_threads.__wrapped__() == 1


def span(start, stop):
    return stop - start


def test_work_goes_to_the_contexts_threads():
    ctx = Context(n_threads=2)
    assert ctx.run_ranges(10, 1, span) == [5, 5]
    assert ctx.run_tasks(span, [(0, 1), (0, 2), (0, 3)]) == [1, 2, 3]
    assert Context().run_ranges(10, 1, span) == [10]


def test_a_context_is_a_value():
    with pytest.raises(AttributeError):
        Context().n_threads = 2
