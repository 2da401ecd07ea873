"""Supervised nonlinear factorization, and its choice by labels."""
