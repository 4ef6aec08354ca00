"""The library by which programs in containers ask for simulated GPUs: compiled here, as no machine's serves another."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

from gpuprov.assets import PACKAGE
from gpuprov.core.execution import run
from gpuprov.core.whole_file import replace_file
from gpuprov.gpu.nvml_answers import list_answers
from gpuprov.runtime.gpus import ANSWERS, NVML_ANSWERS, NVML_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COMPILERS: Final = ("cc", "gcc", "clang", "tcc")
_SOURCE: Final = PACKAGE / "runtime/simulated_nvml.c"
_FLAGS: Final = ("-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-fno-stack-protector", f"-Wl,-soname={NVML_NAME}")
PLACE = NVML_ANSWERS  # in the container


def write_nvml(folder: Path, document: Mapping[str, Any] | None, *, again: bool) -> bool:
    """Have the library and what it answers in the runtime's folder; tells whether something changed.

    Without a compiler there is no library, and where GPUs are real there is neither.

    Args:
        document: Of the simulated GPUs; None for real ones.
        again: Whether to compile it though it is there.
    """
    library, answers = folder / NVML_NAME, folder / ANSWERS
    told = {} if document is None else list_answers(document)
    wanted = {name: "".join(f"{line}\n" for line in lines) for name, lines in told.items()}
    differ = wanted != {path.name: path.read_text(encoding="utf-8") for path in answers.glob("*")}
    if differ:
        shutil.rmtree(answers, ignore_errors=True)
        answers.mkdir(mode=0o755)
        for name, text in wanted.items():
            replace_file(answers / name, text, mode=0o644)
    if document is None:
        library.unlink(missing_ok=True)
        return differ
    return ((again or not library.is_file()) and _compile(library)) or differ


def _compile(library: Path) -> bool:
    """By the first compiler that can; tells whether one could."""
    draft = library.with_name(f".{library.name}")
    for compiler in filter(None, map(shutil.which, COMPILERS)):
        if (
            run(
                [compiler, *_FLAGS, f'-DANSWERS="{PLACE}"', "-o", str(draft), str(_SOURCE)], timeout_s=60, check=False
            ).exit_code
            == 0
        ):
            draft.chmod(0o644)
            draft.replace(library)
            return True
    return False
