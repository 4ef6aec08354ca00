"""The variables of a node in files, for every way in that the engine does not take itself: pure functions.

The engine gives a node's variables to the commands that it starts. sshd, login shells, Slurm's tasks and workers have
theirs from these files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpuprov.drivers.base import File
from gpuprov.gpu.simulator import SIMULATOR_VARIABLE, simulator_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN_FILE: Final = "/etc/gpuprov/environment"  # a KEY=VALUE on each line, which nobody unquotes
SSH_FILE: Final = "/etc/ssh/sshd_config.d/gpuprov-environment.conf"
_PAM_FILE: Final = "/etc/environment"
_PAM_LONGEST: Final = 1000  # of a line that pam_env reads whole
_NEEDS_NO_QUOTES: Final = re.compile(r"[A-Za-z0-9_./:@%+,=-]+", re.ASCII)
_LOGIN_SHELLS: Final = f"""\
# Written by gpuprov: the variables of this node, for login shells.
if [ -r {PLAIN_FILE} ]; then
    while IFS= read -r gpuprov_variable || [ -n "$gpuprov_variable" ]; do
        case ${{gpuprov_variable%%=*}} in "$gpuprov_variable" | "" | [0-9]* | *[!A-Za-z0-9_]*) continue ;; esac
        export "$gpuprov_variable"
    done <{PLAIN_FILE}
    unset gpuprov_variable
fi
"""


def variable_files(environment: Mapping[str, str], *, simulated: bool) -> tuple[File, ...]:
    """The files of a node with these variables, and with that of the simulator where its GPUs are simulated."""
    variables = {**simulator_environment(simulated=simulated), **environment}
    # an engine that cannot take a variable away makes it empty
    told = {name: value for name, value in sorted(variables.items()) if value and "\n" not in value}
    pam = "".join(_pam_line(name, value) for name, value in told.items())
    return (
        File(path=PLAIN_FILE, content="".join(f"{name}={value}\n" for name, value in told.items()).encode()),
        File(path="/etc/profile.d/gpuprov.sh", content=_LOGIN_SHELLS.encode()),
        File(path=SSH_FILE, content=_sshd_line(told).encode()),
        *((File(path=_PAM_FILE, content=pam.encode()),) if pam else ()),
    )


def has_own_variables(file: File) -> bool:
    """Whether this is the file of variables, and has more of them than the simulator's."""
    own = [line for line in file.content.splitlines() if not line.startswith(f"{SIMULATOR_VARIABLE}=".encode())]
    return file.path == PLAIN_FILE and bool(own)


def _sshd_line(variables: Mapping[str, str]) -> str:
    """One line, as sshd heeds only the first."""
    escaped = (value.replace("\\", "\\\\").replace('"', '\\"') for value in variables.values())
    quoted = [f'"{name}={value}"' for name, value in zip(variables, escaped, strict=True)]
    about = "# Written by gpuprov: the variables of this node.\n"
    return about + (f"SetEnv {' '.join(quoted)}\n" if quoted else "")


def _pam_line(name: str, value: str) -> str:
    """For su, sudo and cron; pam_env takes a `#` for a comment and knows no escapes, so some values are left out."""
    if _NEEDS_NO_QUOTES.fullmatch(value):
        line = f"{name}={value}\n"
    elif "'" in value or "#" in value:
        return ""
    else:
        line = f"{name}='{value}'\n"
    return line if len(line.encode()) < _PAM_LONGEST else ""
