"""Supervised nonlinear factorization: latent rows that reconstruct inputs and targets."""
