"""The chain: one module for each layer, in the order in which a failure explains the next."""
