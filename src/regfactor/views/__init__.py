"""Two views of the same rows: shared subspaces, canonical correlation, reduced-rank regression."""
