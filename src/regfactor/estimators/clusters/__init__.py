"""Clusters under Bregman divergences: hard, soft, and cuts of graphs."""
