"""Hands in eight tasks and prints their results."""

from __future__ import annotations

from app import deep_learning_task

TIMEOUT_S = 300

results = [deep_learning_task.delay(num_hidden_units=units) for units in [128] * 4 + [256] * 4]
for result in results:
    print(result.get(timeout=TIMEOUT_S))
