"""Machine instructions that Numba has no name for."""

import platform
import sys

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_BYTE_POINTER = ir.IntType(8).as_pointer()
_I32 = ir.IntType(32)


def _emit_prefetch(context, builder, signature, args):
    array_type = signature.args[0]
    array = context.make_array(array_type)(context, builder, args[0])
    address = cgutils.get_item_pointer(context, builder, array_type, array, list(args[1:]), wraparound=False)
    prefetch_type = ir.FunctionType(ir.VoidType(), [_BYTE_POINTER, _I32, _I32, _I32])
    prefetch = cgutils.get_or_insert_function(builder.module, prefetch_type, "llvm.prefetch.p0")
    read, keep_in_all_levels, data_cache = _I32(0), _I32(3), _I32(1)
    builder.call(prefetch, [builder.bitcast(address, _BYTE_POINTER), read, keep_in_all_levels, data_cache])
    return context.get_dummy_value()


@intrinsic
def prefetch_item(typing_context, array, i):
    """Ask the cache for `array[i]` of a 1-d array; `i` must be unsigned."""
    return types.void(array, i), _emit_prefetch


@intrinsic
def prefetch_row(typing_context, array, i, j):
    """Ask the cache for `array[i, j]` of a 2-d array; `i` and `j` must be unsigned."""
    return types.void(array, i, j), _emit_prefetch


@intrinsic
def count_trailing_zeros(typing_context, bits):
    """Position of the lowest set bit of a uint64 that is not 0."""

    def emit(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), emit


@intrinsic
def count_leading_zeros(typing_context, bits):
    """Zeros above the highest set bit of a uint64 that is not 0."""

    def emit(context, builder, signature, args):
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), emit


@intrinsic
def multiply_high(typing_context, a, b):
    """The upper 64 bits of the product of two uint64."""

    def emit(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), emit


def _item_pointer(context, builder, array_type, array, index):
    view = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, view, [index], wraparound=False)


@intrinsic
def atomic_add(typing_context, array, i, value):
    """array[i] += value on an int64 array, as one operation for all threads; returns the old value."""

    def emit(context, builder, signature, args):
        pointer = _item_pointer(context, builder, signature.args[0], args[0], args[1])
        return builder.atomic_rmw("add", pointer, args[2], "seq_cst")

    return types.int64(array, types.uint64, types.int64), emit


@intrinsic
def atomic_load(typing_context, array, i):
    """array[i] of an int64 array, as other threads last stored it."""

    def emit(context, builder, signature, args):
        pointer = _item_pointer(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(array, types.uint64), emit


@intrinsic
def atomic_store(typing_context, array, i, value):
    """array[i] = value on an int64 array; what this thread wrote before is visible to whoever sees it."""

    def emit(context, builder, signature, args):
        pointer = _item_pointer(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.uint64, types.int64), emit


@intrinsic
def relax(typing_context):
    """Tell the core that this is a waiting loop (x86's pause); nothing elsewhere."""

    def emit(context, builder, signature, args):
        if platform.machine().lower() in ("x86_64", "amd64"):
            pause = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(ir.VoidType(), []), "llvm.x86.sse2.pause"
            )
            builder.call(pause, [])
        return context.get_dummy_value()

    return types.void(), emit


_YIELD = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
yield_core = types.ExternalFunction(_YIELD, types.int32())
"""Let another thread have this core; found by name in the C library, so compiled code can be kept on disk."""
