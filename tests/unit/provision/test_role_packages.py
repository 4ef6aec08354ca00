from __future__ import annotations

from pathlib import Path

from gpuprov.provision.role_packages import find_packages

ROLES = Path(__file__).resolve().parents[3] / "roles"


def test_the_packages_of_a_node_are_those_that_its_roles_say(tmp_path: Path) -> None:
    for role, text in {
        "base": "base_packages: [b, a]\nbase_init_packages: {systemd: [dbus], runit: [runit]}\nbase_other: [x]\n",
        "slurm": "slurm_packages: [munge, a]\n",
        "empty": "---\n",
    }.items():
        (tmp_path / role / "defaults").mkdir(parents=True)
        (tmp_path / role / "defaults" / "main.yml").write_text(text)
    roles = ("base", "slurm", "empty", "without-defaults")
    assert find_packages(tmp_path, roles, init="systemd") == ("a", "b", "dbus", "munge")
    assert find_packages(tmp_path, ("base",), init="runit") == ("a", "b", "runit")


def test_the_roles_of_nodes_say_theirs_in_a_way_that_is_found() -> None:
    found = find_packages(ROLES, ("base", "cuda", "slurm", "work"), init="systemd")
    assert {"openssh-server", "dbus", "munge", "slurmd", "python3-yaml"} <= set(found)
    assert "runit" in find_packages(ROLES, ("base",), init="runit")
