"""The variables of a node, as the files for sshd, login shells, tasks of Slurm and PAM have them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from gpuprov.cluster.node_variables import PLAIN_FILE, SSH_FILE, has_own_variables, variable_files
from gpuprov.core.waiting import Wait
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuprov.spec.spec_error import SpecError
from gpuprov.spec.validate import check_spec
from gpuwork.child import ENDED_FIRST

ODD = {"ODD": "a b  \"c\" $HOME #d \\ 'e' ", "EQUAL": "a=b=", "PLAIN": "x:/y.z"}
PROLOG = Path(__file__).parents[3] / "templates/slurm/task-prolog.sh"


def texts(environment: dict[str, str], *, simulated: bool = False) -> dict[str, str]:
    return {file.path: file.content.decode() for file in variable_files(environment, simulated=simulated)}


def run(script: str, tmp_path: Path, **environment: str) -> bytes:
    """What a script prints, with the node's file in another place."""
    (tmp_path / "environment").write_text(texts(ODD)[PLAIN_FILE])
    text = script.replace(PLAIN_FILE, str(tmp_path / "environment"))
    return subprocess.run(["/bin/sh", "-c", text], env=environment, capture_output=True, check=True).stdout


def test_a_login_shell_has_every_value_as_it_was_written(tmp_path: Path) -> None:
    script = texts(ODD)["/etc/profile.d/gpuprov.sh"]
    said = run(f"{script}\nenv -0", tmp_path, PATH="/usr/bin:/bin", PLAIN="of before")
    seen = dict(entry.split("=", 1) for entry in said.decode().split("\0") if entry)
    assert {key: seen[key] for key in ODD} == ODD


def test_a_task_gets_what_it_lacks_and_keeps_what_it_was_given(tmp_path: Path) -> None:
    said = run(PROLOG.read_text(), tmp_path, PLAIN="mine", CUDA_VISIBLE_DEVICES="0").decode()
    assert said.splitlines() == [f"export EQUAL={ODD['EQUAL']}", f"export ODD={ODD['ODD']}"]


def test_a_line_that_slurm_or_a_shell_cannot_take_is_left_out(tmp_path: Path) -> None:
    lines = ["", "words", "=1", "0A=1", "A-B=1", "$(touch x)=1", f"LONG={'x' * 4000}", f"MOST={'x' * 3900}", "LAST=1"]
    (tmp_path / "file").write_text("\n".join(lines))
    script = PROLOG.read_text().replace(PLAIN_FILE, str(tmp_path / "file"))
    environment = {"CUDA_VISIBLE_DEVICES": "0"}
    done = subprocess.run(["/bin/sh", "-c", script], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout.splitlines() == [f"export MOST={'x' * 3900}", "export LAST=1"]
    assert done.stderr == ""
    script = texts({})["/etc/profile.d/gpuprov.sh"].replace(PLAIN_FILE, str(tmp_path / "file"))
    argv = ["/bin/sh", "-euc", f"{script}\necho ${{#LONG}} $LAST"]
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b"4000 1\n"


@pytest.mark.parametrize("environment", [{}, {"CUDA_VISIBLE_DEVICES": ""}])
def test_a_task_without_a_gpu_is_told_so(tmp_path: Path, environment: dict[str, str]) -> None:
    said = run(PROLOG.read_text(), tmp_path, **dict.fromkeys(ODD, "mine"), **environment).decode()
    assert said.splitlines() == [
        "export CUDA_VISIBLE_DEVICES=NoDevFiles",
        "export NVIDIA_VISIBLE_DEVICES=void",
        "unset NUMBA_ENABLE_CUDASIM",
    ]


def test_a_task_and_what_it_has_begun_end_before_services_where_memory_runs_out() -> None:
    argv = ["/bin/sh", "-c", "sleep 60 & echo $!; wait"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as task:
        try:
            assert task.stdout is not None
            scores = [Path(f"/proc/{pid}/oom_score_adj") for pid in (task.pid, int(task.stdout.readline()))]
            subprocess.run(["/bin/sh", str(PROLOG)], env={"SLURM_TASK_PID": str(task.pid)}, check=True, timeout=10)
            Wait(what="a higher score", timeout_s=10, fix="f").until(
                lambda: {score.read_text().strip() for score in scores}, lambda seen: seen == {ENDED_FIRST}
            )
        finally:
            os.killpg(task.pid, signal.SIGKILL)


def test_sshd_has_one_line_of_quoted_words() -> None:
    line = texts({"A": "one", "ODD": ODD["ODD"]})[SSH_FILE].splitlines()[1]
    assert line == r'''SetEnv "A=one" "ODD=a b  \"c\" $HOME #d \\ 'e' "'''
    assert "SetEnv" not in texts({})[SSH_FILE]


def test_pam_gets_what_it_reads_unchanged() -> None:
    said = texts({**ODD, "WORDS": 'a "b" $c', "LONG": "x" * 1000}, simulated=True)["/etc/environment"]
    assert said == "EQUAL=a=b=\nNUMBA_ENABLE_CUDASIM=1\nPLAIN=x:/y.z\nWORDS='a \"b\" $c'\n"
    assert texts({"GONE": ""}) == texts({})  # Docker's way to take one away
    assert "/etc/environment" not in texts({})  # it is the user's where there is nothing to say


def test_workers_begin_again_for_variables_of_the_spec_alone() -> None:
    assert not any(has_own_variables(file) for file in variable_files({}, simulated=True))
    assert any(has_own_variables(file) for file in variable_files({"A": "1"}, simulated=True))


def test_a_line_break_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        check_spec(ClusterSpec(nodes=NodesSpec(environment=("A=b\nc",))), roles=("slurm",))
    assert "the value of 'A' has a line break" in caught.value.evidence
