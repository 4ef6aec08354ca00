"""The sum of a column: each GPU adds up its rows, and the sums are added."""

from ctypes import POINTER, Structure, addressof, c_double, c_int, c_long, cast, sizeof


class GlobalParams(Structure):
    _fields_ = [("column", c_long)]
    defaults = {"column": 0}  # without `--set column=N`


class Dataset(Structure):
    _fields_ = [("rows", c_long), ("columns", c_long), ("values", POINTER(c_double))]
    dynamic = {"values": ("rows", "columns")}  # its length is their product


class AggregationResult(Structure):
    _fields_ = [("rows", c_long), ("sum", c_double)]


class GlobalState(Structure):
    _fields_ = [("done", c_int), ("column", c_long), ("rows", c_long), ("sum", c_double)]


def get_dataset_slice(dataset, start, stop):
    """The rows from `start` to before `stop`; nothing is copied."""
    first = addressof(dataset.values.contents) + start * dataset.columns * sizeof(c_double)
    return Dataset(rows=stop - start, columns=dataset.columns, values=cast(first, POINTER(c_double)))


def init_global_state(params, dataset):
    """Before the first iteration."""
    if not 0 <= params.column < dataset.columns:
        raise ValueError(f"column is {params.column}, but the table has columns 0 to {dataset.columns - 1}")
    return GlobalState(column=params.column)


def init_aggregation_result(params, state):
    """No rows yet."""
    return AggregationResult()


def aggregate(one, other):
    """The rows of both."""
    one.rows += other.rows
    one.sum += other.sum
    return one


def update_global_state(params, state, result):
    """One iteration over all rows is enough here; others go on until `done` is set."""
    state.rows = result.rows
    state.sum = result.sum
    state.done = 1
