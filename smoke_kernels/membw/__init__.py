"""Memory bandwidth: a device copy of a known pattern."""
