"""Machine instructions that Numba has no name for."""

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
