"""What an image was made from, as its label and those of its nodes record it, and what it lacks of another recipe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, cast

from gpuprov.core.excerpt import few
from gpuprov.core.fingerprint import short
from gpuprov.shapes.base import read, write
from gpuprov.shapes.records import RecipeRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.provision.recipe import Recipe

_NAMED: Final = 4


def record_recipe(recipe: Recipe, contents: Mapping[str, object]) -> RecipeRecord:
    """The parts of a recipe, whose folders were hashed a moment ago."""
    roles = cast("list[list[str]]", contents["own_roles"])
    return RecipeRecord(
        fingerprint=recipe.fingerprint_with(contents),
        base=recipe.base,
        packages=recipe.packages,
        python=recipe.requirements,
        roles={name: short(digest) for name, digest in roles},
    )


def dump_recipe_record(record: RecipeRecord) -> str:
    """The text of a label."""
    return json.dumps(write(record), sort_keys=True, separators=(",", ":"))


def read_recipe_record(text: str) -> RecipeRecord | None:
    """Read what `dump_recipe_record` wrote; None for anything else, such as what another version recorded."""
    try:
        return read(RecipeRecord, text)
    except ValueError:
        return None


def describe_lack(old: RecipeRecord, new: RecipeRecord) -> str:
    """What an older image lacks of a recipe, and what it has besides: `lacks numpy==1.26, role dev-tools`."""
    if old.base != new.base:
        return f"base {old.base} instead of {new.base}"
    lacking = [*_beyond(new.packages, old.packages), *_beyond(new.python, old.python)]
    lacking += [f"role {name}" for name in new.roles if name not in old.roles]
    besides = [*_beyond(old.packages, new.packages), *_beyond(old.python, new.python)]
    besides += [f"role {name}" for name in old.roles if name not in new.roles]
    changed = [name for name, digest in new.roles.items() if old.roles.get(name, digest) != digest]
    words = [f"lacks {_named(lacking)}"] if lacking else []
    words += [f"has an older role {_named(changed)}"] if changed else []
    words += [f"still has {_named(besides)}"] if besides else []
    return "; ".join(words) or "made by another version of gpuprov"


def differences(old: RecipeRecord, new: RecipeRecord) -> int:
    """How many packages one has and the other has not."""
    return len({*old.packages, *old.python} ^ {*new.packages, *new.python})


def _beyond(these: Iterable[str], those: Iterable[str]) -> list[str]:
    there = set(those)
    return sorted(one for one in these if one not in there)


def _named(names: list[str]) -> str:
    return few(names, _NAMED)
