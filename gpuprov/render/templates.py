"""The one Jinja2 environment: strict, so that a missing value is an error and never an empty line in a file."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import jinja2


def render(folder: Path, template: str, /, **values: object) -> str:
    """Render `folder/template`; a value that the template names and `values` lacks raises jinja2.UndefinedError."""
    return _environment(folder).get_template(template).render(**values)


@lru_cache(maxsize=4)
def _environment(folder: Path) -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(
            enabled_extensions=("html.j2", "svg.j2")
        ),  # the others are configuration files
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
