"""Which packages of the distribution roles install, as their own defaults say: the one place that lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def find_packages(roles_path: Path, roles: Iterable[str], *, init: str) -> tuple[str, ...]:
    """The packages that roles install in nodes with that init: `ROLE_packages`, and `ROLE_init_packages` by init."""
    import yaml

    found: set[str] = set()
    for role in roles:
        defaults = roles_path / role / "defaults" / "main.yml"
        values = yaml.safe_load(defaults.read_text(encoding="utf-8")) or {} if defaults.is_file() else {}
        found.update(values.get(f"{role}_packages", ()), values.get(f"{role}_init_packages", {}).get(init, ()))
    return tuple(sorted(found))
