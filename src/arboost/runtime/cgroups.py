"""The control groups of this process, which may grant it less than the machine has."""

from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def folders(controller: str) -> list[Path]:
    """Where a limit of "cpu" or "memory" may stand, own first: of cgroup v2, then the controller's of v1."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:  # not on macOS or Windows
        return []
    own = {line.split(":", 2)[1]: line.split(":", 2)[2].lstrip("/") for line in lines if line.count(":") >= 2}
    found = []
    for top, name in ((_ROOT, own.get("", "")), (_ROOT / controller, own.get(controller, ""))):
        folder = top / name
        found += [p for p in (folder, *folder.parents) if p == top or top in p.parents]
    return found
