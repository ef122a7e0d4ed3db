"""A canary: every part of Numba and llvmlite that no documentation promises and the kernels lean on.

When a new version of Numba fails here, the message names what moved and who needs it; `pyproject.toml` has the upper
bound that keeps such a version away from users until this file passes with it.
"""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import llvmlite.binding
import numba
import numpy as np
import pytest
from numba.core import compiler, event, types

from arboost.kernels import jit, linking

ROOT = Path(__file__).resolve().parents[3]

# What must be there -> who needs it, and for what.
PARTS = {
    "numba._dynfunc:make_function": "linking: a Python function from an address",
    "numba.core.cgutils:get_item_pointer": "intrinsics: addresses of array items",
    "numba.core.cgutils:get_or_insert_function": "intrinsics: instructions by LLVM's name",
    "numba.core.codegen:CPUCodegen.magic_tuple": "jit: names of files differ by processor",
    "numba.core.codegen:CPUCodeLibrary._get_compiled_object": "linking: machine code of a kernel",
    "numba.core.codegen:CPUCodeLibrary.has_dynamic_globals": "linking: code that holds addresses is not kept",
    "numba.core.codegen:JITCodeLibrary._finalize_dynamic_globals": "jit: parts without machine code",
    "numba.core.codegen:JITCodeLibrary._finalize_final_module": "jit: parts without machine code",
    "numba.core.codegen:JITCodeLibrary._optimize_final_module": "jit: parts that are not optimised on their own",
    "numba.core.compiler:Compiler.define_pipelines": "jit: parts have a compiler of their own",
    "numba.core.compiler:compile_result": "linking: a linked kernel as a result of Numba's",
    "numba.core.compiler_lock:global_compiler_lock": "jit: one thread compiles or links at a time",
    "numba.core.cpu:CPUContext.get_dummy_value": "intrinsics: what returns nothing",
    "numba.core.cpu:CPUContext.get_value_type": "elementary: bits of floats",
    "numba.core.cpu:CPUContext.insert_user_function": "jit: parts are known to callers under a name",
    "numba.core.cpu:CPUContext.make_array": "intrinsics: arrays as structures",
    "numba.core.dispatcher:Dispatcher._compilation_chain_init_hook": "jit: no search for extensions before linking",
    "numba.core.dispatcher:Dispatcher.add_overload": "jit: linked kernels and parts become known",
    "numba.core.dispatcher:Dispatcher.compile": "jit: linking before compiling",
    "numba.core.dispatcher:Dispatcher.get_call_template": "jit: kernels that compiled code calls become parts",
    "numba.core.dispatcher:Dispatcher.get_overload": "jit: kernels that compiled code calls become parts",
    "numba.core.environment:Environment": "linking: the Python objects of machine code",
    "numba.core.environment:lookup_environment": "linking: the Python objects of machine code",
    "numba.core.registry:cpu_target.target_context": "jit: which processor code is made for",
    "numba.core.runtime._nrt_python:c_helpers": "linking: addresses of Numba's functions for memory",
    "numba.core.sigutils:normalize_signature": "jit: types of a signature",
    "numba.core.types:ExternalFunction": "intrinsics: functions of the C library by name",
    "numba.core.types:Type.key": "jit: names of files differ by types",
    "numba.core.typing.templates:_OverloadFunctionTemplate._get_jit_decorator": "jit: forms of a function are parts",
    "numba.core.typing.templates:infer": "jit: forms of a function are known to Numba",
    "numba.core.typing.templates:infer_global": "jit: forms of a function are known to Numba",
    "numba.core.typing.templates:make_overload_template": "jit: forms of a function are known to Numba",
    "numba.core.typing.templates:signature": "linking: a linked kernel's signature",
    "numba.extending:is_jitted": "gradient: a user's loss may be compiled already",
    "llvmlite.binding:ExecutionEngine.add_object_file": "linking: machine code into memory",
    "llvmlite.binding:ExecutionEngine.get_global_value_address": "linking: the Python objects of machine code",
    "llvmlite.binding:ObjectFileRef.from_data": "linking: machine code into memory",
    "llvmlite.binding:address_of_symbol": "linking: nothing is linked that would end the process",
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_where_it_was(part):
    module, _, path = part.partition(":")
    found = importlib.import_module(module)
    for name in path.split("."):
        assert hasattr(found, name), f"{part} is gone. Needed by kernels/{PARTS[part]}"
        found = getattr(found, name)


def plus_one(x):
    return x + 1


def fill(x, out):
    for i in range(len(x)):
        out[i] = jit_plus_one(x[i])


jit_plus_one = jit.part(plus_one)


def compile_kernel(function, *arguments):
    """A kernel compiled for these values and kept nowhere, and Numba's result."""
    dispatcher = numba.njit(**jit._OPTIONS, no_cfunc_wrapper=True)(function)
    dispatcher(*arguments)
    (result,) = dispatcher.overloads.values()
    return dispatcher, result


@pytest.fixture(scope="module")
def compiled():
    return compile_kernel(fill, np.zeros(2), np.zeros(2))


def test_results_have_the_fields_that_linking_reads(compiled):
    _, result = compiled
    for name in ("objectmode", "lifted", "reload_init", "library", "fndesc", "signature", "entry_point"):
        assert name in compiler.CR_FIELDS, f"CompileResult.{name} is gone. Needed by kernels/linking"
    assert result.library._final_module.functions, "library._final_module is gone or empty. Needed by kernels/linking"
    for name in ("llvm_cpython_wrapper_name", "env_name"):
        assert isinstance(getattr(result.fndesc, name), str), f"fndesc.{name} moved. Needed by kernels/linking"
    variables = {variable.name for variable in result.library._final_module.global_variables}
    assert result.fndesc.env_name in variables, "a function's environment is no variable of its machine code any more"
    assert result.fndesc.env_name.startswith(linking._ENVIRONMENT), "environments have other names now (linking)"


def test_a_packed_kernel_runs_when_linked(compiled):
    dispatcher, result = compiled
    packed = linking.pack(result)
    assert packed is not None, (
        "linking.pack finds that this kernel cannot be kept: reload_init, lifted or globals moved"
    )
    linked = linking.link(packed, dispatcher, tuple(result.signature.args))
    out = np.zeros(3)
    linked.entry_point(np.arange(3.0), out)
    assert out.tolist() == [1, 2, 3], "machine code linked by linking.link does not do what it did"
    assert linked.signature == result.signature
    with pytest.raises(TypeError):
        linked.entry_point(1)


def test_new_types_come_to_the_compile_of_a_kernel():
    kernel = jit.kernel(plus_one)
    seen = []
    compile_before = kernel.compile
    kernel.compile = lambda signature: seen.append(signature) or compile_before(signature)
    assert kernel(1) == 2
    assert kernel(1.5) == 2.5
    assert kernel(2.5) == 3.5
    assert seen == [(types.int64,), (types.float64,)], "Dispatcher._compile_for_args does not call self.compile (jit)"


def test_parts_have_no_machine_code_and_callers_find_them():
    caller, _ = compile_kernel(fill, np.zeros(2, np.float32), np.zeros(2, np.float32))
    out = np.zeros(2, np.float32)
    caller(np.ones(2, np.float32), out)
    assert out.tolist() == [2, 2]
    part = jit_plus_one.overloads[types.float32,]
    assert isinstance(part.library, jit._PartLibrary), "state.library set in define_pipelines is ignored (jit.part)"
    with pytest.raises((ValueError, RuntimeError)):
        part.library._get_compiled_object()
        pytest.fail("a part was given machine code: parts take twice as long to compile (jit.part)")
    assert part.library._finalized


def test_kernels_count_no_references():
    """The option `_nrt` is not documented; without it every array that is cut costs atomic additions."""

    def cut(x, out):
        for i in range(len(x)):
            out[i] = x[i:].size

    _, result = compile_kernel(cut, np.zeros(3), np.zeros(3))
    functions = [f.name for f in result.library._final_module.functions]
    assert not [name for name in functions if "NRT_" in name], (
        "the option _nrt=False has no effect any more (jit._OPTIONS)"
    )


def test_compilations_are_events():
    """The tests of the kernel cache count them."""
    with event.install_recorder("numba:compile") as recorder:
        compile_kernel(lambda x: x, 1)
    started = [happened for _, happened in recorder.buffer if happened.is_start]
    assert started and started[0].data["dispatcher"] is not None


def test_options_that_no_page_describes_are_taken():
    for option in ("_nrt", "no_cfunc_wrapper", "no_cpython_wrapper", "forceinline", "error_model"):
        assert hasattr(numba.core.registry.cpu_target.options, option), f"the option {option} is gone (jit)"


def test_a_target_machine_can_be_one_for_jit():
    parameters = inspect.signature(llvmlite.binding.Target.create_target_machine).parameters
    assert "jit" in parameters, "create_target_machine(jit=True) is gone. Needed by kernels/linking"


def test_numba_has_an_upper_bound():
    """The version that these tests run with is the newest that users get."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (requirement,) = (each for each in project["dependencies"] if each.startswith("numba"))
    bound = re.search(r"<\s*0\.(\d+)", requirement)
    assert bound, f"{requirement!r} has no upper bound"
    minor = int(numba.__version__.split(".")[1])
    assert minor < int(bound[1]), f"numba {numba.__version__} is not what {requirement!r} allows"
