"""What came of a command in a node of another host."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gpuprov.shapes.base import Record
from gpuprov.shapes.words import Word

Packed = Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})]


class NodeRun(Record, frozen=True, kw_only=True, tag="gpuprov.node-run/v1"):
    """What came of a command in a node; told to other hosts alone.

    Attributes:
        host: Name of the host.
        exit_code: Of the command.
        stdout: What it printed, compressed by zlib, in base64.
        stderr: The same of stderr.
    """

    host: Word
    exit_code: Annotated[int, Meta(ge=-255, le=255)]
    stdout: Packed
    stderr: Packed
