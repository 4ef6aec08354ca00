"""Units of size and time, and how people write amounts of them."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Final

MIB: Final = 1024**2
GIB: Final = 1024**3
HOUR_S: Final = 3600
_SPANS: Final = (("d", 24 * HOUR_S), ("h", HOUR_S), ("m", 60), ("s", 1))

_SIZE: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?([KMGT]i?B|B)", re.ASCII | re.IGNORECASE)
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}
_DURATION: Final = re.compile(r"([0-9]{1,7})(s|m|h)?", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": HOUR_S}
_AGES: Final = (("d", 86400), ("h", HOUR_S), ("min", 60))
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)


def parse_size_bytes(text: str) -> int | None:
    """Bytes of `20GiB`, `20480MiB` or `20GB`; None where that is no size, or none at all."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        return None
    unit = found[2].lower()
    base = 1024 if "i" in unit else 1000
    return int(float(found[1]) * base ** _POWERS.get(unit[0], 0))


def parse_duration_s(text: str) -> int | None:
    """Seconds of `90`, `10m` or `8h`; None where that is no time."""
    found = _DURATION.fullmatch(text.strip())
    return int(found[1]) * _SECONDS[found[2] or "s"] if found else None


def render_duration(seconds: float, *, units: int = 2) -> str:
    """A duration as people say it: `2h05m`, or `2h` with one unit; what lies in the future is `0s`."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, length in _SPANS:
        count, left = divmod(left, length)
        if count or parts or unit == "s":
            parts.append(f"{count:02d}{unit}" if parts else f"{count}{unit}")
    return "".join(parts[:units])


def render_size(count: int) -> str:
    """So many bytes, in the unit that people would say: `12 bytes`, `3.4 MiB`."""
    for unit, length in (("GiB", GIB), ("MiB", MIB), ("KiB", 1024)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count} byte{'' if count == 1 else 's'}"


def describe_age(seconds: float) -> str:
    """How long ago, in one unit that people count in: `40 s`, `12 min`, `5 h`, `3 d`."""
    for unit, length in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def age_of(moment: str, now: float) -> str:
    """The same of a moment as `2026-11-27T19:20:33Z`, with or without parts of a second; empty where it is none."""
    found = _MOMENT.match(moment)
    if not found:
        return ""
    then = datetime.strptime(found[0], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return describe_age(now - then.timestamp())
