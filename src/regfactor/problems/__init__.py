"""Problems: data with a loss, and what is asked of the factors."""

from regfactor.problems.clusters import ClusterPoint, Clusters
from regfactor.problems.convex import Bound, Convex
from regfactor.problems.data import Data, Term
from regfactor.problems.design import Design
from regfactor.problems.factored import Factored

__all__ = ["Bound", "ClusterPoint", "Clusters", "Convex", "Data", "Design", "Factored", "Term"]
