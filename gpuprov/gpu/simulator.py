"""numba's CUDA simulator, which runs kernels where GPUs are simulated: the variable that turns it on."""

from __future__ import annotations

from typing import Final

SIMULATOR_VARIABLE: Final = "NUMBA_ENABLE_CUDASIM"


def simulator_environment(*, simulated: bool) -> dict[str, str]:
    """What a program that runs kernels has in its environment where its GPUs are `simulated`, or where they are not."""
    return {SIMULATOR_VARIABLE: "1"} if simulated else {}
