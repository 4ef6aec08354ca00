"""What root in a node can do to make gpuprov hang, believe or show what it must not: a table, and a node to try it in.

Each kind of misbehaviour is lines that root runs in the node, lines that undo them, and the verbs that meet it.
"""

from __future__ import annotations

import re
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.e2e.conftest import Finished, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov

ENGINES = ("lxd", "docker")
CATALOGUE = frozenset({0, 1, 2, 3, 4, 5, 6})
LIMIT_S = 120.0  # of a verb; those that wait for a node end well before
MOST_SHOWN = 5_000_000  # characters that a verb prints: `logs` shows 4 MB of a console
SETTLE_S = 30.0  # for a node that was started again to have its addresses
ESCAPES = ("\x1b", "\x9b", "\x07", "\u202e")
KEPT_SHELL = "/root/kept-sh"  # of the attacker, who may have taken the node's own away
KEY = "/etc/ssh/ssh_host_ed25519_key.pub"
MANAGED = "/etc/environment"  # gpuprov keeps it as it should be, on both engines
HOSTS = "/etc/hosts"
MUNGE_KEY = "/etc/munge/munge.key"
SLURM_LOG = "/var/log/slurm/slurmctld.log"
KEYS = "/root/.ssh/authorized_keys"
_PRINT_ESCAPES = r"printf '\033[2J\033]0;owned\007\302\233\342\200\256'"
_FORGED = re.compile(r"^( ? ?fix|error): forged", re.MULTILINE)
_IGNORE = """#!/root/kept-python
import signal, time
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except OSError: pass
time.sleep(100000)
"""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of misbehaviour.

    Attributes:
        lines: A shell script that root runs in the node.
        verbs: What is tried then; {node}, {other}, {copy}, {cluster}, {spec}, {bundle} and {which} are filled in.
        undo: A shell script that takes it back.
        engines: Where it is possible.
        role: Of the cluster; the node of one with `slurm` has its controller.
        restart: Whether the node is started anew afterwards.
        sample: Whether `make test` tries it; the others are long.
        codes: Exit codes besides those of the catalogue: of ssh and of the engines' own clients.
        within_s: How long the attacker needs.
    """

    name: str
    lines: str
    verbs: tuple[str, ...]
    undo: str = ""
    engines: tuple[str, ...] = ENGINES
    role: str = "plain"
    restart: bool = False
    sample: bool = False
    codes: frozenset[int] = field(default_factory=frozenset)
    within_s: float = 20.0


SSH = "ssh {which} {node} true"
PLAN = "cluster plan -f {spec}"
UP = "cluster up -f {spec} --no-verify"
LOGS = "logs {node} {which}"
VERIFY = "verify {node} --cluster {cluster} {which}"
SMOKE = "smoke matmul {node} --cluster {cluster} {which}"
BUNDLE = "bundle {bundle} {which}"
STATUS = "cluster status {cluster} {which}"
SHOW = "show {node} {which}"
INVENTORY = "inventory --host {node}"
STOP = "stop {node} {which}"
START = "start {node} {which}"
SNAPSHOT = "snapshot {node} {copy} {which}"
RESTORE = "restore {node} {copy} {which}"
CLONE = "clone {node} {copy} {which}"
REMOVE_COPY = "rm {copy} {which}"
STOP_OTHER = "stop {other} {which}"
FORCE_OTHER = "stop {other} --force {which}"
START_OTHER = "start {other} {which}"
_SSH_CODES = frozenset({255})


def _key(name: str, lines: str, *, sample: bool = False) -> Kind:
    """The public half of the node's ssh host key is something else."""
    return Kind(
        name=f"host key: {name}",
        lines=f"mv {KEY} /root/kept; {lines}",
        undo=f"rm -rf {KEY}; mv /root/kept {KEY}",
        verbs=(SSH,),
        sample=sample,
    )


def _managed(name: str, lines: str, *, sample: bool = False) -> Kind:
    """A file that gpuprov keeps as it should be is something else; it is put right where that is possible."""
    return Kind(
        name=f"managed file: {name}",
        lines=f"rm -rf {MANAGED}; {lines}",
        undo=f"rm -rf {MANAGED}",
        verbs=(PLAN, UP),
        sample=sample,
    )


