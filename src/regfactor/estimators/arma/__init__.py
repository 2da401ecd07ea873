"""Vector time series: RegularizedARMA and what it hands back."""
