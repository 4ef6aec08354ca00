from __future__ import annotations

from benchmarks.first_run import engine_packages


def test_the_floor_installs_what_the_role_installs_for_lxd() -> None:
    packages = engine_packages()
    assert {"lxd", "lxd-client", "dnsmasq-base", "mmdebstrap"} <= set(packages)
    assert all(isinstance(name, str) and name.islower() for name in packages)
    assert "incus-base" not in packages
