"""What a person asks for in GPUs: one value, which specs and the orders of clusters, nodes and jobs hold.

Each of its fields is defined here, once: its key in a spec, its option and its argument of Ansible's modules follow
(`spec/gpu_order.py`). What it means to the GPUs of a host is in `gpu/order.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args, get_type_hints

from msgspec import Meta

from gpuprov.shapes.base import Shape, changed
from gpuprov.shapes.choices import Sharing


class GpuOrder(Shape, frozen=True, kw_only=True):
    """GPUs as a person ordered them, in their own words; None where nothing is said.

    Attributes:
        per_node: How many, or for one node also `all`, `none`, or a list of index, UUID, PCI address or MIG instance.
        memory_gib: That each GPU has at least.
        model: A part of the name of each GPU's model.
    """

    per_node: int | str | None = None
    sharing: Sharing | None = None
    memory_gib: Annotated[
        int | float | None,
        Meta(extra={"option": "--gpu-memory", "metavar": "SIZE", "help": "Minimum memory of each GPU, such as 20GiB."}),
    ] = None
    model: Annotated[
        str | None,
        Meta(extra={"option": "--gpu-model", "metavar": "NAME", "help": "A part of the model name of each GPU."}),
    ] = None

    @property
    def said(self) -> dict[str, Any]:
        """What is said, by field."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}

    @property
    def criteria(self) -> dict[str, Any]:
        """What each GPU has to meet, of that which is said."""
        return {name: value for name in OPTIONS if (value := getattr(self, name)) is not None}

    def with_criteria_of(self, common: GpuOrder) -> GpuOrder:
        """With what another order says of each GPU, where this one says nothing of that."""
        return changed(self, **{**common.criteria, **self.criteria})


# What each GPU has to meet: the option of each such field, with its `metavar` and `help`
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    name: meta.extra
    for name, hint in get_type_hints(GpuOrder, include_extras=True).items()
    for meta in get_args(hint)[1:]
    if isinstance(meta, Meta) and meta.extra
}
