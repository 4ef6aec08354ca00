"""PCI addresses in one spelling: NVML writes eight digits of domain, /proc four, people none."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"(?:([0-9a-f]{4}|[0-9a-f]{8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.ASCII | re.IGNORECASE)


def parse_pci(text: str) -> str | None:
    """`65:00.0`, `0000:65:00.0` or `00000000:65:00.0` as `0000:65:00.0`; None if it is no PCI address."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return None
    domain, bus, device, function = match.groups(default="0")
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def normalise_pci(text: str) -> str:
    """The one spelling of an address that the system gave; left as it is where it has another form."""
    return parse_pci(text) or text.lower()
