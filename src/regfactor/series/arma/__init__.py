"""Regularized vector ARMA models, convex and certified."""