def _keys(name: str, lines: str) -> Kind:
    """What ssh reads to let somebody in is something else."""
    return Kind(
        name=f"authorized keys: {name}",
        lines=f"rm -rf /root/.ssh; mkdir -m 700 /root/.ssh; {lines}",
        undo="rm -rf /root/.ssh",
        verbs=(SSH,),
        codes=_SSH_CODES,
    )


def _program(program: str, name: str, script: str, *verbs: str, first: str = ":", sample: bool = False) -> Kind:
    """A program of the node that gpuprov runs is replaced."""
    return Kind(
        name=f"{program}: {name}",
        lines=(
            f'{first}; path=$(command -v {program}); cp -a "$(readlink -f "$path")" /root/kept\n'
            f"cat >/root/fake <<'END'\n{script}\nEND\nchmod 755 /root/fake; cp /root/fake \"$path.fake\"\n"
            f'mv -f "$path.fake" "$(readlink -f "$path")"'
        ),
        undo=(
            f"path=$(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; command -v {program})\n"
            f'{KEPT_SHELL} -c \'/root/kept-mv -f /root/kept "$(/root/kept-readlink -f "$0")"\' "$path"'
        ),
        verbs=verbs,
        sample=sample,
    )


def _slurm(program: str, name: str, script: str, *verbs: str, sample: bool = False) -> Kind:
    """One of Slurm's programs is replaced in the controller's node, which is asked before others are stopped."""
    return replace(_program(program, name, script, *verbs, sample=sample), role="slurm")


def _kept(
    path: str, name: str, lines: str, *verbs: str, role: str = "slurm", engines: tuple[str, ...] = ENGINES
) -> Kind:
    """A file of the node is something else, and itself again afterwards."""
    return Kind(
        name=name,
        lines=f"mv {path} /root/kept; {lines}",
        undo=f"rm -rf {path}; mv /root/kept {path}",
        verbs=verbs,
        role=role,
        engines=engines,
    )


_HANGS = f"#!{KEPT_SHELL}\nexec /root/ignore"
_FLOODS = f"#!{KEPT_SHELL}\nexec /root/kept-yes"
_DEEP = f"#!{KEPT_SHELL}\n/root/kept-yes '[' | head -n 3000000 | tr -d '\\n'"
_MILLION = "python3 -c 'import os\nfor n in range(1000000): os.close(os.open(str(n), os.O_CREAT | os.O_WRONLY))'"
_FORGES = r"printf '\nfix: forged\n  fix: forged\nerror: forged\n'"
_SHOWS_ESCAPES = f"#!{KEPT_SHELL}\n{_PRINT_ESCAPES}; {_FORGES}; {_PRINT_ESCAPES} >&2; {_FORGES} >&2; exit 9"

_WRONG_FACTS = r'{"kernels": {}, "nvml": [1e999, {"a": NaN}], "devices": -1, "network": "\u001b[2J", "slurm": null}'
_WORD = "/root/kept-yes x | head -c 10000000 | tr -d '\\n'"
LONG_WORD = f"#!{KEPT_SHELL}\n{_WORD}"
LONG_STATE = f"#!{KEPT_SHELL}\nprintf '%s ' \"$(uname -n)\"; {_WORD}; echo ' root none'"
# As COLUMNS in roles/slurm/words.py
_JOB = "printf '%-32s%-4s%-2s%-64s%-32s%-160s%-40s%-40s' 17 R 1 c000 alice '?' x train"
MANY_JOBS = f'#!{KEPT_SHELL}\n/root/kept-yes "$({_JOB})" | head -c 15000000'

