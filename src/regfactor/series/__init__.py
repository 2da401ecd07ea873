"""Vector time series."""
