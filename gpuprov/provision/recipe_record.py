"""What an image was made from, as its label and those of its nodes record it, and what it lacks of another recipe."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, cast

from gpuprov.core.answer_kinds import is_string, items_of, pick
from gpuprov.core.fingerprint import short

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.core.answer_kinds import Accepts
    from gpuprov.provision.recipe import Recipe

_NAMED: Final = 4
_STRINGS: Final = items_of(is_string)
_KINDS: Final[Mapping[str, Accepts]] = {
    "fingerprint": is_string,
    "base": is_string,
    "packages": _STRINGS,
    "python": _STRINGS,
    "roles": lambda value: isinstance(value, dict) and all(map(is_string, value.values())),
}


@dataclass(frozen=True, kw_only=True)
class RecipeRecord:
    """The parts of a recipe that people know by name.

    Attributes:
        fingerprint: Of the whole recipe.
        python: Python packages, as pip writes them.
        roles: The user's own roles, each with the hash of its content.
    """

    fingerprint: str
    base: str
    packages: tuple[str, ...]
    python: tuple[str, ...]
    roles: Mapping[str, str]

    def dump(self) -> str:
        """The text of a label."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


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


def read_recipe_record(text: str) -> RecipeRecord | None:
    """Read what `dump` wrote; None for anything else, such as what another version recorded."""
    try:
        found = json.loads(text)
        fingerprint, base, packages, python, roles = pick(found, _KINDS)
    except (ValueError, TypeError, RecursionError):
        return None
    return RecipeRecord(
        fingerprint=fingerprint, base=base, packages=tuple(packages), python=tuple(python), roles=dict(roles)
    )


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
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])