KINDS: tuple[Kind, ...] = (
    _key("a FIFO", f"mkfifo {KEY}", sample=True),
    _key("an endless device", f"ln -s /dev/zero {KEY}"),
    _key("a link to itself", f"ln -s {KEY} {KEY}"),
    _key("a link to a FIFO", f"rm -f /root/fifo; mkfifo /root/fifo; ln -s /root/fifo {KEY}"),
    _key("a folder", f"mkdir {KEY}"),
    replace(_key("a folder with a million files", f"mkdir {KEY}; cd {KEY}; {_MILLION}"), within_s=300),
    _key("a socket", f"python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{KEY}\")'"),
    _key("absent", ":"),
    _key("10 MB", f"head -c 10000000 /dev/zero >{KEY}"),
    _key("1 TB without blocks", f"truncate -s 1T {KEY}"),
    _key("a pattern for every host", f'echo "* $(cat /root/kept)" >{KEY}', sample=True),
    _key("a second line", f'{{ cat /root/kept; echo "* $(cat /root/kept)"; }} >{KEY}'),
    _key("an authority for every host", f'echo "@cert-authority * $(cat /root/kept)" >{KEY}'),
    _key("escape codes", f"{_PRINT_ESCAPES} >{KEY}"),
    _key("another kind of key", f"echo ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB >{KEY}"),
    _keys("a FIFO", f"mkfifo {KEYS}"),
    _keys("a folder", f"mkdir {KEYS}"),
    _keys("no text", f"head -c 100000 /dev/urandom >{KEYS}"),
    _keys("1 TB without blocks", f"truncate -s 1T {KEYS}"),
    _keys("a link out of its folder", f"ln -s /proc/1/environ {KEYS}"),
    _managed("a FIFO", f"mkfifo {MANAGED}", sample=True),
    _managed("a link to a FIFO", f"rm -f /root/fifo; mkfifo /root/fifo; ln -s /root/fifo {MANAGED}"),
    _managed("a link to an endless device", f"ln -s /dev/zero {MANAGED}"),
    _managed("a link to itself", f"ln -s {MANAGED} {MANAGED}"),
    _managed("a folder that is not empty", f"mkdir {MANAGED}; touch {MANAGED}/x"),
    replace(_managed("a folder with a million files", f"mkdir {MANAGED}; cd {MANAGED}; {_MILLION}"), within_s=300),
    _managed("1 TB without blocks", f"truncate -s 1T {MANAGED}"),
    _program("head", "never ends and ignores signals", _HANGS, SSH),
    _program("head", "prints for ever", _FLOODS, SSH),
    _program("timeout", "never ends and ignores signals", _HANGS, PLAN),
    _program("sha256sum", "prints for ever", _FLOODS, PLAN, sample=True),
    _program("sha256sum", "prints escape codes", _SHOWS_ESCAPES, PLAN, UP),
    _program("stat", "never ends and ignores signals", _HANGS, PLAN),
    _program("tar", "never ends and ignores signals", _HANGS, SSH, first="rm -rf /root/.ssh"),
    _program("python3", "never ends and ignores signals", _HANGS, VERIFY),
    _program("python3", "prints for ever", _FLOODS, VERIFY, sample=True),
    _program("python3", "prints escape codes", _SHOWS_ESCAPES, VERIFY, SMOKE, sample=True),
    _program("python3", "prints a document without end of depth", _DEEP, VERIFY),
    _program(
        "python3",
        "prints facts of wrong kinds",
        f"#!{KEPT_SHELL}\necho '{_WRONG_FACTS}'",
        VERIFY,
    ),
    _program("ip", "prints for ever", _FLOODS, BUNDLE),
    Kind(
        name="console: escape codes",
        lines=f"{_PRINT_ESCAPES} >/dev/console || {_PRINT_ESCAPES} >/proc/1/fd/1",
        verbs=(LOGS, BUNDLE),
    ),
    Kind(
        name="console: 50 MB",
        lines="target=/dev/console; [ -w $target ] || target=/proc/1/fd/1; timeout 5 yes | head -c 50000000 >$target",
        verbs=(LOGS,),
    ),
    Kind(
        name="hostname: escape codes",
        lines=f'hostname "$({_PRINT_ESCAPES})"',
        undo="hostname hostile",
        verbs=(STATUS, SHOW, INVENTORY, "list"),
        engines=("lxd",),
    ),
    Kind(
        name="init: does not shut down",
        lines=(
            "if [ -d /run/systemd/system ]; then ln -sf /dev/null /etc/systemd/system/halt.target; "
            "systemctl daemon-reload; else kill -STOP -1; fi"
        ),
        undo="rm -f /etc/systemd/system/halt.target",
        verbs=(STOP, START),
        sample=True,
    ),
    Kind(
        name="processes: all stopped",
        lines="kill -STOP -1",
        verbs=(LOGS, STOP, START),
    ),
    Kind(
        name="processes: 1000 that ignore signals",
        lines="for n in $(seq 1000); do (trap '' TERM HUP INT; exec sleep 100000) & done",
        verbs=(STATUS, STOP, START),
        restart=True,
    ),
    Kind(
        name="cgroup: commands are frozen",
        lines="echo 1 >/sys/fs/cgroup/.lxc/cgroup.freeze",
        verbs=(SSH, STOP, START),
        engines=("lxd",),
    ),
    Kind(
        name="cgroup: commands may not fork",
        lines="echo 1 >/sys/fs/cgroup/.lxc/pids.max",
        verbs=(SSH, PLAN, STOP, START),
        engines=("lxd",),
    ),
    Kind(
        name="ssh: a server that says nothing",
        lines=(
            "systemctl stop ssh 2>/dev/null || sv down ssh; "
            "nohup python3 -c 'import socket, time; s = socket.socket(); "
            's.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("", 22)); s.listen(); time.sleep(1000)\''
            " >/dev/null 2>&1 </dev/null &"
        ),
        undo="pkill -f socket.SO_REUSEADDR; systemctl start ssh 2>/dev/null || sv up ssh",
        verbs=(SSH,),
        codes=_SSH_CODES,
    ),
    Kind(
        name="mount: nothing below /etc/ssh and /root",
        lines="mount -t tmpfs none /etc/ssh; mount -t tmpfs none /usr/local",
        undo="umount /etc/ssh /usr/local",
        verbs=(SSH, PLAN),
        engines=("lxd",),
        codes=_SSH_CODES,
    ),
    Kind(
        name="mount: no /proc",
        lines="mount -t tmpfs none /proc",
        verbs=(PLAN, STOP, START),
        engines=("lxd",),
    ),
    Kind(
        name="disk: 20 000 files, a deep folder, FIFOs, links and 1 TB without blocks",
        lines=(
            "mkdir -p /srv/many; cd /srv/many; seq 20000 | xargs touch; mkfifo fifo; ln -s loop loop; "
            "truncate -s 1T sparse; "
            'python3 -c \'import os\nfor n in range(2000):\n os.mkdir("d"); os.chdir("d")\''
        ),
        undo="rm -rf /srv/many",
        verbs=(SNAPSHOT, RESTORE, STOP, CLONE, REMOVE_COPY, START),
    ),
    _kept(HOSTS, "hosts file: a FIFO", f"mkfifo {HOSTS}", PLAN, UP, role="plain", engines=("lxd",)),
    _kept(MUNGE_KEY, "munge key: a FIFO", f"mkfifo {MUNGE_KEY}", PLAN, UP),
    _kept(MUNGE_KEY, "munge key: 1 TB without blocks", f"truncate -s 1T {MUNGE_KEY}", PLAN, UP),
    _kept(SLURM_LOG, "Slurm's log: a FIFO", f"mkfifo {SLURM_LOG}", BUNDLE),
    _slurm("sinfo", "never ends and ignores signals", _HANGS, STATUS, STOP_OTHER),
    _slurm("sinfo", "prints for ever", _FLOODS, STATUS, STOP_OTHER),
    _slurm("sinfo", "prints escape codes", _SHOWS_ESCAPES, STATUS, STOP_OTHER),
    _slurm("sinfo", "prints a state without end", LONG_STATE, STATUS),
    _slurm("squeue", "never ends and ignores signals", _HANGS, STOP_OTHER),
    _slurm("squeue", "prints for ever", _FLOODS, STOP_OTHER),
    _slurm("squeue", "prints escape codes", _SHOWS_ESCAPES, STOP_OTHER),
    _slurm("squeue", "lists jobs without end", MANY_JOBS, STOP_OTHER, FORCE_OTHER, START_OTHER, sample=True),
    _slurm("scontrol", "never ends and ignores signals", _HANGS, STATUS, STOP_OTHER),
    _slurm("scontrol", "prints for ever", _FLOODS, STOP_OTHER),
    _slurm("scontrol", "prints escape codes", _SHOWS_ESCAPES, STATUS, STOP_OTHER, VERIFY),
    _slurm("scontrol", "prints a word without end", LONG_WORD, VERIFY),
    _slurm("srun", "prints facts of wrong kinds", f"#!{KEPT_SHELL}\necho '{_WRONG_FACTS}'", VERIFY),
)


