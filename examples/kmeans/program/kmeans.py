"""k-means by Lloyd: each row belongs to the nearest centroid, and each centroid becomes the mean of its rows."""

from ctypes import POINTER, Structure, addressof, c_double, c_int, c_long, cast, sizeof

SAMPLE = 10_000  # rows among which the first centroids are


class GlobalParams(Structure):
    _fields_ = [("clusters", c_long), ("max_iterations", c_long), ("tolerance", c_double)]
    defaults = {"clusters": 3, "max_iterations": 100, "tolerance": 1e-9}


class Dataset(Structure):
    _fields_ = [("rows", c_long), ("columns", c_long), ("values", POINTER(c_double))]
    dynamic = {"values": ("rows", "columns")}


class AggregationResult(Structure):
    _fields_ = [("clusters", c_long), ("columns", c_long), ("counts", POINTER(c_long)), ("sums", POINTER(c_double))]
    dynamic = {"counts": ("clusters",), "sums": ("clusters", "columns")}


class GlobalState(Structure):
    _fields_ = [
        ("done", c_int),
        ("iteration", c_long),
        ("moved", c_double),
        ("clusters", c_long),
        ("columns", c_long),
        ("centroids", POINTER(c_double)),
    ]
    dynamic = {"centroids": ("clusters", "columns")}


def get_dataset_slice(dataset, start, stop):
    """The rows from `start` to before `stop`; nothing is copied."""
    first = addressof(dataset.values.contents) + start * dataset.columns * sizeof(c_double)
    return Dataset(rows=stop - start, columns=dataset.columns, values=cast(first, POINTER(c_double)))


def init_global_state(params, dataset):
    """The first row, and then again and again the row that is farthest from the centroids so far, as centroids."""
    clusters, columns = min(params.clusters, dataset.rows), dataset.columns
    step = max(1, dataset.rows // SAMPLE)
    rows = [dataset.values[row * columns : (row + 1) * columns] for row in range(0, dataset.rows, step)]
    chosen = [rows[0]]
    while len(chosen) < clusters:
        chosen.append(max(rows, key=lambda row: min(_distance(row, centroid) for centroid in chosen)))
    values = [value for centroid in chosen for value in centroid]
    return GlobalState(clusters=clusters, columns=columns, centroids=(c_double * len(values))(*values))


def _distance(one, other):
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def init_aggregation_result(params, state):
    """No rows yet."""
    return AggregationResult(
        clusters=state.clusters,
        columns=state.columns,
        counts=(c_long * state.clusters)(),
        sums=(c_double * (state.clusters * state.columns))(),
    )


def aggregate(one, other):
    """The rows of both."""
    for cluster in range(one.clusters):
        one.counts[cluster] += other.counts[cluster]
    for place in range(one.clusters * one.columns):
        one.sums[place] += other.sums[place]
    return one


def update_global_state(params, state, result):
    """Move the centroids; a cluster without rows stays where it is."""
    moved = 0.0
    for cluster in range(state.clusters):
        for column in range(state.columns):
            place = cluster * state.columns + column
            if result.counts[cluster]:
                mean = result.sums[place] / result.counts[cluster]
                moved = max(moved, abs(mean - state.centroids[place]))
                state.centroids[place] = mean
    state.moved = moved
    state.iteration += 1
    state.done = moved <= params.tolerance or state.iteration >= params.max_iterations
