from __future__ import annotations

import pytest

from gpuprov.core.fingerprint import fingerprint, short


def test_the_order_of_keys_does_not_matter_and_the_order_of_a_list_does() -> None:
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": (1, 2), "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])


def test_it_is_the_same_in_every_process_and_release() -> None:
    assert fingerprint({"base": "bookworm"}) == "da17b3aee224dbdfd4e75816aa18296366539e2a86422cc5125d0a1fe18e307d"


def test_short_is_for_names() -> None:
    assert short(fingerprint("x")) == fingerprint("x")[:12]


@pytest.mark.parametrize("document", [object(), {"x": b"bytes"}, {1, 2}])
def test_what_json_cannot_say_is_refused(document: object) -> None:
    with pytest.raises(TypeError):
        fingerprint(document)


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        fingerprint(float("nan"))
