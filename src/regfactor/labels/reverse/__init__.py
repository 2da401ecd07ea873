"""Reverse prediction: inputs are reconstructed from targets or classes, given and free ones."""
