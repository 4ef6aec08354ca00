"""A structure as bytes: its plain fields, then the arrays that its dynamic fields point to."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from gpuwork.programs.contract import DYNAMIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ALIGNED: Final = 64
_MOST_BYTES: Final = 2**46


def dynamic_fields(kind: type[ctypes.Structure]) -> Mapping[str, tuple[str, ...]]:
    """Each field that points to an array, with the fields whose product its length is."""
    found: Mapping[str, tuple[str, ...]] = getattr(kind, DYNAMIC, {})
    return found


def field_types(kind: type[ctypes.Structure]) -> dict[str, Any]:
    """The fields of a structure, in order, with their types."""
    return {field[0]: field[1] for field in getattr(kind, "_fields_", ())}


def element_type(kind: type[ctypes.Structure], field: str) -> Any:  # noqa: ANN401  (ctypes has no type for its types)
    """What a dynamic field points to."""
    return field_types(kind)[field]._type_


def array_bytes(value: ctypes.Structure, field: str) -> int:
    """How many bytes a dynamic field has.

    Raises:
        ValueError: Its length is no length.
    """
    count = 1
    for name in dynamic_fields(type(value))[field]:
        factor = int(getattr(value, name))
        if factor < 0:
            raise ValueError(f"{type(value).__name__}.{name} is {factor}, and {field} has so many elements")
        count *= factor
    size = count * ctypes.sizeof(element_type(type(value), field))
    if size > _MOST_BYTES:
        raise ValueError(f"{type(value).__name__}.{field} has {count} elements")
    return size


def array_address(value: ctypes.Structure, field: str) -> int:
    """Where a dynamic field points to.

    Raises:
        ValueError: Nowhere.
    """
    pointer = getattr(value, field)
    if not pointer:
        raise ValueError(f"{type(value).__name__}.{field} has no array")
    return ctypes.addressof(pointer.contents)


def encode(value: ctypes.Structure) -> bytearray:
    """The bytes of a structure; pointers in it are nothing elsewhere, and 0."""
    encoded = bytearray(encoded_size(value))
    for start, piece in pieces(value):
        encoded[start : start + len(piece)] = piece
    return encoded


def encoded_size(value: ctypes.Structure) -> int:
    """How many bytes `encode` gives."""
    size = _padded(ctypes.sizeof(value))
    for field in dynamic_fields(type(value)):
        size = _padded(size + array_bytes(value, field))
    return size


def pieces(value: ctypes.Structure) -> Iterator[tuple[int, memoryview]]:
    """What `encode` gives in pieces, each with where it begins; arrays are not copied."""
    kind = type(value)
    plain = kind.from_buffer_copy(value)
    for field in dynamic_fields(kind):
        setattr(plain, field, None)
    yield 0, memoryview(bytes(plain))
    at = _padded(ctypes.sizeof(value))
    for field in dynamic_fields(kind):
        size = array_bytes(value, field)
        if size:
            yield at, memoryview((ctypes.c_char * size).from_address(array_address(value, field))).cast("B")
        at = _padded(at + size)


def decode(kind: type[ctypes.Structure], encoded: Any, address: int) -> ctypes.Structure:  # noqa: ANN401  (a buffer)
    """A structure whose dynamic fields point into these bytes, which must stay.

    Args:
        kind: Of the structure.
        encoded: A buffer, as `encode` gives it.
        address: Where the buffer is.

    Raises:
        ValueError: These are not the bytes of one.
    """
    if len(encoded) < ctypes.sizeof(kind):
        raise ValueError(f"{len(encoded)} bytes are not a {kind.__name__}")
    value = kind.from_buffer_copy(memoryview(encoded)[: ctypes.sizeof(kind)])
    if encoded_size(value) != len(encoded):
        raise ValueError(f"{len(encoded)} bytes are not a {kind.__name__} of {encoded_size(value)}")
    at = _padded(ctypes.sizeof(kind))
    for field in dynamic_fields(kind):
        setattr(value, field, ctypes.cast(address + at, ctypes.POINTER(element_type(kind, field))))
        at = _padded(at + array_bytes(value, field))
    return value


def address_of(buffer: Any) -> int:  # noqa: ANN401  (a writable buffer)
    """Where a buffer that can be written to is."""
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))


def copy_arrays(source: ctypes.Structure, target: ctypes.Structure) -> None:
    """Copy the arrays of a structure to where the dynamic fields of one of the same lengths point."""
    for field in dynamic_fields(type(source)):
        size = array_bytes(source, field)
        if array_bytes(target, field) != size:
            raise ValueError(f"{type(target).__name__}.{field} changed its length")
        if size:
            ctypes.memmove(array_address(target, field), array_address(source, field), size)


def without_arrays(value: ctypes.Structure) -> ctypes.Structure:
    """A copy whose dynamic fields point nowhere."""
    return type(value).from_buffer_copy(next(pieces(value))[1])


def _padded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
