"""What a person asks for in GPUs: one value, which specs and the orders of clusters, nodes and jobs hold.

Each of its fields is defined here, once: its key in a spec, its option and its argument of Ansible's modules follow.
What it means to the GPUs of a host is in `gpu/order.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.units import GIB, parse_size_bytes
from gpuprov.shapes.choices import Sharing  # noqa: TC001 - the decoder reads these hints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CRITERION: Final = "criterion"


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """How a field is written that every GPU has to meet.

    Attributes:
        option: On the command line; Ansible's argument is the same word, with underscores.
        metavar: Of the option's value.
        help: A sentence for the option and for Ansible.
        read: The value of the text that somebody typed; its other argument says where, as errors show it.
        find_problem: What is wrong with a value in a spec, and what is allowed; None for a good one.
    """

    option: str
    metavar: str
    help: str
    read: Callable[[str, str], Any]
    find_problem: Callable[[Any], tuple[str, str] | None]

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


def _memory_problem(gib: float) -> tuple[str, str] | None:
    whole = isinstance(gib, int)  # in a spec; `--gpu-memory` of one node may be any size
    return None if whole and gib >= 1 else (f"is {gib}", "1 or more" if whole else "a whole number, 1 or more")


def _model_problem(model: str) -> tuple[str, str] | None:
    return None if model.strip() else ("is empty", "a part of the model name, or null")


@dataclass(frozen=True, kw_only=True)
class GpuOrder:
    """GPUs as a person ordered them, in their own words; None where nothing is said.

    Attributes:
        per_node: How many, or for one node also `all`, `none`, or a list of index, UUID, PCI address or MIG instance.
        memory_gib: That each GPU has at least.
        model: A part of the name of each GPU's model.
    """

    per_node: int | str | None = None
    sharing: Sharing | None = None
    memory_gib: int | float | None = field(
        default=None,
        metadata={
            _CRITERION: Criterion(
                option="--gpu-memory",
                metavar="SIZE",
                help="Minimum memory of each GPU, such as 20GiB.",
                read=lambda text, option: gib_of(parse_memory(text, option)),
                find_problem=_memory_problem,
            )
        },
    )
    model: str | None = field(
        default=None,
        metadata={
            _CRITERION: Criterion(
                option="--gpu-model",
                metavar="NAME",
                help="A part of the model name of each GPU.",
                read=lambda text, _option: text,
                find_problem=_model_problem,
            )
        },
    )

    @property
    def criteria(self) -> dict[str, Any]:
        """What each GPU has to meet, of that which is said."""
        return {name: value for name in CRITERIA if (value := getattr(self, name)) is not None}

    def with_criteria_of(self, common: GpuOrder) -> GpuOrder:
        """With what another order says of each GPU, where this one says nothing of that."""
        return replace(self, **{**common.criteria, **self.criteria})


CRITERIA: Final[Mapping[str, Criterion]] = {
    one.name: one.metadata[_CRITERION] for one in fields(GpuOrder) if _CRITERION in one.metadata
}


def said_fields(order: GpuOrder) -> dict[str, Any]:
    """The fields that say something."""
    return {one.name: value for one in fields(order) if (value := getattr(order, one.name)) is not None}


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
