"""Why a job waits, in words: Slurm's own word stays visible, as `squeue` has it. Pure."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"([A-Z][A-Za-z]{1,60})(?:,|\Z)")
_EXACT: Final = {
    "AssocGrpGRES": "this person or account has as many GPUs as allowed at once",
    "BeginTime": "not before a set time; after a requeue, up to 2 minutes",
    "Cleaning": "what is left of an earlier try is ended",
    "Dependency": "for the end of another job",
    "DependencyNeverSatisfied": "for a job that did not succeed",
    "JobArrayTaskLimit": "as many runs as --at-most allows are under way",
    "JobHeldAdmin": "held by an administrator, who can release it",
    "JobHeldUser": "held; scontrol release lets it begin",
    "NodeDown": "its node is down",
    "PartitionDown": "its partition starts no jobs",
    "PartitionInactive": "its partition takes no jobs",
    "PartitionNodeLimit": "its partition has no such nodes",
    "PartitionTimeLimit": "longer than its partition allows",
    "Priority": "others are before it",
    "QOSMaxGRESPerUser": "this person has as many GPUs as the QOS allows at once",
    "ReqNodeNotAvail": "the node that it needs is down, drained or held",
    "Reservation": "for the time that is reserved for it",
    "Resources": "no node has enough free now",
}
_FAMILIES: Final = (
    ("AssocGrp", "this person or account has as much as allowed at once"),
    ("AssocMax", "more than this person or account may have"),
    ("QOSGrp", "all jobs of the QOS have as much as allowed at once"),
    ("QOSMax", "more than the QOS allows"),
    ("QOSMin", "less than the QOS asks for"),
)


def explain_wait(reason: str) -> str:
    """A reason of a batch system, with what it means; one that is not known, or in words already, as it is."""
    found = _WORD.match(reason)
    if found is None:
        return reason
    family = next((words for begin, words in _FAMILIES if found[1].startswith(begin)), "")
    words = _EXACT.get(found[1], family)
    return f"{reason} ({words})" if words else reason
