from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.drivers import registry

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_an_engine_is_installed_where_its_daemon_is_also_outside_the_users_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("bin", "sbin"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(registry, "_ADMIN", (str(tmp_path / "sbin"),))
    monkeypatch.setattr(registry, "_DAEMONS", {"lxd": ("lxd",), "docker": ("dockerd",)})
    for engine, daemon in (("lxd", tmp_path / "bin" / "lxd"), ("docker", tmp_path / "sbin" / "dockerd")):
        assert not registry.is_installed(engine)
        daemon.touch(mode=0o755)
        assert registry.is_installed(engine)
