"""What the result of k-means is for people."""

MOST_POINTS = 2000  # in the chart


def describe_result(params, state, result):
    """Each cluster's centroid and how many rows it has."""
    columns = state.columns
    return {
        "iterations": state.iteration,
        "clusters": [
            {"rows": result.counts[number], "centroid": state.centroids[number * columns : (number + 1) * columns]}
            for number in range(state.clusters)
        ],
    }


def chart_result(params, state, result, dataset):
    """Rows by cluster, and the centroids, in the first two columns."""
    columns = dataset.columns
    if columns < 2:
        return None
    centroids = [state.centroids[number * columns : (number + 1) * columns] for number in range(state.clusters)]
    groups = [[] for _ in centroids]
    step = -(-dataset.rows // MOST_POINTS)
    for number in range(0, dataset.rows, step):
        row = dataset.values[number * columns : (number + 1) * columns]
        distances = [sum((a - b) ** 2 for a, b in zip(row, centroid, strict=True)) for centroid in centroids]
        groups[distances.index(min(distances))].append(row[:2])
    return {
        "title": "k-means",
        "groups": [
            *({"label": f"cluster {number}", "points": points} for number, points in enumerate(groups)),
            {"label": "centroids", "points": [centroid[:2] for centroid in centroids], "marked": True},
        ],
    }
