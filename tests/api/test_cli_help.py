"""Help that teaches, flags for every parameter, completion, and a start without the engine."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("rich_click")

from click.testing import CliRunner

from arboost.cli import app
from arboost.params.table import ALIASES, PARAMS

COMMANDS = [
    "train", "cv", "predict", "evaluate", "explain", "report", "plot", "dump", "convert", "trace", "demo", "bench",
    "parameters", "compile", "completion", "version",
]  # fmt: skip


def invoke(*arguments):
    return CliRunner().invoke(app.program, list(arguments), prog_name="arboost", env={"COLUMNS": "110"})


def test_help_names_every_command():
    shown = invoke("--help")
    assert shown.exit_code == 0
    assert app.program.list_commands(None) == COMMANDS
    for name in COMMANDS:
        assert f"\n│ {name} " in shown.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name):
    shown = invoke(name, "--help")
    assert shown.exit_code == 0
    if name not in ("demo", "compile", "version"):
        assert f"arboost {name} " in shown.output.split("╭")[0].replace("Usage: arboost", ""), "no example"


@pytest.mark.parametrize("command", ["train", "cv", "trace"])
def test_every_parameter_is_a_flag(command):
    found = app.program.get_command(None, command)
    context = found.make_context(command, [], resilient_parsing=True)
    flags = {flag for param in found.get_params(context) for flag in param.opts}
    for name in (*PARAMS, *ALIASES):
        assert f"--{name.replace('_', '-')}" in flags


def test_short_help_shows_the_common_parameters_and_long_help_all():
    short, everything = invoke("train", "--help").output, invoke("train", "--help-all").output
    assert "--max-depth" in short and "--aft-loss-distribution" not in short
    for name in PARAMS:
        assert f"--{name.replace('_', '-')}" in everything


def test_help_imports_no_engine():
    code = "import sys; from arboost.cli import main; main({}); print('numba' in sys.modules, 'numpy' in sys.modules)"
    for arguments in (["--help"], ["train", "--help"], ["predict", "--help"]):
        run = subprocess.run(
            [sys.executable, "-c", code.format(arguments)], capture_output=True, text=True, check=True,
            env=os.environ | {"COLUMNS": "100"},
        )  # fmt: skip
        imported = run.stdout.splitlines()[-1].split()
        assert imported[0] == "False", "numba"
        if arguments == ["--help"]:
            assert imported[1] == "False", "numpy"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    shown = invoke("completion", shell)
    assert shown.exit_code == 0 and "_ARBOOST_COMPLETE" in shown.output


def complete(*words, kinds=False):
    """What the Tab key offers after these words; `kinds`: of which kind it is."""
    env = os.environ | {
        "_ARBOOST_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    code = "import sys; sys.argv = ['arboost']; from arboost.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    return [line.partition(",")[0 if kinds else 2] for line in run.stdout.splitlines()]


def test_completion_of_commands_flags_and_values():
    assert complete("arboost", "ev") == ["evaluate"]
    assert "--max-depth" in complete("arboost", "train", "--max-d")
    assert "--aft-loss-distribution" in complete("arboost", "train", "--aft")
    assert complete("arboost", "train", "--booster", "gbl") == ["gblinear"]
    assert complete("arboost", "trace", "--example", "sal") == ["salary"]
    assert complete("arboost", "parameters", "learning_r") == ["learning_rate"]


@pytest.mark.parametrize(
    "words", [("train",), ("predict", "--model"), ("train", "--report"), ("report", "m.json", "--data"), ("dump",)]
)
def test_files_are_completed_by_the_shell(words):
    kinds = complete("arboost", *words, "", kinds=True)
    assert kinds == ["file"]


def test_parameters_by_name():
    shown = invoke("parameters", "learning_rate", "--json")
    facts = json.loads(shown.output)["parameters"]
    assert [fact["name"] for fact in facts] == ["eta"]
    assert "Levels of splits" in invoke("parameters", "max-depth").output
    wrong = invoke("parameters", "max_dept")
    assert wrong.exit_code == 2 and "max_depth" in wrong.output


def test_version_option():
    assert invoke("--version").output.startswith("arboost ")
