"""Exponential-family principal component analysis."""
