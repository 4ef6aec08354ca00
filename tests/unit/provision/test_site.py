"""Anybody's playbook, run for real on this machine: results by host, nothing on our streams, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from gpuprov.core.errors import PlaybookError
from gpuprov.core.reporter import Silent
from gpuprov.provision import site as module
from gpuprov.provision.events import HostStats, TaskEvent
from gpuprov.provision.run import MARK
from gpuprov.provision.site import HostsFailed, Site, SiteResult, run_site, site_environment, summarise_site

HOSTS = """\
all:
  hosts:
    a: {ansible_connection: local}
    b: {ansible_connection: local}
    c: {ansible_connection: gpuprov.cluster.gpuprov, gpuprov_engine: none}
"""


class Heard(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where plays put their private folders."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def site(tmp_path: Path, tasks: str, *arguments: str, hosts: str = HOSTS) -> Site:
    (tmp_path / "hosts.yml").write_text(hosts)
    body = "".join(f"    {line}\n" for line in tasks.splitlines())
    (tmp_path / "site.yml").write_text(f"- name: Try\n  hosts: all\n  gather_facts: false\n  tasks:\n{body}")
    variables = ("-e", f"ansible_python_interpreter={sys.executable}")
    return Site(
        playbook=tmp_path / "site.yml",
        inventories=(str(tmp_path / "hosts.yml"),),
        arguments=(*variables, *arguments),
    )


def by_host(result: SiteResult) -> dict[str, str]:
    return {host.stats.host: host.status for host in result.hosts}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_host_that_is_not_reached_is_named_and_the_others_go_on(
    tmp_path: Path, scratch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = "- name: Make\n  ansible.builtin.copy: {content: 'x\n', dest: '%s-{{ inventory_hostname }}', mode: '0600'}"
    tasks = made.replace("\n', dest", "', dest") % (tmp_path / "made")
    heard = Heard()
    result = run_site(site(tmp_path, tasks, "--diff"), reporter=heard)
    assert by_host(result) == {"a": "changed", "b": "changed", "c": "unreachable"}
    assert sorted(event.host for event in result.changes) == ["a", "b"]
    assert "+x" in result.changes[0].diff
    assert (tmp_path / "made-a").exists()
    assert "play: Try" in heard.notes
    assert any(note.startswith("a: Make\n") and "+x" in note for note in heard.notes)
    (warning,) = heard.warnings
    assert warning.startswith("c unreachable: Make: ")
    error = HostsFailed(result)
    assert error.what == "1 of 3 hosts failed: c"
    assert "unknown engine 'none'" in error.evidence
    assert (error.exit_code, error.result) == (5, result)
    assert result.log is not None
    assert scratch in result.log.parents
    assert "UNREACHABLE" in result.log.read_text()
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_check_changes_nothing_and_a_run_that_ends_well_leaves_nothing(tmp_path: Path, scratch: Path) -> None:
    made = tmp_path / "made"
    tasks = f"- name: Make\n  ansible.builtin.file: {{path: {made}, state: directory, mode: '0700'}}"
    result = run_site(site(tmp_path, tasks, "--limit", "a", "--check"), reporter=Silent())
    assert by_host(result) == {"a": "changed"}
    assert result.log is None
    assert not made.exists()
    assert list(scratch.iterdir()) == []


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    ("arguments", "hosts", "said"),
    [
        (("--limit", "nobody"), HOSTS, "leaves us with no hosts"),
        ((), "all:\n  hosts:\n    a: {ansible_connection: local}\n    a: {}\n", "duplicate mapping key 'a'"),
        ((), "all: {}\n", "no hosts matched"),
    ],
)
@pytest.mark.usefixtures("scratch")
def test_a_playbook_that_runs_nowhere_is_an_error_in_ansibles_own_words(
    tmp_path: Path, arguments: tuple[str, ...], hosts: str, said: str
) -> None:
    with pytest.raises(PlaybookError) as caught:
        run_site(site(tmp_path, "- ansible.builtin.ping:", *arguments, hosts=hosts), reporter=Silent())
    assert said in caught.value.evidence
    assert caught.value.exit_code == 5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_name_that_no_inventory_has_is_a_warning_in_three_parts_and_the_others_go_on(
    tmp_path: Path, scratch: Path
) -> None:
    heard = Heard()
    result = run_site(site(tmp_path, "- ansible.builtin.debug:", "--limit", "a,nobody"), reporter=heard)
    assert by_host(result) == {"a": "ok"}
    (warning,) = heard.warnings
    what, evidence, fix = warning.splitlines()
    assert what == "Could not match supplied host pattern, ignoring: nobody"
    assert evidence.startswith("evidence: ansible-playbook -i ")
    assert "--limit a,nobody" in evidence
    assert fix.startswith("fix: gpuprov inventory --graph")
    assert list(scratch.iterdir()) == []


def test_a_run_that_breaks_leaves_no_folder(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "run_ansible", full)
    with pytest.raises(OSError, match="No space left"):
        run_site(site(tmp_path, "- ansible.builtin.debug:"), reporter=Silent())
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_wrong_vault_password_is_said_with_its_fix(tmp_path: Path, scratch: Path) -> None:
    del scratch
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(name)
    (tmp_path / "group_vars").mkdir()
    secret = tmp_path / "group_vars" / "all.yml"
    secret.write_text("word: hidden\n")
    vault = [str(Path(sys.executable).parent / "ansible-vault"), "encrypt", str(secret)]
    subprocess.run([*vault, "--vault-password-file", str(tmp_path / "right")], check=True, capture_output=True)
    task = "- name: Say\n  ansible.builtin.debug: {msg: '{{ word }}'}"
    with pytest.raises(PlaybookError) as caught:
        run_site(
            site(tmp_path, task, "--limit", "a", "--vault-password-file", str(tmp_path / "wrong")), reporter=Silent()
        )
    assert "Decryption failed" in caught.value.evidence
    assert "--vault-password-file" in caught.value.fix
    right = site(tmp_path, task, "--limit", "a", "--vault-password-file", str(tmp_path / "right"))
    assert by_host(run_site(right, reporter=Silent())) == {"a": "ok"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_an_interrupt_ends_ansible_its_forks_and_what_they_started(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.provision.run.GRACE_S", 1.0)
    begun = tmp_path / "begun"
    line = f"touch {begun}-{{{{ inventory_hostname }}}}; trap '' INT; exec sleep 300"
    run = site(tmp_path, f"- name: Hang\n  ansible.builtin.shell: {line}", "--limit", "a,b")

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("begun-*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_site(run, reporter=Silent())
    assert len(list(tmp_path.glob("begun-*"))) == 2
    assert signal.getsignal(signal.SIGINT) is before
    marked = [path for path in Path("/proc").glob("[0-9]*/environ") if f"{MARK}={scratch}".encode() in read(path)]
    assert marked == []
    assert list(scratch.iterdir()) == []


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def stats(host: str, **counts: int) -> HostStats:
    return HostStats(**{"host": host, "ok": 0, "changed": 0, "failed": 0, "unreachable": 0, "skipped": 0, **counts})  # type: ignore[arg-type]


def test_a_failure_that_was_rescued_is_no_problem_of_its_host() -> None:
    failed = TaskEvent(kind="failed", host="a", role="", task="Try", message="no")
    result = summarise_site([stats("a", ok=2), stats("b", failed=1)], [failed], log=None)
    assert by_host(result) == {"a": "ok", "b": "failed"}
    assert result.hosts[0].problem is None


def test_the_users_settings_count_and_the_collection_is_found_from_any_folder() -> None:
    ours = str(Path(module.__file__).parents[2])
    given = {"PATH": "/usr/bin", "PYTHONPATH": "/elsewhere", "ANSIBLE_CONFIG": "/mine.cfg"}
    editable = site_environment(given, search_path=["/site-packages"])
    assert editable["PYTHONPATH"] == f"{ours}:/elsewhere"
    assert "ANSIBLE_CONFIG" not in editable
    assert editable["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"
    assert "PYTHONPATH" not in site_environment(given, search_path=[ours])
