"""One table: certified subspaces, robust or sparse, the open door to any factor model, and kernel embeddings."""
