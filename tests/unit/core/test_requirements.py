from __future__ import annotations

import pytest

from gpuprov.core.requirements import older


@pytest.mark.parametrize(
    ("version", "least", "expected"),
    [
        ("5.4", "5.4", False),
        ("5.4.0-fc-v657", "5.4", False),
        ("5.4", "5.4.0", False),
        ("5.10.1", "5.4", False),
        ("4.19-rc7+deb", "5.4", True),
        ("5.21.3 LTS", "5.0", False),
        ("4.24 LTS", "5.0", True),
        ("v1.9", "1.41", True),
        ("535.54.03", "580.65", True),
        ("580.65.06", "580.65", False),
        ("580.", "580.65", True),
        ("unknown", "1.0", False),
        ("", "1.0", False),
        ("9" * 5000, "1.0", False),
        (("9." * 5000), "1.0", False),
    ],
    ids=lambda value: str(value)[:20],
)
def test_numbers_are_compared_and_what_follows_them_is_not(version: str, least: str, expected: bool) -> None:
    assert older(version, least) is expected
