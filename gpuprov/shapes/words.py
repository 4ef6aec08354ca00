r"""The kinds of values that shapes are made of: how long a text is at most, what it is made of, and ranges of numbers.

Patterns describe a text as a whole: they begin with `^` and end with `\Z`, which a schema writes as `$`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Word = Annotated[str, Meta(max_length=300)]
Words = Annotated[str, Meta(max_length=10_000)]
Plain = Annotated[str, Meta(pattern=r"^[^{}\x00-\x1f\x7f-\x9f]{0,300}\Z")]  # Ansible carries out what braces enclose
Moment = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")]
Path = Annotated[str, Meta(pattern=r"^/[^\x00-\x1f\x7f]{0,4095}\Z")]
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
GpuUuid = Annotated[str, Meta(pattern=r"^(GPU|MIG)-[0-9A-Za-z/-]{1,80}\Z")]
Count = Annotated[int, Meta(ge=0, le=10**15)]
Size = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number = Annotated[int, Meta(ge=0, le=1_000_000)]
Seconds = Annotated[float, Meta(ge=0)]
Printed = Annotated[str, Meta(pattern=r"^[!-~]{1,300}\Z")]
ExitStatus = Annotated[int, Meta(ge=0, le=255)]
# A name of Python's, in any script, as Python and JSON Schema both read it
_FIRST = r"[^\x00-@\[-^`{-\x7f]"
PYTHON_NAME = rf"{_FIRST}[^\x00-/:-@\[-^`{{-\x7f]*"
# Slurm takes a partition DEFAULT, in whatever case, for what the others begin with
PartitionName = Annotated[
    str,
    Meta(
        pattern=r"^(?![Dd][Ee][Ff][Aa][Uu][Ll][Tt]\Z)[A-Za-z][A-Za-z0-9_-]{0,39}\Z",
        extra={"allowed": "1 to 40 of A-Z, a-z, 0-9, _ and -; starts with a letter; not DEFAULT"},
    ),
]
HostName = Annotated[str, Meta(max_length=255)]
