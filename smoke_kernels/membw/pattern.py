"""The pattern that membw copies: word i is mix(i WEYL ^ key), as hashing.counter_words makes it on the host."""

from typing import Final

STREAM: Final = 21
