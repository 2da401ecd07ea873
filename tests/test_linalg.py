"""Array functions that stand below everything."""

import numpy as np
import pytest
import scipy.linalg

from regfactor._linalg import top_eigenpairs


@pytest.mark.parametrize("gives_up", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_the_greatest_eigenvalues_are_found_where_lapacks_driver_for_some_gives_up(gives_up, lower, monkeypatch):
    A = np.random.default_rng(0).normal(size=(12, 5))
    G = A @ A.T  # seven equal eigenvalues
    half = np.tril(G) if lower else np.triu(G)
    eigh = scipy.linalg.eigh

    def moody(*arguments, **options):
        if "subset_by_index" in options:
            raise scipy.linalg.LinAlgError("Internal Error.")
        return eigh(*arguments, **options)

    if gives_up:
        monkeypatch.setattr(scipy.linalg, "eigh", moody)
    values, vectors = top_eigenpairs(half, 3, lower=lower)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(G)[-3:], rtol=1e-12)
    np.testing.assert_allclose(G @ vectors, vectors * values, atol=1e-12)
