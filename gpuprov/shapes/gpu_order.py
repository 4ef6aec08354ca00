"""What a person asks for in GPUs: one value, which specs and the orders of clusters, nodes and jobs hold."""

from __future__ import annotations

from typing import Any, Final

from gpuprov.shapes.base import Shape, changed
from gpuprov.shapes.choices import Sharing

_OF_A_NODE: Final = ("per_node", "sharing")


class GpuOrder(Shape, frozen=True, kw_only=True):
    """GPUs as a person ordered them, in their own words; None where nothing is said.

    Attributes:
        per_node: How many, or for one node also `all`, `none`, or a list of index, UUID, PCI address or MIG instance.
        memory_gib: That each GPU has at least.
        model: A part of the name of each GPU's model.
    """

    per_node: int | str | None = None
    sharing: Sharing | None = None
    memory_gib: int | float | None = None
    model: str | None = None

    @property
    def said(self) -> dict[str, Any]:
        """What is said, by field."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}

    @property
    def criteria(self) -> dict[str, Any]:
        """What each GPU has to meet, of that which is said."""
        return {name: value for name in CRITERIA if (value := getattr(self, name)) is not None}

    def with_criteria_of(self, common: GpuOrder) -> GpuOrder:
        """With what another order says of each GPU, where this one says nothing of that."""
        return changed(self, **{**common.criteria, **self.criteria})


CRITERIA: Final = tuple(name for name in GpuOrder.__struct_fields__ if name not in _OF_A_NODE)
