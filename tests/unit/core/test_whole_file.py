"""A file is replaced in one step, whatever lies in the way of its draft."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.whole_file import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable


def test_it_has_its_text_and_mode(tmp_path: Path) -> None:
    for text, mode in (("one", 0o644), ("two", 0o600)):
        replace_file(tmp_path / "a", text, mode=mode)
        assert ((tmp_path / "a").read_text(), (tmp_path / "a").stat().st_mode & 0o777) == (text, mode)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "a").symlink_to("other")
    replace_file(tmp_path / "a", "ours", mode=0o644)
    assert ((tmp_path / "a").read_text(), (tmp_path / "other").read_text()) == ("ours", "theirs")


def test_what_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("before")

    def full(_self: Path, _target: Path) -> Callable[[], None]:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(tmp_path / "a", "after", mode=0o644)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "before")]
