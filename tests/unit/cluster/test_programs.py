"""Programs of people in nodes are told from what images have running."""

from __future__ import annotations

from gpuprov.cluster.programs import parse_programs, programs_of_people
from gpuprov.core.errors import TimedOut
from gpuprov.drivers.base import ExecResult

# As nodes of LXD and of Docker list them
SYSTEMD = """1\t0\tsystemd\t/sbin/init
25\t1\tsystemd-journal\t/lib/systemd/systemd-journald
31\t1\tdbus-daemon\t/usr/bin/dbus-daemon --system
35\t1\tmunged\t/usr/sbin/munged
39\t1\tslurmctld\t/usr/sbin/slurmctld -D
42\t39\tslurmscriptd\tslurmctld: slurmscriptd
60\t1\tslurmd\t/usr/sbin/slurmd -D
61\t1\tslurmstepd\tslurmstepd: [7.batch]
62\t61\tbash\t/bin/bash /var/spool/slurmd/job00007/slurm_script
92\t1\tsshd\tsshd: /usr/sbin/sshd -D [listener]
"""
RUNIT = """1\t0\tdocker-init\t/sbin/docker-init -- /bin/sh -c x
7\t1\tgpuprov-init\t/bin/sh /usr/local/sbin/gpuprov-init
8\t7\trunsvdir\trunsvdir -P /etc/runit/runsvdir/gpuprov
9\t8\trunsv\trunsv gpuwork
10\t9\tpython3\t/usr/bin/python3 -m gpuwork.crew
11\t10\tpython3\t/usr/bin/python3 -m gpuwork.worker --gpu GPU-1
12\t8\trunsv\trunsv rabbitmq-server
13\t12\tbeam.smp\t/usr/lib/erlang/erts-13.1.5/bin/beam.smp -W w
14\t13\terl_child_setup\terl_child_setup 20000
15\t14\tsh\t/bin/sh -s rabbit_disk_monitor
16\t1\tepmd\t/usr/lib/erlang/erts-13.1.5/bin/epmd -daemon
17\t8\trunsv\trunsv ssh
18\t17\tsshd\tsshd: /usr/sbin/sshd -D -e [listener]
"""


def test_an_idle_node_has_none() -> None:
    assert parse_programs(SYSTEMD) == ()
    assert parse_programs(RUNIT) == ()


def test_shells_logins_and_what_was_left_in_the_background_are_told() -> None:
    shell = "90\t0\tbash\t-bash\n91\t90\tpython3\tpython3 train.py\n"
    left = "108\t1\tsleep\tsleep 603\n"
    assert parse_programs(SYSTEMD + shell + left) == ("-bash", "python3 train.py", "sleep 603")
    login = "19\t18\tsshd\tsshd: root@pts/1\n20\t19\tjupyter-lab\tpython3 /usr/bin/jupyter-lab\n"
    assert parse_programs(RUNIT + login) == ("python3 /usr/bin/jupyter-lab",)


def test_what_a_hostile_node_says_ends_and_is_short() -> None:
    assert parse_programs("") == ()
    assert parse_programs("no tabs\n1\t2\n\x1b[31m") == ()
    assert len(parse_programs("5\t6\ta\tring\n6\t5\tb\tring\n")) == 2
    many = "\n".join(f"{number}\t0\tx\t{'w' * 500}" for number in range(2, 20_000))

    class Driver:
        def run(self, node: str, _argv: list[str], *, timeout_s: float) -> ExecResult:
            assert timeout_s <= 5
            if node == "c001":
                raise TimedOut("late", evidence="e", fix="f")
            code = 127 if node == "c003" else 0
            return ExecResult(exit_code=code, stdout=many if node == "c000" else SYSTEMD, stderr="")

    line, *silent = programs_of_people(Driver(), ["c000", "c001", "c002", "c003"])  # type: ignore[arg-type]
    assert silent == [f"programs in {name}: not known, as the node does not answer" for name in ("c001", "c003")]
    assert line.startswith("programs in c000: www")
    assert line.endswith(" and 4091 more")
    assert len(line) < 500
    told = programs_of_people(Driver(), ["c000"] * 1)  # type: ignore[arg-type]
    assert told == (line,)
