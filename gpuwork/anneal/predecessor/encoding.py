"""msgpack with arrays as msgpack-numpy packs them; what would be executed on unpacking is refused."""

from __future__ import annotations

import importlib
from typing import Any, Final

import numpy as np

from gpuprov.shapes.limits import GIB

msgpack: Any = importlib.import_module("msgpack")
msgpack_numpy: Any = importlib.import_module("msgpack_numpy")
dramatiq: Any = importlib.import_module("dramatiq")

MOST_BYTES: Final = GIB
_KINDS: Final = "biufcSU"


def pack_message(data: object) -> bytes:
    """As bytes; arrays and numbers of numpy among it."""
    packed: bytes = msgpack.packb(data, default=_pack_numpy, use_bin_type=True)
    return packed


def _pack_numpy(value: object) -> object:
    if isinstance(value, np.ndarray) and value.dtype.kind not in _KINDS:
        raise TypeError(f"an array of {value.dtype} cannot be sent")
    return msgpack_numpy.encode(value)


def unpack_message(data: bytes) -> Any:  # noqa: ANN401  (whatever was packed)
    """What was packed; raises ValueError for what is no such message."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"has more than {MOST_BYTES:,} bytes")
    try:
        return msgpack.unpackb(data, object_hook=_unpack_numpy, raw=False, strict_map_key=False)
    except (ValueError, TypeError, LookupError, msgpack.UnpackException) as error:
        raise ValueError(f"is not a message: {error}") from error


def _unpack_numpy(value: dict[Any, Any]) -> object:
    """msgpack-numpy's own would unpickle an array of objects, which executes what the sender likes."""
    if b"nd" not in value and "nd" not in value:
        return value
    told = {key.encode() if isinstance(key, str) else key: one for key, one in value.items()}
    if told.get(b"kind") not in (b"", "", None) or np.dtype(told[b"type"]).kind not in _KINDS:
        raise ValueError("has an array of another kind")
    if told[b"nd"] is True:
        return np.frombuffer(told[b"data"], np.dtype(told[b"type"])).reshape(told[b"shape"])
    return np.frombuffer(told[b"data"], np.dtype(told[b"type"]))[0]


class MessagePack(dramatiq.Encoder):  # type: ignore[misc]  # no types are read of dramatiq
    """How dramatiq packs messages and results."""

    def encode(self, data: object) -> bytes:
        """As bytes."""
        return pack_message(data)

    def decode(self, data: bytes) -> Any:  # noqa: ANN401  (whatever was packed)
        """What was packed."""
        try:
            return unpack_message(data)
        except ValueError as error:
            raise dramatiq.DecodeError(f"a message {error}", data, error) from error
