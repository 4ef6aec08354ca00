"""How people write what each GPU has to meet (`shapes/gpu_order.py`) as options, and as arguments of Ansible's modules.

What it means to the GPUs of a host is in `gpu/order.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.units import GIB, parse_size_bytes
from gpuprov.shapes.gpu_order import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """How a field of a GpuOrder is written that every GPU has to meet.

    Attributes:
        option: On the command line; Ansible's argument is the same word, with underscores.
        metavar: Of the option's value.
        help: A sentence for the option and for Ansible.
        read: The value of the text that somebody typed; its other argument says where, as errors show it.
    """

    option: str
    metavar: str
    help: str
    read: Callable[[str, str], Any]

    @property
    def argument(self) -> str:
        """Of Ansible's modules, and of the commands."""
        return self.option.lstrip("-").replace("-", "_")


def parse_memory(text: str, option: str) -> int:
    """Bytes of `20GiB`, `20480MiB` or `20GB`.

    Raises:
        UsageError: The text is not a size.
    """
    size = parse_size_bytes(text)
    if size is None:
        raise UsageError(
            f"{text!r} is not a valid amount of memory",
            evidence="allowed: a number with KiB, MiB, GiB or TiB",
            fix=f"{option} 20GiB",
        )
    return size


def gib_of(size_bytes: int) -> int | float:
    """So many GiB, exactly: a whole number where it is one."""
    return size_bytes // GIB if size_bytes % GIB == 0 else size_bytes / GIB


def _read_memory(text: str, option: str) -> int | float:
    return gib_of(parse_memory(text, option))


def _read_text(text: str, _option: str) -> str:
    return text


CRITERIA: Final[Mapping[str, Criterion]] = {
    name: Criterion(**told, read=_read_memory if name.endswith("_gib") else _read_text)
    for name, told in OPTIONS.items()
}


def read_criteria(given: Mapping[str, Any], written: Callable[[Criterion], str]) -> dict[str, Any]:
    """The criteria that were typed, each by its argument.

    Args:
        given: All that was typed, by the names of arguments; None for what was not.
        written: How a criterion is written there, for errors.

    Raises:
        UsageError: A text is none of the criterion's.
    """
    texts = {name: given[told.argument] for name, told in CRITERIA.items()}
    return {
        name: CRITERIA[name].read(text, written(CRITERIA[name])) for name, text in texts.items() if text is not None
    }
