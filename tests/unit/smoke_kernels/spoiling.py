"""A kernel that is wrong in a place of one's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoke_kernels.backend import cuda

if TYPE_CHECKING:
    from collections.abc import Callable


class Spoiling:
    """A kernel whose block b runs on multiprocessor `first + b`, and whose product is then spoiled.

    Args:
        source: The kernel's, whose third and fourth arguments are the product and the owners of its blocks.
        first: Number of the multiprocessor of block 0.
        spoil: Is given the product.
    """

    def __init__(self, source: Callable[..., object], *, first: int, spoil: Callable[[Any], object]) -> None:
        self._kernel: Any = cuda.jit(source)
        self._first = first
        self._spoil = spoil

    def __getitem__(self, configuration: object) -> Spoiling:
        self._kernel = self._kernel[configuration]
        return self

    def __call__(self, *arguments: Any) -> None:
        self._kernel(*arguments)
        _, _, product, owners, _ = arguments
        for block in range(owners.size):
            owners[block] = self._first + block
        self._spoil(product)
