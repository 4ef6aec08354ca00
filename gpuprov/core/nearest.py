"""The name that was probably meant by one that nothing has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHORT: Final = 4  # letters; of these, `lba` is like `lab`
_DIGIT: Final = re.compile(r"[0-9]")


def find_nearest(name: str, there: Iterable[str]) -> str:
    """The name that is most like it, or empty; c007 is not meant where there is c000, but c000 by c00."""
    from difflib import get_close_matches

    likeness = 0.65 if len(name) <= _SHORT else 0.75
    other_numbers = _DIGIT.sub("0", name)
    near = [
        one for one in get_close_matches(name, list(there), cutoff=likeness) if _DIGIT.sub("0", one) != other_numbers
    ]
    return near[0] if near else ""


def ask_back(names: Iterable[str], there: Iterable[str]) -> str:
    """What to add to words about names that nothing has: `; did you mean c000?`, or nothing."""
    known = list(there)
    near = dict.fromkeys(filter(None, (find_nearest(name, known) for name in names)))
    return f"; did you mean {' and '.join(near)}?" if near else ""
