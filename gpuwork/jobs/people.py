"""How many GPUs somebody may have at once on workers: each run with a GPU holds one of as many places of theirs.

Slurm's accounting does this for its own jobs. All jobs of workers belong to one account, so this is an agreement among
people who trust each other: a job could remove the places.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuwork.errors import Elsewhere
from gpuwork.jobs.submitter import read_submitter
from gpuwork.shared_folder import is_free, make_folder, one_of
from gpuwork.untrusted_files import make_way_for_folder, read_limited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuwork.jobs.store import Submission

LIMITS: Final = Path("/etc/gpuprov/people/limits")  # `NAME GPUS` of each person who has one; written by root
PEOPLE: Final = ".people"


def read_limits() -> dict[str, int]:
    """The GPUs that people may have at once, by name; nobody who is not there has a limit."""
    content = read_limited(LIMITS) or b""
    words = (line.split() for line in content.decode(errors="replace").splitlines())
    return {name: int(gpus) for name, gpus in (pair for pair in words if len(pair) == 2) if gpus.isdecimal()}  # noqa: PLR2004


def find_limit(submission: Submission) -> tuple[str, int] | None:
    """Whose a submission is and how many GPUs they may have; None where nothing limits it."""
    if submission.traits.limits_people or not submission.order.has_gpu:
        return None
    limits = read_limits()
    submitter = read_submitter(submission.folder) if limits else None
    return None if submitter is None or submitter.owner not in limits else (submitter.owner, limits[submitter.owner])


def count_free(submission: Submission) -> int | None:
    """How many places its owner has left; None where nothing limits them."""
    limit = find_limit(submission)
    if limit is None:
        return None
    name, gpus = limit
    store = submission.folder.parent
    return sum(is_free(store / PEOPLE / name / str(place), within=store) for place in range(gpus))


def why_it_waits(submission: Submission) -> str:
    """That its owner has as many GPUs as they may, in words; empty where they may have more."""
    limit = find_limit(submission)
    if limit is None or count_free(submission):
        return ""
    name, gpus = limit
    return f"{name} has {gpus} GPU{'' if gpus == 1 else 's'}, as many as they may at once" if gpus else _none(name)


@contextmanager
def place_of_owner(submission: Submission) -> Iterator[tuple[int, ...]]:
    """Hold a place of its owner's for the block, which gets the handles of locks: none where nothing limits them.

    Raises:
        Elsewhere: They have as many GPUs as they may.
    """
    limit = find_limit(submission)
    if limit is None:
        yield ()
        return
    name, gpus = limit
    folder = submission.folder.parent / PEOPLE / name
    for path in (folder.parent, folder):
        make_way_for_folder(path)
        make_folder(path)
    with one_of(folder, gpus) as place:
        if place is None:
            raise Elsewhere(
                f"{name} has {gpus} GPUs, as many as they may at once" if gpus else _none(name),
                evidence=f"{folder} has no free place of {gpus}",
                fix=f"python3 -m gpuwork.jobs show {submission.id}",
            )
        yield (place,)


def _none(name: str) -> str:
    return f"{name} may have no GPU"
