"""How much memory this process may still take: to refuse what cannot fit before the machine is on its knees, and to
choose between memory and disk by a budget, which is the user's or a share of what is available.
"""

from pathlib import Path
from typing import Any, NamedTuple

from arboost.runtime import cgroups, settings
from arboost.runtime.bytesize import in_words, parse_bytes
from arboost.runtime.errors import XGBoostError

limit: int | None = None
"""Bytes to take for available whatever the machine says; None to ask the machine."""

_SMALL = 1 << 26  # bytes that are not worth asking for: the answer takes 0.1 ms
_SHARE = 0.75  # of what is available: the user's own program goes on, and estimates are estimates
_LEAST_BUDGET = 1 << 28  # where nobody gave one: small trainings are tried on any machine


class Budget(NamedTuple):
    """Bytes that a training may take, None if nothing is known of the machine; who says so, and if that is a user."""

    n_bytes: int | None
    words: str
    is_given: bool = False


def budget(given: Any = None) -> Budget:
    """The budget given with a call, else that of `set_config`, else a share of what is available."""
    asked = 0 if given is None else parse_bytes(given, "memory_budget")
    if asked or settings.current().memory_budget:
        n_bytes = asked or settings.current().memory_budget
        return Budget(n_bytes, f"memory_budget is {in_words(n_bytes)}", True)
    available = available_bytes()
    if available is None:
        return Budget(None, "nothing is known of the memory of this machine")
    n_bytes = max(int(_SHARE * available), _LEAST_BUDGET)
    use = "of that is used" if n_bytes <= available else "are tried all the same"
    return Budget(n_bytes, f"{in_words(available)} are available, and {in_words(n_bytes)} {use}")


def available_bytes() -> int | None:
    """Bytes that may still be allocated: what the machine and every cgroup of this process leave; None if unknown."""
    if limit is not None:
        return limit
    groups = (_cgroup_room(folder) for folder in cgroups.folders("memory"))
    rooms = [room for room in (_machine_room(), _process_room(), *groups) if room is not None]
    return min(rooms) if rooms else None


def is_small(n_bytes: int) -> bool:
    """Whether a need is too small to ask for room; who says what it needs in many words may ask this first."""
    return n_bytes < _SMALL and limit is None


def check_room(n_bytes: int, what: str, advice: str) -> None:
    """Refuses a need of n_bytes that exceeds what is available."""
    if is_small(n_bytes):
        return
    available = available_bytes()
    if available is not None and n_bytes > available:
        raise XGBoostError(
            f"{what} needs about {in_words(n_bytes)} of memory; {in_words(available)} are available. {advice}"
        )


def _machine_room() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not on macOS or Windows
        return None
    found = [line for line in lines if line.startswith("MemAvailable:")]
    return int(found[0].split()[1]) * 1024 if found else None


def _process_room() -> int | None:
    """What `ulimit -v` leaves."""
    try:
        import resource

        granted, _ = resource.getrlimit(resource.RLIMIT_AS)
        if granted == resource.RLIM_INFINITY:
            return None
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # not on Windows; no /proc on macOS
        return None
    return max(0, granted - used)


def _cgroup_room(folder: Path) -> int | None:
    """Limit less use; what caches of files hold is given back on demand and counts as room."""
    for names in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        try:
            granted, used = ((folder / name).read_text().strip() for name in names)
            if granted == "max" or int(granted) >= 1 << 60:
                return None
            return int(granted) - int(used) + _cached_bytes(folder)
        except (OSError, ValueError):
            continue
    return None


def _cached_bytes(folder: Path) -> int:
    lines = (folder / "memory.stat").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.split()[0] in ("active_file", "inactive_file"))
