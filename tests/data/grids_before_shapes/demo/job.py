def main(values):
    if values["units"] == "bad":
        raise ValueError("units is no number")
    return {"loss": [1.0, 0.5, values["lr"]]}
