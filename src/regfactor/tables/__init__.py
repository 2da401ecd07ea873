"""One table: subspaces, completion, robust subspaces, sparse coding, exponential families."""
