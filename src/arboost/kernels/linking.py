"""A compiled kernel as bytes, and bytes as a function that Python can call.

Numba's own cache loads the modules of its compiler, LLVM's intermediate code of a function and all it was made from
before it calls anything: 0.2 s of a first fit. Machine code needs none of that: LLVM links it and Python calls it. It
cannot be compiled into another function, which takes a kernel's source instead (`jit.py`).
Names are unique in the process that compiled them and no further, so what each process compiled is linked apart.
"""

import ctypes
import functools
import os
import pickle
import secrets
import sys
from collections.abc import Callable
from typing import Any

from llvmlite import binding
from numba._dynfunc import make_function
from numba.core import compiler
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime._nrt_python import c_helpers
from numba.core.typing.templates import signature

_ENVIRONMENT = "_ZN08NumbaEnv"  # how the variables of machine code begin that hold the Python objects of a function
_linked: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}  # (process, name) -> address, and what must stay alive


def pack(result: Any) -> bytes | None:
    """A compiled kernel as bytes; None where its code holds addresses of this process."""
    library = result.library
    if result.objectmode or result.lifted or result.reload_init or library.has_dynamic_globals:
        return None
    module = library._final_module
    variables = [variable.name for variable in module.global_variables if not variable.is_declaration]
    environments = {name: lookup_environment(name) for name in variables if name.startswith(_ENVIRONMENT)}
    if None in environments.values():
        return None
    outside = [
        found.name
        for found in (*module.functions, *module.global_variables)
        if found.is_declaration and not found.name.startswith("llvm.")
    ]
    constants = {name: list(found.consts) for name, found in environments.items()}
    names = _name_process(os.getpid()), result.fndesc.llvm_cpython_wrapper_name, result.fndesc.env_name
    try:
        return pickle.dumps((library._get_compiled_object(), names, outside, constants, result.signature.return_type))
    except (pickle.PicklingError, TypeError, AttributeError):  # a constant that has no meaning elsewhere
        return None


def link(packed: bytes, dispatcher: Any, arguments: tuple) -> Any:
    """What `pack` made of a kernel as what Numba makes of compiling it for these types; None if that cannot be."""
    code, (process, wrapper, own), outside, constants, return_type = pickle.loads(packed)
    function = dispatcher.py_func
    if (process, wrapper) not in _linked:
        _offer_memory_functions()
        if not all(binding.address_of_symbol(name) for name in outside):
            return None  # LLVM would end the process
        engine = _engine_of(process)
        engine.add_object_file(binding.ObjectFileRef.from_data(code))
        engine.finalize_object()
        made = {name: _set_environment(engine, function, name, constants[name]) for name in constants}
        _linked[process, wrapper] = engine.get_function_address(wrapper), made
    address, environments = _linked[process, wrapper]
    module = sys.modules.get(function.__module__, sys.modules[__name__])
    call = make_function(module, function.__name__, function.__doc__ or "", address, environments[own], ())
    return compiler.compile_result(
        typing_context=dispatcher.typingctx,
        target_context=dispatcher.targetctx,
        entry_point=call,
        signature=signature(return_type, *arguments),
        objectmode=False,
        lifted=(),
    )


@functools.cache
def _engine_of(process: str) -> Any:
    """LLVM's linker for what one process compiled; never unloaded, since threads may run in there till the very end."""
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


@functools.cache
def _name_process(pid: int) -> str:
    """A name for this process that no other has had; a forked child is another one."""
    return f"{pid}-{secrets.token_hex(8)}"


def _set_environment(engine: Any, function: Callable, name: str, constants: list) -> Any:
    """Give machine code the Python objects that it may need under `name`; what is returned must stay alive."""
    environment = Environment(function.__globals__)
    environment.env_name = name
    environment.consts[:] = constants
    address = engine.get_global_value_address(name)
    ctypes.c_void_p.from_address(address).value = id(environment)
    return environment


@functools.cache
def _offer_memory_functions() -> None:
    """Numba names its functions for memory to LLVM when it first compiles; linked code needs them without."""
    for name, address in c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
