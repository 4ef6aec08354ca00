"""The sh front: which command lines and bundles reach Python, and what it hands on."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from gpuprov.assets import PACKAGE
from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
BODY = (PACKAGE / "runtime/front.sh").read_text()
PLAIN = {"process": {"env": ["PATH=/bin"]}}
ASKING = {"process": {"env": ["HOUDINI_GPU_REQUESTED=1"]}}


@dataclass
class Stage:
    """A front between stand-ins for runc and Python, which write down how they were called."""

    folder: Path

    def prepare(self, *, status: int = 0, name: str = "gpuprov-runtime", touch: str = "", judged: str = "") -> None:
        self._script("runc", f'printf "%s\\n" "$@" >{self.folder}/runc.args')
        self._script("python", f'env >{self.folder}/python.env; printf "%s\\n" "$@" >{self.folder}/python.args', status)
        head = {"FOLDER": "", "LIBRARY": "/lib-of-it", "LEASES": "leases", "RUNC": "runc", "PYTHON": "python"}
        lines = [f"{key}={self.folder}/{place}" for key, place in {**head, "REMOVALS": "removals"}.items()]
        lines += ["AFTER=0", f"TOUCH='{touch}'", f"EXEC='{judged}'"]
        front = self.folder / name
        front.write_text("\n".join(["#!/bin/sh", *lines, BODY]))
        front.chmod(0o755)
        self.front = str(front)

    def _script(self, name: str, body: str, status: int = 0) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\nexit {status}\n")
        path.chmod(0o755)

    def bundle(self, name: str, spec: object) -> Path:
        bundle = self.folder / name
        bundle.mkdir(exist_ok=True)
        (bundle / "config.json").write_text(json.dumps(spec))
        return bundle

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/bin:/bin", **variables}
        return subprocess.run(
            [self.front, *words], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def said(self, name: str) -> list[str] | None:
        path = self.folder / f"{name}.args"
        return path.read_text().splitlines() if path.exists() else None


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    one = Stage(tmp_path)
    one.prepare()
    return one


@pytest.mark.parametrize(
    "words",
    [
        ("create", "--bundle", "asking", "id"),
        ("create", "--bundle=asking", "id"),
        ("create", "-b", "asking", "id"),
        ("create", "-b=asking", "id"),
        ("--root", "/r", "--log", "/l", "--log-format", "json", "create", "--bundle", "asking", "id"),
        ("--root=/r", "--log=/l", "create", "--no-pivot", "--bundle", "asking", "id"),
        ("--debug", "--systemd-cgroup", "create", "--console-socket", "s", "--bundle", "asking", "id"),
        ("--bundle", "asking", "create", "id"),
        ("--rootless", "create", "create", "--bundle", "asking", "id"),
    ],
)
def test_a_create_of_a_bundle_that_asks_reaches_python(stage: Stage, words: tuple[str, ...]) -> None:
    stage.bundle("asking", ASKING)
    assert stage.run(*words).returncode == 0
    arguments = stage.said("python")
    assert arguments is not None
    assert arguments[:2] == ["-I", "-S"]
    assert (arguments[6], arguments[8]) == ("asking", "id")
    assert stage.said("runc") == [*words]


@pytest.mark.parametrize(
    "words",
    [
        ("state", "id"),
        ("features",),
        ("--version",),
        ("kill", "create"),
        ("delete", "--force", "create"),
        ("run", "--bundle", "asking", "id"),
        ("start", "--bundle", "create", "id"),
        ("--log", "create", "state", "id"),
        ("exec", "--process", "p.json", "id"),
        ("create", "--bundle", "plain", "id"),
        ("create", "--bundle", "absent", "id"),
        ("unknown-verb", "create"),
        (),
    ],
)
def test_everything_else_is_handed_to_runc_as_it_came(stage: Stage, words: tuple[str, ...]) -> None:
    stage.bundle("asking", ASKING)
    stage.bundle("plain", PLAIN)
    assert stage.run(*words).returncode == 0
    assert stage.said("python") is None
    assert stage.said("runc") == [*(words or ("",))]


def test_a_bundle_may_be_called_create(stage: Stage) -> None:
    stage.bundle("create", ASKING)
    stage.run("create", "--bundle", "create", "id")
    assert stage.said("python") is not None


@pytest.mark.parametrize(
    ("spec", "named", "default"),
    [
        (PLAIN, False, False),
        (ASKING, True, True),
        ({"process": {"env": ["HOUDINI_ENABLED=true"]}}, True, True),
        ({"process": {"env": ["GPUPROV_GPUS=1"]}}, True, True),
        ({"annotations": {"gpuprov.gpus": "1"}}, True, True),
        ({"hooks": {"prestart": [{"path": "/usr/bin/nvidia-container-runtime-hook"}]}}, True, True),
        ({"process": {"env": ["NVIDIA_VISIBLE_DEVICES=all"]}}, True, False),
        ({"process": {"env": ["X=HOUDINI_ENABLED=true"]}}, False, False),
        ({"process": {"env": ["X=a\nGPUPROV_GPUS=4\n"]}}, False, False),
        ({"process": {"env": [*map("V{}=x".format, range(10_000)), "GPUPROV_GPUS=4"]}}, True, True),
    ],
)
def test_what_images_set_themselves_counts_only_where_the_runtime_was_named(
    stage: Stage, spec: dict[str, object], *, named: bool, default: bool
) -> None:
    stage.bundle("b", spec)
    stage.run("create", "--bundle", "b", "id")
    assert (stage.said("python") is not None) == named
    (stage.folder / "python.args").unlink(missing_ok=True)
    stage.prepare(name="gpuprov-runtime-default")
    stage.run("create", "--bundle", "b", "id")
    assert (stage.said("python") is not None) == default


def test_a_runc_that_a_package_has_moved_is_found(stage: Stage) -> None:
    (stage.folder / "elsewhere").mkdir()
    (stage.folder / "runc").rename(stage.folder / "elsewhere/runc")
    stage.bundle("plain", PLAIN)
    done = stage.run("create", "--bundle", "plain", "id", PATH=f"{stage.folder}/elsewhere:/usr/bin:/bin")
    assert (done.returncode, stage.said("runc")) == (0, ["create", "--bundle", "plain", "id"])


def test_python_inherits_no_variable_and_runc_all(stage: Stage) -> None:
    stage.bundle("asking", ASKING)
    stage.run("create", "--bundle", "asking", "id", PYTHONPATH="/evil", PYTHONSTARTUP="/evil", HOME="/evil", FOO="bar")
    inherited = (stage.folder / "python.env").read_text()
    assert "evil" not in inherited
    assert "FOO" not in inherited


@pytest.mark.parametrize(("status", "lines"), [(3, 0), (1, 1), (139, 1)])
def test_a_refusal_is_told_once_and_a_crash_as_well(stage: Stage, status: int, lines: int) -> None:
    stage.prepare(status=status)
    stage.bundle("asking", ASKING)
    log = stage.folder / "log.json"
    done = stage.run("--log", str(log), "create", "--bundle", "asking", "id")
    assert done.returncode == 1
    assert stage.said("runc") is None
    told = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    assert len(told) == lines
    assert all(f"exit {status}" in one["msg"] and one["level"] == "error" for one in told)


def test_without_python_a_container_that_asks_for_nothing_starts_all_the_same(stage: Stage) -> None:
    (stage.folder / "python").unlink()
    stage.bundle("plain", PLAIN)
    stage.bundle("asking", ASKING)
    assert stage.run("create", "--bundle", "plain", "id").returncode == 0
    refused = stage.run("create", "--bundle", "asking", "id")
    assert refused.returncode == 1
    assert "gpuprov gate check" in refused.stderr


def test_delete_removes_the_record_of_what_is_gone(stage: Stage) -> None:
    leases = stage.folder / "leases"
    leases.mkdir()
    for name in ("one", "two"):
        (leases / name).write_text(json.dumps({"state": f"/run/runc/{name}"}))
    stage.run("delete", "--force", "one")
    assert [path.name for path in leases.iterdir()] == ["two"]
    stage.run("delete", "../leases/two")
    stage.run("--root", "/run/other", "delete", "two")
    assert [path.name for path in leases.iterdir()] == ["two"]
    stage.run("--root", "/run/runc", "delete", "two")
    assert not [*leases.iterdir()]


def test_the_state_of_crun_lies_elsewhere_unless_the_engine_says_where(stage: Stage) -> None:
    stage.bundle("asking", ASKING)
    for name, words, root in (
        ("runc", (), "/run/runc"),
        ("crun", (), "/run/crun"),
        ("crun", ("--root", "/r"), "/r"),
    ):
        front = stage.folder / "gpuprov-runtime"
        text = front.read_text()
        (stage.folder / "crun").write_text((stage.folder / "runc").read_text())
        (stage.folder / "crun").chmod(0o755)
        front.write_text(text.replace(f"RUNC={stage.folder}/runc", f"RUNC={stage.folder}/{name}"))
        stage.run(*words, "create", "--bundle", "asking", "id")
        arguments = stage.said("python")
        assert arguments is not None
        assert arguments[7] == root
        front.write_text(text)


def test_a_noted_container_is_left_to_a_process_of_its_own_once_it_is_deleted(stage: Stage) -> None:
    removals = stage.folder / "removals"
    removals.mkdir()
    for name in ("one", "two"):
        (removals / name).write_text(f"2026-01-01T00:00:00 /run/runc/{name}\n")
    assert stage.run("--root", "/run/other", "delete", "one").returncode == 0
    assert stage.run("delete", "../removals/one").returncode == 0
    assert stage.run("delete", "three").returncode == 0
    assert (stage.said("python"), len([*removals.iterdir()])) == (None, 2)
    assert stage.run("--root", "/run/runc", "delete", "--force", "one").returncode == 0
    seen = Wait(what="its process", timeout_s=10, fix="ps", interval_s=0.02)
    arguments = seen.until(lambda: stage.said("python") or [], lambda found: len(found) == 8)
    assert (arguments[2].endswith("gpuprov/runtime/remove.py"), arguments[5:7]) == (
        True,
        ["one", "2026-01-01T00:00:00"],
    )
    assert [path.name for path in removals.iterdir()] == ["two"]


def test_a_failed_delete_leaves_the_note_and_a_start_takes_it_away(stage: Stage) -> None:
    note = stage.folder / "removals/one"
    note.parent.mkdir()
    note.write_text("2026-01-01T00:00:00 /run/runc/one\n")
    (stage.folder / "runc").write_text("#!/bin/sh\nexit 1\n")
    assert stage.run("--root", "/run/runc", "delete", "one").returncode == 1
    assert note.exists()
    stage.bundle("plain", PLAIN)
    stage.run("create", "--bundle", "plain", "../removals/one")
    assert note.exists()
    stage.run("create", "--bundle", "plain", "one")
    assert not note.exists()


def test_a_policy_for_everything_hands_each_create_to_python_and_nothing_else(stage: Stage) -> None:
    stage.bundle("plain", PLAIN)
    for touch, reached in (("requests", False), ("everything", True)):
        stage.prepare(name="gpuprov-runtime-default", touch=touch)
        stage.run("create", "--bundle", "plain", "id")
        assert (stage.said("python") is not None) == reached
    arguments = stage.said("python")
    assert arguments is not None
    assert arguments[10:] == ["0", "everything", ""]
    (stage.folder / "python.args").unlink()
    stage.run("start", "id", TOUCH="everything")
    assert stage.said("python") is None


@pytest.mark.parametrize(
    ("capabilities", "judged", "reached"),
    [
        (["CAP_CHOWN", "CAP_AUDIT_WRITE"], "1", False),
        (["CAP_CHOWN", "CAP_SYS_ADMIN"], "1", True),
        (["CAP_CHOWNER"], "1", True),
        (["CAP_SYS_ADMIN"], "", False),
        ([], "1", False),
    ],
)
def test_a_process_that_enters_is_judged_if_it_has_more_than_usual(
    stage: Stage, capabilities: list[str], judged: str, *, reached: bool
) -> None:
    stage.prepare(judged=judged)
    process = stage.folder / "process"
    process.write_text(json.dumps({"capabilities": {"bounding": capabilities}}))
    words = ("--root", "/r", "exec", "--process", str(process), "--detach", "--pid-file", "p", "id")
    assert stage.run(*words).returncode == 0
    arguments = stage.said("python")
    assert (arguments is not None) == reached
    assert stage.said("runc") == [*words]
    if arguments is not None:
        assert (arguments[7:9], arguments[12]) == (["/r", "id"], str(process))
