"""Compiling ahead: every kernel is reached, and kinds bring no more than they need."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from arboost import warmup

ROOT = Path(__file__).resolve().parents[2]

# Kernels that `compile` leaves to their first use: "module.function" -> why.
COMPILED_LATER = {
    "arboost.kernels.cpu.grow.nodes.release_histograms": "only a tree that outgrows the memory for histograms needs it",
    **{
        f"arboost.kernels.cpu.round.leaf_quantile.{name}": "quantiles over several workers, which one machine has not"
        for name in ("count_digits", "fill_keys", "next_keys", "values_of_keys")
    },
}


def all_kernels():
    """Full names of all functions marked @kernel, from the source."""
    folder = ROOT / "src" / "arboost" / "kernels"
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and any(getattr(d, "id", "") == "kernel" for d in node.decorator_list):
                yield ".".join(["arboost.kernels", *path.relative_to(folder).with_suffix("").parts, node.name])


def test_all_reaches_every_kernel():
    missed = set(all_kernels()) - set(warmup.compile_kinds().kernels)
    assert missed <= set(COMPILED_LATER), f"not compiled: {sorted(missed)}"  # other tests may have met some of these


def test_the_next_process_compiles_nothing():
    """Every kernel can be kept: after `all`, another `all` only links."""
    warmup.compile_kinds()
    script = """if True:
        from numba.core import event
        from arboost import warmup
        with event.install_recorder("numba:compile") as recorder:
            done = warmup.compile_kinds()
        print([happened.data["dispatcher"].py_func.__name__ for _, happened in recorder.buffer], done.n_lost)
    """
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[] 0\n"


def test_a_kind_brings_its_own_kernels_and_not_those_of_others():
    """In a process of its own: this one may have met kernels of every kind."""
    script = "from arboost import warmup; print(*warmup.compile_kinds(['linear', 'exact']).kernels, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = {name.split(".")[-2] for name in run.stdout.split()}
    assert {"linear", "exact", "binning"} <= modules
    assert not {"rank", "shap", "survival", "special"} & modules


def test_an_unknown_kind_is_named():
    with pytest.raises(
        ValueError, match=r"unknown kinds of kernels: histogram, trees; known are hist, approx.* and all"
    ):
        warmup.compile_kinds(["trees", "hist", "histogram"])


def test_every_kind_is_warmed():
    assert set(warmup._WARMERS) == set(warmup.KINDS)
