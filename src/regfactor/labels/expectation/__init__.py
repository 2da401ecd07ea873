"""Classification from labels and from expectations about unlabeled rows."""
