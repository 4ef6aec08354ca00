"""Annealing of a spin glass whose ground state energy is known: integers only, the same trajectory everywhere."""