@dataclass(frozen=True, kw_only=True)
class HostileNode:
    """A node whose root is not ours, and one beside it that must not notice."""

    gpuprov: Gpuprov
    engine: str
    cluster: str
    node: str
    other: str
    spec: str

    def become_root(self) -> None:
        """Keep what the attacker needs when the node's own programs are gone."""
        self.in_node(
            f"cp /bin/sh {KEPT_SHELL}; for p in mv readlink yes; do cp $(command -v $p) /root/kept-$p; done\n"
            "cp $(readlink -f $(command -v python3)) /root/kept-python\n"
            f"cat >/root/ignore <<'END'\n{_IGNORE}END\nchmod 755 /root/ignore"
        )

    def in_node(self, script: str, *, shell: str = "/bin/sh", timeout_s: float = 20) -> None:
        """Run lines as root, by the engine's own client; whether they succeed is the attacker's business."""
        where = ["lxc", "exec", self.node, "--"] if self.engine == "lxd" else ["docker", "exec", self.node]
        with_limit = [*where, shell, "-c", script]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(with_limit, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout_s)

    def misbehave(self, kind: Kind) -> None:
        """Try a kind, each of its verbs, and undo it."""
        self.in_node(kind.lines, timeout_s=kind.within_s)
        try:
            for verb in self.verbs_of(kind):
                self.survive(kind, verb)
        finally:
            self.in_node(kind.undo, shell=KEPT_SHELL, timeout_s=kind.within_s)
            if kind.restart:
                self.gpuprov("stop", self.node, "--engine", self.engine)
            self.gpuprov("start", self.node, "--engine", self.engine)

    def verbs_of(self, kind: Kind) -> Iterator[tuple[str, ...]]:
        """Command lines; what a verb makes is named after the kind's place in the table."""
        number = KINDS.index(kind)
        values = {
            "node": self.node,
            "other": self.other,
            "copy": f"{self.node}-k{number}",
            "cluster": self.cluster,
            "spec": self.spec,
            "bundle": str(self.gpuprov.folder / f"{self.cluster}-{number}.tar.gz"),
            "which": f"--engine {self.engine}",
        }
        for verb in kind.verbs:
            yield tuple(verb.format(**values).split())

    def survive(self, kind: Kind, argv: tuple[str, ...]) -> Finished:
        """The verb ends in its time, with an exit code that means something, and nothing moves the cursor."""
        process = self.gpuprov.start(*argv)
        try:
            stdout, stderr = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{kind.name}: {' '.join(argv)} did not end") from None
        finally:
            process.kill()
            process.wait()
        finished = Finished(argv=argv, exit_code=process.returncode, stdout=stdout, stderr=stderr)
        assert finished.exit_code in CATALOGUE | kind.codes, f"{kind.name}: {finished.all}"
        assert len(stdout + stderr) < MOST_SHOWN, f"{kind.name}: {len(stdout)}, {len(stderr)} characters"
        assert "Traceback" not in stdout + stderr, f"{kind.name}: {finished.all}"
        assert not [escape for escape in ESCAPES if escape in stdout + stderr], f"{kind.name}: {finished.all!a}"
        assert not _FORGED.search(stdout + stderr), f"{kind.name}: {finished.all}"
        if finished.exit_code in CATALOGUE - {0, 1}:
            assert "\nfix: " in stderr, f"{kind.name}: {finished.all}"
        return finished

    def other_is(self, before: str) -> bool:
        """Whether the node beside it is as it was, at once or once it has its addresses again."""
        deadline_s = time.monotonic() + SETTLE_S
        while self.look_at_other() != before:
            if time.monotonic() > deadline_s:
                return False
            time.sleep(0.5)
        return True

    def look_at_other(self) -> str:
        """What the node beside it is: its state, files and processes."""
        shown = (
            output("lxc", "list", self.other, "-c", "ns4")
            if self.engine == "lxd"
            else output("docker", "port", self.other)
        )
        return shown + self.gpuprov.in_node(self.other, "sha256sum", MANAGED, "/etc/hosts", KEY)
