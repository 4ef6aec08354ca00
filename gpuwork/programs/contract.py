"""What a program consists of: the names that its sources must have, and what belongs to each."""

from __future__ import annotations

from typing import Final

PARAMS: Final = "GlobalParams"
DATASET: Final = "Dataset"
RESULT: Final = "AggregationResult"
STATE: Final = "GlobalState"
STRUCTURES: Final = (PARAMS, DATASET, RESULT, STATE)
DYNAMIC: Final = "dynamic"  # of a structure: each field that points to an array, and whose product its length is
DEFAULTS: Final = "defaults"  # of the parameters

# What C functions are named for, and what they get
ALLOCATED: Final = {"dataset": DATASET, "global_state": STATE, "aggregation_result": RESULT}
C_FUNCTIONS: Final = {
    "run_iteration": f"int (*)(int, {PARAMS} *, {DATASET} *, {STATE} *, {RESULT} *)",
    **{f"setup_{name}": f"int (*)({structure} *)" for name, structure in ALLOCATED.items()},
    **{f"free_{name}": f"int (*)({structure} *)" for name, structure in ALLOCATED.items()},
}
PYTHON_FUNCTIONS: Final = {
    "get_dataset_slice": ("dataset", "start", "stop"),
    "init_global_state": ("params", "dataset"),
    "init_aggregation_result": ("params", "state"),
    "aggregate": ("one", "other"),
    "update_global_state": ("params", "state", "result"),
}
RUNNER_FUNCTIONS: Final = {
    "make_params": ("settings",),
    "make_dataset": ("settings", "table"),
    "describe_result": ("params", "state", "result"),
    "chart_result": ("params", "state", "result", "dataset"),
}
# The integers that are asked for by name
ROWS: Final = "rows"
DONE: Final = "done"
INTEGERS: Final = {DATASET: ROWS, STATE: DONE}
