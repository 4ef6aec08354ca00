from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from gpuprov.cli.main import main, root
from gpuprov.cli.verbs import VERBS

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[3]
HEAVY = ("pylxd", "docker", "ansible", "ansible_runner", "pynvml", "numba", "requests", "yaml", "jinja2", "logging")


def find(path: str) -> click.Command:
    command: click.Command = root()
    for name in path.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


@pytest.mark.parametrize("path", VERBS)
def test_every_verb_can_be_loaded_and_takes_the_common_options(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = {option for parameter in find(path).params for option in parameter.opts}
    assert {"-q", "-v", "--json"} <= options
    assert main([*path.split(), "--help"]) == 0
    assert f"gpuprov {path}" in capsys.readouterr().out


def test_a_verb_says_more_than_its_line_in_the_list() -> None:
    for path, verb in VERBS.items():
        assert find(path).help, path
        assert verb.help.endswith("."), path
        assert len(verb.help) < 80, path


def test_every_verb_is_listed_where_it_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    for path, verb in VERBS.items():
        parent, _, name = path.rpartition(" ")
        assert main([*parent.split(), "--help"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert any(line.split()[:1] == [name] and verb.help.split()[0] in line for line in lines)


@pytest.mark.parametrize("arguments", [["--help"], ["host", "--help"], ["--version"]])
def test_help_loads_no_verb_and_no_sdk(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from gpuprov.cli.main import main\n"
        f"main({arguments!r})\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        f"verbs = [name for name in {[verb.module for verb in VERBS.values()]!r} if name in sys.modules]\n"
        "sys.exit(f'loaded: {heavy + verbs}' if heavy + verbs else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# What runs when they are typed, on a machine whose one engine has nothing, and no other hosts are known
BRIEF = """
import sys
from gpuprov.cli.main import main
from gpuprov.machine import survey
from gpuprov.machine.local import LocalHost

class Empty:
    name = "lxd"
    def __getattr__(self, _name):
        return lambda *_: None if _name.startswith("find") or _name == "disk" else ()

door = survey.EngineDoor(name="lxd", open=Empty, installed=lambda: True)
LocalHost.engines = property(lambda _host: (door,))
for verb in sys.argv[1].split(","):
    main(["-q", *verb.split()])
    loaded = [name for name in sys.argv[2:] if name in sys.modules]
    if loaded:
        sys.exit(f"{verb} loaded {loaded}")
"""


NEVER = (
    *("fleet.find_hosted", "fleet.member.serve", "lifecycle.cluster_up", "cluster.build_image"),
    *("machine.overlay.end", "link.connection", "machine.links", "provision.playbook", "verify.probe"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verbs", "never"),
    [
        ("list,show c000,gpus,jobs", NEVER),
        ("list", (*NEVER, "roles.registry")),
        ("cluster status", (*NEVER, "roles.work.job_controller", "spec.load", "spec.validate")),
    ],
)
def test_verbs_that_only_show_load_neither_stories_that_change_nor_those_over_hosts(
    tmp_path: Path, verbs: str, never: tuple[str, ...]
) -> None:
    """They are typed all day: a tenth of a second of imports is seen."""
    require_unloaded(tmp_path, verbs, *HEAVY[:-1], *own_modules(never))


@pytest.mark.slow
def test_verbs_that_change_nodes_of_this_machine_load_nothing_of_other_hosts(tmp_path: Path) -> None:
    one = "start c000,stop c000,rm c000,snapshot c000 kept,restore c000 kept,clone c000 c001,create-node c000 --gpus 0"
    over_hosts = ("find_hosted", "found_nodes", "nodes_work", "node_home", "node_there", "member.serve")
    require_unloaded(tmp_path, one, *own_modules(f"fleet.{name}" for name in over_hosts))


def own_modules(names: Iterable[str]) -> list[str]:
    """Of gpuprov; they are there."""
    found = [f"gpuprov.{name}" for name in names]
    assert all(map(find_spec, found))
    return found


def require_unloaded(home: Path, verbs: str, *never: str) -> None:
    argv = [sys.executable, "-c", BRIEF, verbs, *never]
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "GPUPROV_SIMULATED_GPUS": "1"}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "_GPUPROV_COMPLETE" in capsys.readouterr().out


def test_the_script_completes_verbs() -> None:
    code = (
        "import atexit, sys; from gpuprov.cli.main import main; sys.argv = ['gpuprov']\n"
        "atexit.register(lambda: print(*(n for n in sys.modules if n in ('gpuprov.cli.cluster', 'msgspec'))))\n"
        "sys.exit(main([]))"
    )
    environment = {"_GPUPROV_COMPLETE": "bash_complete", "COMP_WORDS": "gpuprov clu", "COMP_CWORD": "1", "HOME": "/"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["plain,cluster"]
