"""Loops over entries of large tables: compiled kernels, each with a twin in numpy."""
