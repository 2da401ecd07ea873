"""Solvers: each yields iterates; `solve` chooses one and runs it."""

from regfactor.solvers.admm import Admm
from regfactor.solvers.alternating import Alternating
from regfactor.solvers.base import Solver, choose_solver, solve
from regfactor.solvers.closed_form import ClosedForm
from regfactor.solvers.douglas_rachford import DouglasRachford
from regfactor.solvers.em import EM
from regfactor.solvers.eta_search import EtaSearch
from regfactor.solvers.factored_fista import FactoredFista
from regfactor.solvers.fista import Fista
from regfactor.solvers.lbfgs import Lbfgs
from regfactor.solvers.lloyd import Lloyd
from regfactor.solvers.paths import path
from regfactor.solvers.pursuit import Pursuit

__all__ = [
    "EM",
    "Admm",
    "Alternating",
    "FactoredFista",
    "ClosedForm",
    "DouglasRachford",
    "EtaSearch",
    "Fista",
    "Lbfgs",
    "Lloyd",
    "Pursuit",
    "Solver",
    "choose_solver",
    "path",
    "solve",
]
