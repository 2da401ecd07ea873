"""Exponential-family principal components, and how their rank and strength are chosen."""
