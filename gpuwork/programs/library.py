"""A program's library: its C functions, and the structures that it allocates the arrays of."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from gpuwork.programs.codec import array_bytes, copy_arrays, dynamic_fields, encode, without_arrays
from gpuwork.programs.contract import ALLOCATED, C_FUNCTIONS, DATASET, PARAMS, RESULT, STATE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class ProgramFault(Exception):
    """The program did what it must not, in words."""


class Library:
    """The library of a program.

    Args:
        path: Of the file.
        kind: Gives each structure by its name.
        block_size: Threads of a block, which the program may use.
    """

    def __init__(self, path: Path, kind: Callable[[str], type[ctypes.Structure]], block_size: int) -> None:
        try:
            self._loaded = ctypes.CDLL(str(path))
        except OSError as error:
            raise ProgramFault(f"the library cannot be loaded: {error}") from error
        pointers = {name: ctypes.POINTER(kind(name)) for name in (PARAMS, DATASET, STATE, RESULT)}
        self._names = {kind(structure): name for name, structure in ALLOCATED.items()}
        self._block_size = block_size
        for name in C_FUNCTIONS:
            found = getattr(self._loaded, name, None)
            if found is None:
                raise ProgramFault(f"the library has no function {name}")
            found.restype = ctypes.c_int
        self._loaded.run_iteration.argtypes = [ctypes.c_int, *pointers.values()]
        for name, structure in ALLOCATED.items():
            for verb in ("setup", "free"):
                getattr(self._loaded, f"{verb}_{name}").argtypes = [pointers[structure]]
        self._loaded.gpuwork_words.restype = ctypes.c_char_p

    def allocate(self, value: ctypes.Structure) -> ctypes.Structure:
        """The same with arrays that C has allocated.

        Raises:
            ProgramFault: C could not.
        """
        name = self._names[type(value)]
        held = without_arrays(value)
        self._call(f"setup_{name}", ctypes.byref(held))
        try:
            for field in dynamic_fields(type(value)):
                if array_bytes(held, field) and not getattr(held, field):
                    raise ProgramFault(f"setup_{name} left {field} without memory")
            copy_arrays(value, held)
        except ValueError as error:
            raise ProgramFault(f"setup_{name}: {error}") from error
        return held

    def free(self, held: ctypes.Structure) -> None:
        """Have C free what `allocate` gave."""
        self._call(f"free_{self._names[type(held)]}", ctypes.byref(held))

    def iterate(
        self, params: Any, data: ctypes.Structure, state: ctypes.Structure, empty: ctypes.Structure  # noqa: ANN401
    ) -> bytearray:  # fmt: skip
        """Run an iteration: its result, encoded.

        Args:
            params: Global parameters.
            data: As `allocate` gave it.
            state: The global state; C gets a copy.
            empty: A result to begin with; C gets a copy.
        """
        held_state, held_result = self.allocate(state), None
        try:
            held_result = self.allocate(empty)
            given = (params, data, held_state, held_result)
            self._call("run_iteration", self._block_size, *map(ctypes.byref, given))
            self._check("run_iteration", self._loaded.gpuwork_finish())
            return encode(held_result)
        except ValueError as error:
            raise ProgramFault(f"run_iteration: {error}") from error
        finally:
            for held in (held_result, held_state):
                if held is not None:
                    self.free(held)

    def _call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401  (as ctypes takes them)
        self._check(name, getattr(self._loaded, name)(*arguments))

    def _check(self, name: str, status: int) -> None:
        if status:
            words = (self._loaded.gpuwork_words(status) or b"").decode(errors="replace")
            raise ProgramFault(f"{name} failed with {status}: {words}")
