"""What is shipped: the wheel holds everything, and works from any folder."""

from __future__ import annotations

import configparser
import json
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from gpuprov import __version__
from gpuprov.assets import get_asset
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.link.address import RemoteMachine
from gpuprov.link.ask import MemberRequest, ask_member
from gpuprov.link.bare_host import install_there, look_at_bare_host, remove_there
from gpuprov.link.connection import SshConnection
from gpuprov.link.places import Places
from gpuprov.provision.own_wheel import own_files, own_requirements, pack_wheel
from gpuprov.provision.wheels import ensure_wheels
from gpuprov.stories.hosts import ROOM_BYTES
from tests.fakes.member_orders import odd_order
from tests.fakes.ssh import install_ssh

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ("gpuwork", "inventories", "roles", "smoke_kernels", "templates")
COLLECTION = "ansible_collections/gpuprov/cluster"
SOURCES = (
    "LICENSE",
    "README.md",
    "ansible_collections",
    "gpuprov",
    "lab.yml",
    "pyproject.toml",
    "setup.cfg",
    "tasks",
    *ASSETS,
)
LOOK_UP = f"""
import json
from gpuprov.assets import get_asset
print(json.dumps({{name: str(get_asset(name)) for name in {ASSETS}}}))
"""


def call(*argv: str | Path, cwd: Path) -> str:
    done = subprocess.run(list(map(str, argv)), cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_below(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name)
        else:
            shutil.copy(ROOT / name, source)
    call(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        folder,
        ".",
        cwd=source,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment that holds the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=True)
    call(folder / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return folder


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package_and_of_its_assets(wheel: Path) -> None:
    shipped = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"gpuprov/{name}" for name in files_below(ROOT / "gpuprov")}
    for asset in ASSETS:
        wanted |= {f"gpuprov/_assets/{asset}/{name}" for name in files_below(ROOT / asset)}
    wanted |= {"gpuprov/_assets/lab.yml"} | {f"gpuprov/_assets/tasks/{name}" for name in files_below(ROOT / "tasks")}
    wanted |= {f"{COLLECTION}/{name}" for name in files_below(ROOT / COLLECTION)}
    packed = {name for name in shipped if ".dist-info/" not in name}
    assert packed == wanted
    assert not [name for name in shipped if "__pycache__" in name]


@pytest.mark.slow
def test_the_wheel_that_host_add_packs_is_the_same(wheel: Path, tmp_path: Path) -> None:
    packed = pack_wheel(own_files(), tmp_path)
    assert packed.name == wheel.name
    ours, theirs = (
        {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
        for archive in map(zipfile.ZipFile, (packed, wheel))
    )
    assert ours.keys() == theirs.keys()
    assert [name for name, content in ours.items() if theirs[name] != content] == []
    assert pack_wheel(own_files(), tmp_path) == packed


@pytest.mark.slow
def test_host_add_brings_a_gpuprov_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but `ssh` is real: the wheels, the environment and the member."""
    root = install_ssh(tmp_path, monkeypatch).reach("hoff")
    (root / "opt").mkdir()
    places = Places(config=tmp_path / "config", runtime=tmp_path)
    places.config.mkdir()
    connection = SshConnection(machine=RemoteMachine(name="hoff", address="hoff"), places=places)
    facts = look_at_bare_host(connection, Silent())
    wheels = ensure_wheels(own_requirements(), python=facts.python, cache=tmp_path / "cache")
    install_there(connection, "one", [pack_wheel(own_files(), tmp_path / "cache"), *wheels], Silent())
    assert look_at_bare_host(connection, Silent()).installed == "one"
    program = root / "opt/gpuprov/current/bin/gpuprov"
    assert call(program, "--version", cwd=tmp_path) == f"gpuprov {__version__}\n"
    with pytest.raises(UsageError, match="hoff: members do not know `nothing`"):
        ask_member(connection, MemberRequest(order=odd_order("nothing")), reporter=Silent())
    below = [path for path in (root / "opt/gpuprov").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in below) * 3 < ROOM_BYTES, "also while one replaces another"
    remove_there(connection, Silent())
    assert not list((root / "opt").iterdir())


@pytest.mark.slow
def test_the_wheel_puts_gpuprov_and_its_collection_into_site_packages_and_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ansible_collections", "gpuprov"}


@pytest.mark.slow
def test_installed_ansible_finds_the_collection(installed: Path) -> None:
    listed = call(installed / "venv/bin/ansible-galaxy", "collection", "list", "--format", "json", cwd=installed)
    (place,) = [path for path, there in json.loads(listed).items() if "gpuprov.cluster" in there]
    assert Path(place).is_relative_to(installed / "venv"), "the copy in the wheel, not the checkout"
    assert json.loads(listed)[place]["gpuprov.cluster"]["version"] == __version__
    shown = call(
        installed / "venv/bin/ansible-doc", "--json", "-t", "inventory", "gpuprov.cluster.gpuprov", cwd=installed
    )
    assert "gpuprov.cluster.gpuprov" in json.loads(shown)


@pytest.mark.slow
def test_installed_it_runs_from_another_folder(installed: Path) -> None:
    elsewhere = installed / "elsewhere"
    elsewhere.mkdir()
    python, program = installed / "venv/bin/python", installed / "venv/bin/gpuprov"
    assert call(program, "--version", cwd=elsewhere) == f"gpuprov {__version__}\n"
    assets = {name: Path(path) for name, path in json.loads(call(python, "-c", LOOK_UP, cwd=elsewhere)).items()}
    for name, path in assets.items():
        assert path.is_relative_to(installed), "the copy in the wheel, not the checkout"
        assert files_below(path) == files_below(ROOT / name)


@pytest.mark.slow
def test_installed_it_knows_the_hashes_of_all_that_it_needs(installed: Path) -> None:
    """`host add` brings no others; setuptools writes requirements down in another way than setup.cfg."""
    code = (
        "from gpuprov.provision.own_wheel import own_requirements; from gpuprov.provision.wheel_lock import find_lock; "
        "print(find_lock(own_requirements()).roots_include(own_requirements()))"
    )
    assert call(installed / "venv/bin/python", "-c", code, cwd=installed) == "True\n"


@pytest.mark.slow
def test_installed_the_example_of_a_lab_finds_the_playbook_and_its_roles(installed: Path) -> None:
    call(installed / "venv/bin/gpuprov", "example", "lab", "site", cwd=installed)
    listing = call(
        *(installed / "venv/bin/ansible-playbook", "-i", "hosts.yml", "--list-tasks", "lab.yml"),
        cwd=installed / "site",
    )
    assert "slurm : Read what gpuprov and this role both need to know of Slurm" in listing
    assert "Write one report for each host" in listing


@pytest.mark.slow
def test_installed_every_module_can_be_imported(installed: Path) -> None:
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in sorted(files_below(ROOT / "gpuprov"))
        if name.endswith(".py")
    ]
    code = "; ".join(f"import gpuprov.{name}" if name != "__init__" else "import gpuprov" for name in modules)
    call(installed / "venv/bin/python", "-W", "error", "-c", code, cwd=installed)


def test_a_checkout_is_preferred_to_the_packaged_copy(tmp_path: Path) -> None:
    for folder in ("roles", "gpuprov/_assets/roles"):
        (tmp_path / folder).mkdir(parents=True)
    package = tmp_path / "gpuprov"
    assert get_asset("roles", package=package) == package / "_assets/roles"
    (tmp_path / "setup.cfg").touch()
    assert get_asset("roles", package=package) == tmp_path / "roles"


def test_a_missing_asset_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(HostNotReady) as caught:
        get_asset("roles", package=tmp_path / "gpuprov")
    assert "install gpuprov again" in caught.value.fix


def test_the_list_of_packages_in_setup_cfg_is_complete() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    folders = {path.parent for path in (ROOT / "gpuprov").rglob("*.py")}
    wanted = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assets = {"gpuprov._assets", *(f"gpuprov._assets.{asset}" for asset in ASSETS)}
    assert listed == wanted | assets | {COLLECTION.replace("/", ".")}
