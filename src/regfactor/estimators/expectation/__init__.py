"""Classification from what is expected of unlabeled rows."""
