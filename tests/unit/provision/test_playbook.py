"""Real plays of a few tasks: on this machine, and in a node that is a folder of it."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import GpuprovError, HostNotReady, PlaybookError, TimedOut
from gpuprov.core.reporter import Silent
from gpuprov.provision.playbook import Play, RoleUse, TaskFailed, play_environment, render_playbook, run_play
from gpuprov.provision.run import LOG
from gpuprov.provision.targets import Target

if TYPE_CHECKING:
    from gpuprov.provision.run import PlaybookRun

pytestmark = [
    pytest.mark.slow,
    # ansible-runner's pexpect forks from a process that may have threads
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ENTRY = "tests.unit.provision.local_transport:open_transport"
NODE = Target(name="c000", engine="test")


class Heard(Silent):
    def __init__(self) -> None:
        self.states: list[tuple[str, str]] = []

    def node(self, name: str, state: str) -> None:
        self.states.append((name, state))


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where plays put their private folders."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def role(tmp_path: Path, tasks: str) -> Path:
    folder = tmp_path / "roles" / "demo" / "tasks"
    folder.mkdir(parents=True)
    (folder / "main.yml").write_text(tasks, encoding="utf-8")
    return tmp_path / "roles"


def play(roles: Path, target: Target = Target(), **variables: object) -> Play:  # noqa: B008 - frozen
    uses = (RoleUse(name="demo", variables=variables),)
    return Play(roles=uses, targets=(target,), roles_path=roles, transport=ENTRY, silence_s=60)


def test_a_play_reports_its_tasks_and_leaves_nothing(
    tmp_path: Path, scratch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made"
    roles = role(tmp_path, "- name: Make it\n  ansible.builtin.file: {path: '{{ place }}', state: directory}\n")
    heard = Heard()
    before = signal.getsignal(signal.SIGINT)
    first = run_play(play(roles, place=str(made)), reporter=heard)
    second = run_play(play(roles, place=str(made)), reporter=Silent())
    assert made.is_dir()
    assert first.changed == ("demo: Make it",)
    assert second.changed == ()
    assert heard.states == [("localhost", "demo: Make it")]
    assert list(scratch.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_failed_task_is_named_and_its_log_kept(tmp_path: Path, scratch: Path) -> None:
    roles = role(tmp_path, "- name: Break\n  ansible.builtin.command: sh -c 'echo the reason >&2; exit 3'\n")
    with pytest.raises(TaskFailed, match="'demo: Break' failed on localhost") as caught:
        run_play(play(roles), reporter=Silent())
    assert "the reason" in caught.value.evidence
    log = Path(caught.value.evidence.rsplit("log: ", 1)[1])
    assert scratch in log.parents
    assert "the reason" in log.read_text(encoding="utf-8")
    assert str(log) in caught.value.fix


def test_a_play_that_cannot_start_says_what_ansible_said(tmp_path: Path, scratch: Path) -> None:
    roles = role(tmp_path, "- name: Nonsense\n  no.such.module: {}\n")
    with pytest.raises(PlaybookError) as caught:
        run_play(play(roles), reporter=Silent())
    assert "no.such.module" in caught.value.evidence
    assert str(scratch) in caught.value.evidence


def test_a_full_disk_that_ends_ansible_is_said_and_keeps_nothing(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(_run: PlaybookRun, folder: Path, _hear: object) -> str:
        log = folder / LOG
        log.parent.mkdir(parents=True)
        log.write_text("Traceback\nOSError: [Errno 28] No space left on device\nthe end\n", encoding="utf-8")
        return "failed"

    monkeypatch.setattr("gpuprov.provision.playbook.run_ansible", die)
    with pytest.raises(HostNotReady, match="disk of this machine is full") as caught:
        run_play(play(role(tmp_path, "[]")), reporter=Silent())
    assert caught.value.evidence == "OSError: [Errno 28] No space left on device"
    assert f"df -h {scratch}" in caught.value.fix
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(("place", "error"), [("$GPUPROV_PLAY/tmp", HostNotReady), ("/srv", TaskFailed)])
@pytest.mark.usefixtures("scratch")
def test_a_task_on_a_full_disk_is_this_machine_s_only_in_the_play_s_folder(
    tmp_path: Path, place: str, error: type[GpuprovError]
) -> None:
    words = f"{place}: No space left on device"
    roles = role(tmp_path, f"- name: Write\n  ansible.builtin.shell: 'echo \"{words}\" >&2; exit 1'\n")
    with pytest.raises(error) as caught:
        run_play(play(roles), reporter=Silent())
    assert "No space left" in caught.value.evidence


def silent_play(tmp_path: Path, tasks: str, *, silence_s: float, target: Target = Target()) -> Play:  # noqa: B008
    roles = role(tmp_path, f"- name: Begin\n  ansible.builtin.debug: {{msg: begun}}\n{tasks}")
    uses = (RoleUse(name="demo"),)
    return Play(roles=uses, targets=(target,), roles_path=roles, transport=ENTRY, silence_s=silence_s)


def test_a_play_that_does_nothing_is_ended_and_says_what_was_done_and_how_to_allow_more(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.provision.run.GRACE_S", 1.0)
    hang = "- name: Hang\n  ansible.builtin.command: sleep 60\n"
    with pytest.raises(TimedOut, match=r"the play did nothing for 4 s, after it had worked for \d+ s") as caught:
        run_play(silent_play(tmp_path, hang, silence_s=4.0), reporter=Silent())
    evidence = caught.value.evidence.splitlines()
    assert evidence[0] == "task: demo: Hang, on localhost"
    assert evidence[1] == "tasks that ended before it: 1, the last of them: demo: Begin"
    assert evidence[2].startswith("last line: TASK [demo : Hang] ***")
    assert Path(evidence[3].removeprefix("log: ")).is_file()
    assert scratch in Path(evidence[3].removeprefix("log: ")).parents
    assert caught.value.fix.endswith("allow more than 4 s of silence: export GPUPROV_SILENCE_S=16")


@pytest.mark.usefixtures("scratch")
def test_a_silent_play_that_has_to_be_killed_is_no_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.provision.run.GRACE_S", -1.0)
    hang = "- name: Hang\n  ansible.builtin.command: sleep 60\n"
    with pytest.raises(TimedOut, match="did nothing for 4 s"):
        run_play(silent_play(tmp_path, hang, silence_s=4.0), reporter=Silent())


@pytest.mark.usefixtures("scratch")
def test_a_task_that_only_looks_again_gives_no_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.provision.run.GRACE_S", 1.0)
    waits = """
