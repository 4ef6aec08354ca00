"""Exact float32 matrix product of integers: any order of summation gives the same bits."""
