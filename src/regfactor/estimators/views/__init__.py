"""Two tables of the same rows: shared codes, canonical correlation, and labels as a second view."""
