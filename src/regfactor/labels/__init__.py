"""Few labels, many rows: semi-supervised classification and regression."""