- name: Look again
  ansible.builtin.command: /bin/false
  register: seen
  until: seen.rc == 0
  retries: 100
  delay: 1
"""
    with pytest.raises(TimedOut, match="did nothing for 6 s") as caught:
        run_play(silent_play(tmp_path, waits, silence_s=6.0), reporter=Silent())
    assert "task: demo: Look again" in caught.value.evidence
    assert "RETRYING" in caught.value.evidence


@pytest.mark.usefixtures("scratch")
def test_a_task_that_works_may_take_as_long_as_it_takes(tmp_path: Path) -> None:
    busy = """
- name: Work
  ansible.builtin.shell: 'end=$(($(date +%s) + 12)); while [ "$(date +%s)" -lt $end ]; do :; done'
- name: Go on
  ansible.builtin.command: sleep 1
  loop: [1, 2, 3, 4, 5, 6]
"""
    assert run_play(silent_play(tmp_path, busy, silence_s=4.0), reporter=Silent()).changed[-1] == "demo: Go on"


@pytest.mark.usefixtures("scratch")
def test_what_works_in_a_node_is_seen_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task's own command does nothing on this machine: it stands for one that the engine runs."""
    monkeypatch.setattr("gpuprov.provision.run.GRACE_S", 1.0)
    monkeypatch.setenv("GPUPROV_TEST_ROOT", str(tmp_path))
    line = "/proc/7/stat:7 (pip) S 1 7 7 0 -1 0 0 0 0 0 %s 0 0 0 20 0 1 0 99 0"
    (tmp_path / "does").write_text(f"echo 1; printf '{line}\\n' \"$(($(date +%s) * 100 % 1000000))\"\n")
    waits = "- name: Wait for it\n  ansible.builtin.command: sleep 12\n"
    run_play(silent_play(tmp_path, waits, silence_s=4.0, target=NODE), reporter=Silent())
    assert "c000: ['sh', '-c']" in (tmp_path / "looks").read_text()
    (tmp_path / "does").write_text(f"echo 1; printf '{line}\\n' 4711\n")
    with pytest.raises(TimedOut):
        run_play(silent_play(tmp_path / "idle", waits, silence_s=4.0, target=NODE), reporter=Silent())


