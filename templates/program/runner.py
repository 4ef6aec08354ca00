"""What the result is for people."""


def describe_result(params, state, result):
    """Printed as JSON."""
    return {"column": state.column, "rows": state.rows, "sum": state.sum}
