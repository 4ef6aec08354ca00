"""Which multiprocessors of the GPU did the work, and which of them did it wrong.

A block runs on one multiprocessor from its start to its end, so a block's place in a result leads to the culprit.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from smoke_kernels.backend import SIMULATED, cuda, numba_cuda_submodule, poisoned
from smoke_kernels.result import Check

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from smoke_kernels.backend import DeviceArray, Kernel

# llvmlite's and numba's own objects, which have no types here.
Lowering = Any

_NOBODY: Final = 0xFFFFFFFF  # what poison leaves
_MOST_NAMED: Final = 8


def _smid_intrinsic() -> Kernel:
    ir = numba_cuda_submodule("cgutils").ir
    types = numba_cuda_submodule("types")

    def own_multiprocessor(_typing: Lowering) -> tuple[Lowering, Lowering]:
        def generate(_context: Lowering, builder: Lowering, _signature: Lowering, _arguments: Lowering) -> Lowering:
            word = ir.FunctionType(ir.IntType(32), [])
            return builder.call(ir.InlineAsm(word, "mov.u32 $0, %smid;", "=r", side_effect=True), [])

        return types.uint32(), generate

    return numba_cuda_submodule("extending").intrinsic(own_multiprocessor)


def _none_simulated() -> int:
    return 0


own_multiprocessor: Kernel = _none_simulated if SIMULATED else _smid_intrinsic()
"""Inside kernels: the number of the multiprocessor that runs the calling thread."""


def count_multiprocessors() -> int | None:
    """Return how many the current GPU, or the part of it that this process may use, has; None in the simulator."""
    return None if SIMULATED else int(cuda.get_current_device().MULTIPROCESSOR_COUNT)


def owners_of(blocks: int) -> DeviceArray:
    """Return the device array, a word for each block, in which a launch leaves who ran it."""
    return poisoned(blocks)


class Census:
    """Counts who took part in the launches of a kernel, and who gave wrong results."""

    def __init__(self) -> None:
        """Start with nobody seen."""
        self.blocks = 0
        """Of the largest launch."""
        self.seen: set[int] = set()
        self.wrong: Counter[int] = Counter()

    def add(self, owners: NDArray[np.uint32]) -> None:
        """Count those who ran a launch, by its blocks."""
        self.blocks = max(self.blocks, owners.size)
        self.seen |= set(owners.tolist()) - {_NOBODY}

    def blame(self, owners: NDArray[np.uint32], blocks: Iterable[int]) -> None:
        """Count a wrong result against those who ran these blocks."""
        self.wrong.update(int(owners[block]) for block in set(blocks))

    def details(self) -> dict[str, Any]:
        """Return what the proof tells of them."""
        present = count_multiprocessors()
        return {
            "multiprocessors": None
            if present is None
            else {"present": present, "took_part": len(self.seen), "wrong": dict(sorted(self.wrong.items()))}
        }

    def check(self) -> Check:
        """Require that all took part and none was wrong."""
        return judge_multiprocessors(
            present=count_multiprocessors(), took_part=len(self.seen), blocks=self.blocks, wrong=self.wrong
        )


def judge_multiprocessors(*, present: int | None, took_part: int, blocks: int, wrong: Mapping[int, int]) -> Check:
    """Require all multiprocessors, or as many as the largest launch had blocks, and no wrong result of any."""
    name = "multiprocessors"
    if present is None:
        return Check(name=name, passed=True, evidence="not asked: the simulator has none")
    evidence = f"{took_part} of {present} took part"
    if blocks < present:
        evidence += f", a problem of this size has {blocks} {'block' if blocks == 1 else 'blocks'} for them"
    if wrong:
        worst = sorted(wrong.items(), key=lambda item: (-item[1], item[0]))
        named = ", ".join(f"{number} ({count})" for number, count in worst[:_MOST_NAMED])
        more = f" and {len(worst) - _MOST_NAMED} more" if len(worst) > _MOST_NAMED else ""
        evidence += f"; wrong results came from multiprocessor {named}{more}"
    return Check(name=name, passed=not wrong and took_part >= min(present, blocks), evidence=evidence)
