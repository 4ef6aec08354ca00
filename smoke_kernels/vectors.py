"""Load and store four neighbouring words in one 16-byte instruction.

The compiler joins neighbouring accesses only where it can prove their alignment, which for an array argument it cannot.
An index must be a multiple of four; device arrays and aligned shared arrays start on 16 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from smoke_kernels.backend import SIMULATED, numba_cuda_submodule

if TYPE_CHECKING:
    from smoke_kernels.backend import DeviceArray, DeviceWord, Kernel

# llvmlite's and numba's own objects, which have no types here.
Lowering = Any

LANES: Final = 4
_BYTES: Final = 16


def _load_four(array: DeviceArray, index: DeviceWord) -> tuple[DeviceWord, DeviceWord, DeviceWord, DeviceWord]:
    return array[index], array[index + 1], array[index + 2], array[index + 3]


def _store_four(array: DeviceArray, index: DeviceWord, words: tuple[DeviceWord, ...]) -> None:
    for lane in range(LANES):
        array[index + lane] = words[lane]


def _vector_pointer(
    context: Lowering, builder: Lowering, signature: Lowering, arguments: Lowering
) -> tuple[Lowering, Lowering]:
    """Return the LLVM pointer to four elements of the array, and their vector type."""
    ir = numba_cuda_submodule("cgutils").ir
    types = numba_cuda_submodule("types")
    array_type, index_type = signature.args[:2]
    array = context.make_array(array_type)(context, builder, arguments[0])
    place = context.cast(builder, arguments[1], index_type, types.uintp)
    vector = ir.VectorType(context.get_data_type(array_type.dtype), LANES)
    return builder.bitcast(builder.gep(array.data, [place]), vector.as_pointer()), vector


def _load_intrinsic() -> Kernel:
    ir = numba_cuda_submodule("cgutils").ir
    types = numba_cuda_submodule("types")

    def load_four(_typing: Lowering, array: Lowering, index: Lowering) -> tuple[Lowering, Lowering]:
        def generate(context: Lowering, builder: Lowering, signature: Lowering, arguments: Lowering) -> Lowering:
            pointer, _ = _vector_pointer(context, builder, signature, arguments)
            loaded = builder.load(pointer, align=_BYTES)
            lanes = [builder.extract_element(loaded, ir.Constant(ir.IntType(32), lane)) for lane in range(LANES)]
            return context.make_tuple(builder, signature.return_type, lanes)

        return types.UniTuple(array.dtype, LANES)(array, index), generate

    return numba_cuda_submodule("extending").intrinsic(load_four)


def _store_intrinsic() -> Kernel:
    ir = numba_cuda_submodule("cgutils").ir
    types = numba_cuda_submodule("types")

    def store_four(_typing: Lowering, array: Lowering, index: Lowering, words: Lowering) -> tuple[Lowering, Lowering]:
        def generate(context: Lowering, builder: Lowering, signature: Lowering, arguments: Lowering) -> Lowering:
            pointer, vector = _vector_pointer(context, builder, signature, arguments)
            value = ir.Constant(vector, ir.Undefined)
            for lane in range(LANES):
                element = builder.extract_value(arguments[2], lane)
                value = builder.insert_element(value, element, ir.Constant(ir.IntType(32), lane))
            builder.store(value, pointer, align=_BYTES)
            return context.get_dummy_value()

        return types.void(array, index, words), generate

    return numba_cuda_submodule("extending").intrinsic(store_four)


load_four: Kernel = _load_four if SIMULATED else _load_intrinsic()
store_four: Kernel = _store_four if SIMULATED else _store_intrinsic()
