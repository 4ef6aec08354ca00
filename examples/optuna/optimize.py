"""One of several processes that optimise the same study, wherever they run."""

from __future__ import annotations

import platform

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

JOURNAL = "/shared/parabola.log"
TRIALS = 25


def objective(trial: optuna.Trial) -> float:
    """Stand for a training: the loss of a learning rate and a width, least at 0.01 and 128."""
    rate: float = trial.suggest_float("rate", 1e-5, 1.0, log=True)
    units: int = trial.suggest_int("units", 16, 512, log=True)
    trial.set_user_attr("node", platform.node())
    return abs(rate / 0.01 - 1) + abs(units / 128 - 1)


if __name__ == "__main__":
    storage = JournalStorage(JournalFileBackend(JOURNAL))
    study = optuna.create_study(study_name="parabola", storage=storage, load_if_exists=True)
    study.optimize(objective, n_trials=TRIALS)
