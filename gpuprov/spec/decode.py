"""A document as a spec: its keys, types and version, without a look at what the values mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.shapes.written import Value
from gpuprov.spec.document import problem
from gpuprov.spec.models import ClusterSpec

if TYPE_CHECKING:
    from gpuprov.spec.schema import Decoder

API_VERSION = "gpuprov/v1"


def decode_spec(document: Value, decoder: Decoder) -> ClusterSpec | None:
    """Turn a document into a ClusterSpec; problems are left in the decoder."""
    if not isinstance(document.content, dict):
        return decoder.decode(ClusterSpec, document)
    keys = dict(document.content)
    version = keys.pop("version", None)
    if version is None:
        decoder.problems.append(problem("version", document, "is required but missing", allowed=API_VERSION))
    elif version.content != API_VERSION:
        decoder.problems.append(problem("version", version, f"is {version.content!s:.60}", allowed=API_VERSION))
    return decoder.decode(ClusterSpec, Value(content=keys, line=document.line))
