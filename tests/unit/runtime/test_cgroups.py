"""Where limits of this process may stand."""

from pathlib import Path

import pytest

from arboost.runtime import cgroups


@pytest.mark.parametrize(
    ("lines", "folders"),
    [
        ("0::/user/job\n", ["user/job", "user", "", "memory"]),
        ("12:cpu:/a\n5:memory:/docker/box\n0::/\n", ["", "memory/docker/box", "memory/docker", "memory"]),
        ("9:cpu,memory:/x\n", ["", "memory"]),
    ],
)
def test_the_cgroups_of_this_process(lines, folders, monkeypatch):
    """Version 2, and version 1 with a folder for each controller; a limit may stand in any folder on the way up."""
    monkeypatch.setattr(Path, "read_text", lambda path: lines)
    root = Path("/sys/fs/cgroup")
    assert cgroups.folders("memory") == [root / name for name in folders]
