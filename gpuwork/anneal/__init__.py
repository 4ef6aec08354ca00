"""Simulated annealing of models of the user's own: one chain for each thread of a GPU, or of numba's simulator."""
