"""Automatic semi-supervised learning: pools of models, weighed by what they did not see."""
