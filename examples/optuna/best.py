"""Prints what the study has so far."""

from __future__ import annotations

from collections import Counter

import optuna
from optimize import JOURNAL
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

study = optuna.load_study(study_name="parabola", storage=JournalStorage(JournalFileBackend(JOURNAL)))
ended = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
nodes = Counter(trial.user_attrs["node"] for trial in ended)
print(len(ended), "trials:", *(f"{count} on {node}" for node, count in sorted(nodes.items())))
print("best", study.best_params, "loss", round(study.best_value, 4))
