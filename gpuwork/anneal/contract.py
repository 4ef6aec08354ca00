"""What a model has to have: its functions, and what kernels provide beside them."""

from __future__ import annotations

from typing import Final

FUNCTIONS: Final[dict[str, tuple[str, ...]]] = {
    "empty_state": (),
    "initialize": ("state", "randoms"),
    "generate_next": ("state", "new_state", "randoms", "step"),
    "cool": ("initial_temp", "old_temp", "step"),
    "evaluate": ("state",),
    "acceptance_func": ("e_old", "e_new", "temp", "rnd"),
}
RETURNING: Final = ("empty_state", "cool", "evaluate", "acceptance_func")  # the others fill an array
MARK: Final = "# -- Globals"
# What the functions find without a line of their own
PROVIDED: Final = frozenset({"math", "numba", "cuda", "numpy", "np", "clamp", "copy_state"})


def signature(name: str) -> str:
    """A function as a model has to define it."""
    return f"{name}({', '.join(FUNCTIONS[name])})"
