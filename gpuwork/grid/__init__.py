"""Grids of parameters: what a project asks for, as runs, each in a folder of its own."""
