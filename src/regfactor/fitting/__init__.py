"""The one way through a fit: inputs, labels, the shared estimator, selection, scoring."""
