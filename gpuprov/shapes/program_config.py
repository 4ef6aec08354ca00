"""What `config.yaml` of a program says."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from gpuprov.shapes.base import Shape
from gpuprov.shapes.limits import FREE_NAME

Label = Annotated[
    str,
    Meta(
        pattern=rf"^{FREE_NAME}\Z",
        extra={"allowed": "a text of letters, digits, . _ and -, 64 at most"},
    ),
]


class ProgramInfo(Shape, frozen=True, kw_only=True):
    """What it is.

    Attributes:
        py_c_extention: Of the predecessor, which had more kinds of modules than one; spelt as there.
    """

    may_omit: ClassVar[bool] = True
    name: Label
    version: Label
    py_c_extention: bool = False


class ProgramSources(Shape, frozen=True, kw_only=True):
    """Its files, relative to its folder.

    Attributes:
        python: The module with the structures and functions.
        header: The same structures in C.
        cuda: What is compiled.
        runner: The module that turns settings into parameters and results into what is shown; null for none.
    """

    may_omit: ClassVar[bool] = True
    python: str
    header: str
    cuda: str
    runner: str | None = None


class ProgramFile(Shape, frozen=True, kw_only=True):
    """The whole file."""

    info: ProgramInfo
    sources: ProgramSources
