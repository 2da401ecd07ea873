"""Graph member: labels spread along a graph of nearest neighbors."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from sklearn.neighbors import NearestNeighbors

from regfactor.core.params import Array, frozen
from regfactor.labels.semi_supervised.labeled_rows import LabeledRows
from regfactor.labels.semi_supervised.member import ClassMember, ClassModel, FittedMember

N_NEIGHBORS = 10
SCALE_NEIGHBOR = 7  # whose distance is the scale of a row
SMALLEST_SCALE = 0.1  # relative to the median scale; rows with many copies have none of their own
SPREAD = 0.9  # share of a row's label that comes from its neighbors
SMALLEST_SHARE = 1e-6
MAX_BRUTE_ROWS = 2000  # among which distances to all rows are faster than a tree
CG_TOL = 1e-6
MAX_CG_STEPS = 200


@frozen
class GraphEnergies(ClassModel):
    """log of the mean of the shares of classes of the nearest fitted rows."""

    fitted_rows: Array
    n_neighbors: int
    scales: Array
    shares: Array

    def energies(self, rows: Array) -> Array:
        """Return an energy for each row and class."""
        neighbors = NearestNeighbors(n_neighbors=self.n_neighbors, algorithm="brute")
        distances, places = neighbors.fit(self.fitted_rows).kneighbors(rows)
        own = np.maximum(distances[:, -1], smallest_scale(self.scales))
        weights = np.exp(-(distances**2) / (own[:, None] * self.scales[places])) + 1e-12
        weights /= weights.sum(axis=1, keepdims=True)
        found = np.einsum("ik,ikc->ic", weights, self.shares[places])
        return np.log(np.maximum(found, SMALLEST_SHARE))


class GraphMember(ClassMember):
    """min over F of tr F'(I - .9 S) F / 2 - tr F'B, S the normalized graph of neighbors.

    The labels of every class spread the same mass.
    """

    name = "graph"
    assumes = "neighbors share a class"
    temperatures = (0.5, 1.0, 2.0, 4.0)
    usual_temperature = 1.5

    def fit(self) -> FittedMember:
        """Return the member with all labels, and without each fold, as one system."""
        data = self.data
        n_neighbors = min(N_NEIGHBORS, len(data.rows) - 1)
        algorithm = "brute" if len(data.rows) <= MAX_BRUTE_ROWS else "auto"
        neighbors = NearestNeighbors(n_neighbors=n_neighbors, algorithm=algorithm).fit(data.rows)
        distances, places = neighbors.kneighbors()
        scales = distances[:, min(SCALE_NEIGHBOR, n_neighbors) - 1]
        scales = np.maximum(scales, smallest_scale(scales))
        graph = normalized_graph(distances, places, scales)
        spread = conjugate_gradients(graph, masses(data))
        n_fits = len(data.in_use)
        shares = spread.reshape(len(data.rows), n_fits, data.n_classes)
        shares = np.maximum(shares, 0.0) + 1e-9
        shares /= shares.sum(axis=2, keepdims=True)
        energies = np.log(np.maximum(shares, SMALLEST_SHARE))
        of_labels = energies[data.labeled].swapaxes(0, 1)
        model = GraphEnergies(data.rows, n_neighbors, scales, shares[:, 0].copy())
        return self._fitted(model, energies[:, 0].copy(), data.held_out(of_labels))


def smallest_scale(scales: Array) -> float:
    """Return the least scale of a row, so that rows with many copies keep other neighbors."""
    return SMALLEST_SCALE * float(np.median(scales)) + 1e-12


def normalized_graph(distances: Array, places: Array, scales: Array) -> scipy.sparse.csr_array:
    """Return D^-1/2 W D^-1/2 of w_ij = exp(-d_ij^2 / (s_i s_j)), the larger of both directions."""
    n_rows, n_neighbors = places.shape
    weights = np.exp(-(distances**2) / (scales[:, None] * scales[places]))
    starts = np.arange(0, n_rows * n_neighbors + 1, n_neighbors)
    directed = scipy.sparse.csr_array(
        (weights.ravel(), places.ravel(), starts),
        shape=(n_rows, n_rows),
    )
    graph = directed.maximum(directed.T).tocsr()
    degrees = graph.sum(axis=1) + 1e-12
    half = scipy.sparse.diags_array(1.0 / np.sqrt(degrees))
    return (half @ graph @ half).tocsr()


def masses(data: LabeledRows) -> Array:
    """Return the right sides: of each fit and class, mass one over the labels in use."""
    weighted = data.label_weights[:, None] * data.label_shares
    used = data.in_use[:, :, None] * weighted
    used = used / used.sum(axis=1, keepdims=True)
    out = np.zeros((len(data.rows), used.shape[0] * used.shape[2]))
    out[data.labeled] = used.swapaxes(0, 1).reshape(len(data.labeled), -1)
    return out


def conjugate_gradients(graph: scipy.sparse.csr_array, right: Array) -> Array:
    """Return (I - .9 S)^-1 B, all columns at once."""
    solution = np.zeros_like(right)
    residual = right.copy()
    direction = residual.copy()
    size = np.einsum("ij,ij->j", residual, residual)
    enough = CG_TOL**2 * size
    for _ in range(MAX_CG_STEPS):
        image = direction - SPREAD * (graph @ direction)
        step = size / np.maximum(np.einsum("ij,ij->j", direction, image), 1e-300)
        solution += step * direction
        residual -= step * image
        new_size = np.einsum("ij,ij->j", residual, residual)
        if np.all(new_size <= enough):
            break
        direction *= new_size / np.maximum(size, 1e-300)
        direction += residual
        size = new_size
    return solution