@pytest.mark.usefixtures("scratch")
def test_a_node_is_changed_through_the_transport(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPROV_TEST_ROOT", str(tmp_path))
    copied, fetched = tmp_path / "copied", tmp_path / "fetched"
    roles = role(
        tmp_path,
        f"""
- name: Copy text
  ansible.builtin.copy: {{content: "hello ü\\n", dest: {copied}, mode: "0640"}}
- name: Run a command with quotes
  ansible.builtin.shell: printf '%s' "it's $((1 + 1))"
  register: said
  changed_when: false
- name: Check what it said
  ansible.builtin.assert: {{that: said.stdout == "it's 2"}}
- name: Fetch it
  ansible.builtin.fetch: {{src: {copied}, dest: {fetched}, flat: true}}
""",
    )
    first = run_play(play(roles, NODE), reporter=Silent())
    second = run_play(play(roles, NODE), reporter=Silent())
    assert copied.read_text(encoding="utf-8") == fetched.read_text(encoding="utf-8") == "hello ü\n"
    assert copied.stat().st_mode & 0o777 == 0o640
    assert first.changed == ("demo: Copy text", "demo: Fetch it")
    assert second.changed == ()
    assert "c000: " in (tmp_path / "commands").read_text(encoding="utf-8")
    assert (tmp_path / "closed").exists()


@pytest.mark.usefixtures("scratch")
def test_an_engine_that_refuses_makes_the_node_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPROV_TEST_ROOT", str(tmp_path))
    roles = role(tmp_path, "- name: Try\n  ansible.builtin.raw: 'true'\n")
    with pytest.raises(TaskFailed, match="cannot reach gone") as caught:
        run_play(play(roles, Target(name="gone", engine="test")), reporter=Silent())
    assert "there is no node gone" in caught.value.evidence


@pytest.mark.usefixtures("scratch")
def test_roles_of_two_folders_are_applied_and_the_first_folder_comes_first(tmp_path: Path) -> None:
    ours = role(tmp_path, "- name: Ours\n  ansible.builtin.file: {path: '{{ place }}', state: touch}\n")
    for name in ("demo", "my.motd"):
        (tmp_path / "theirs" / name / "tasks").mkdir(parents=True)
        tasks = f"- name: Theirs\n  ansible.builtin.copy: {{content: x, dest: '{tmp_path}/{name}'}}\n"
        (tmp_path / "theirs" / name / "tasks/main.yml").write_text(tasks)
    uses = (RoleUse(name="demo", variables={"place": str(tmp_path / "made")}), RoleUse(name="my.motd"))
    both = Play(roles=uses, targets=(Target(),), roles_path=ours, more_roles_path=tmp_path / "theirs", silence_s=60)
    assert run_play(both, reporter=Silent()).changed == ("demo: Ours", "my.motd: Theirs")
    assert (tmp_path / "my.motd").read_text() == "x"


@pytest.mark.usefixtures("scratch")
def test_a_role_beside_the_folder_is_not_found_as_a_dependency(tmp_path: Path) -> None:
    roles = role(tmp_path, "[]")
    (tmp_path / "copies/motd/meta").mkdir(parents=True)
    (tmp_path / "copies/motd/meta/main.yml").write_text("dependencies: [absent]\n")
    play = Play(
        roles=(RoleUse(name="motd"),),
        targets=(Target(),),
        roles_path=roles,
        more_roles_path=tmp_path / "copies",
        silence_s=60,
    )
    with pytest.raises(PlaybookError) as caught:
        run_play(play, reporter=Silent())
    assert "the role 'absent' was not found" in caught.value.evidence
    assert f"{tmp_path}/copies/motd/" in caught.value.evidence


def test_the_playbook_holds_each_role_with_its_own_variables(tmp_path: Path) -> None:
    uses = (RoleUse(name="base", variables={"a": 1}), RoleUse(name="base", tasks="clean"))
    (document,) = render_playbook(Play(roles=uses, targets=(Target(),), roles_path=tmp_path))
    assert document["tasks"] == [
        {
            "name": "Apply role base",
            "ansible.builtin.import_role": {"name": "base", "tasks_from": tasks},
            "vars": variables,
        }
        for tasks, variables in (("main", {"a": 1}), ("clean", {}))
    ]


def test_programs_of_our_environment_come_first_and_the_users_settings_do_not_count(tmp_path: Path) -> None:
    import sys

    environment = play_environment(play(tmp_path), folder=tmp_path, path="/usr/bin")
    assert environment["PATH"].split(":") == [str(Path(sys.executable).parent), "/usr/bin"]
    assert Path(environment["ANSIBLE_CONFIG"]).parent == tmp_path
