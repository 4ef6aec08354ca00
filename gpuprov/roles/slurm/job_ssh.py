"""ssh from node to node of a cluster, as the account that one is: for mpirun and other programs that start their parts.

All nodes have one more host key, which follows from the munge key, and trust whoever has it: nobody but root reads it,
and ssh-keysign proves with it which node and which account asks. Nothing outside has it.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gpuprov.drivers.base import File
from gpuprov.roles.secret_file import SecretFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.whole import Member

HOST_KEY: Final = SecretFile(path="/etc/ssh/ssh_host_ecdsa_key", least_bytes=150, most_bytes=400)
SERVER_FILE: Final = "/etc/ssh/sshd_config.d/gpuprov-jobs.conf"
_CLIENT_FILE: Final = "/etc/ssh/ssh_config.d/gpuprov-jobs.conf"
_KNOWN_FILE: Final = "/etc/ssh/ssh_known_hosts"
_TRUSTED_FILE: Final = "/etc/ssh/shosts.equiv"
_ABOUT: Final = "# Written by gpuprov: accounts other than root get from node to node without a key of their own.\n"
_ALGORITHM: Final = "ecdsa-sha2-nistp256"  # not the one that each node has for itself
_SERVER: Final = f"""{_ABOUT}HostKey {HOST_KEY.path}
HostbasedAuthentication yes
HostbasedAcceptedAlgorithms {_ALGORITHM}
IgnoreRhosts yes
IgnoreUserKnownHosts yes
AcceptEnv SLURM_JOB_ID SLURMD_NODENAME
"""
# What a job starts on other nodes has its marks (gpuwork/jobs/leftovers.py), and ends with it there
_CLIENT: Final = f"""{_ABOUT}EnableSSHKeysign yes
HostbasedAuthentication yes
HostbasedAcceptedAlgorithms {_ALGORITHM}
UpdateHostKeys no
SendEnv SLURM_JOB_ID
"""
_PURPOSE: Final = b"gpuprov ssh between nodes"
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of the curve P-256


def ssh_files(munge_key: bytes, members: Sequence[Member]) -> tuple[File, ...]:
    """What each of these nodes needs so that accounts get from one to the others; the same for all."""
    private, public = _key_pair(munge_key)
    called = {member.name: _names(member) for member in members}
    names = [name for some in called.values() for name in some]
    marks = [f"Host {' '.join(some)}\n    SetEnv SLURMD_NODENAME={node}\n" for node, some in called.items()]
    return (
        File(path=HOST_KEY.path, content=private, mode=0o600),
        File(path=f"{HOST_KEY.path}.pub", content=f"{public}\n".encode()),
        File(path=_KNOWN_FILE, content=f"{_ABOUT}{','.join(names)} {public}\n".encode()),
        File(path=_TRUSTED_FILE, content="\n".join([_ABOUT.rstrip(), *names, ""]).encode()),
        File(path=_CLIENT_FILE, content=f"{_CLIENT}{''.join(marks)}".encode()),
        File(path=SERVER_FILE, content=_SERVER.encode()),
    )


def _names(member: Member) -> list[str]:
    """What the others call a node."""
    return [name for name in (member.name, f"{member.name}-private", member.address, member.private_address) if name]


@lru_cache(maxsize=4)
def _key_pair(munge_key: bytes) -> tuple[bytes, str]:
    """The private key as a file has it, and the public one as a line of a file has it; the same for the same key."""
    from cryptography.hazmat.primitives.asymmetric import ec  # here: they take as long as a whole table of nodes
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    digest = hmac.new(munge_key, _PURPOSE, hashlib.sha512).digest()
    key = ec.derive_private_key(int.from_bytes(digest, "big") % (_ORDER - 1) + 1, ec.SECP256R1())
    return (
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
        key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
    )
