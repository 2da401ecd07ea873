"""Solvers: each yields iterates; `solve` chooses one and runs it."""

from regfactor.solvers.alternating import Alternating
from regfactor.solvers.atoms import Atoms
from regfactor.solvers.base import Solver
from regfactor.solvers.choose import choose_solver, solve
from regfactor.solvers.closed import Closed
from regfactor.solvers.lagged import DouglasRachford
from regfactor.solvers.lbfgs import Lbfgs
from regfactor.solvers.lloyd import Lloyd
from regfactor.solvers.moments import forward_from_reverse, reverse_from_forward
from regfactor.solvers.paths import path
from regfactor.solvers.proximal import Fista
from regfactor.solvers.pursuit import Pursuit
from regfactor.solvers.splitting import Admm
from regfactor.solvers.two_view import EtaSearch

__all__ = [
    "Admm",
    "Alternating",
    "Atoms",
    "Closed",
    "DouglasRachford",
    "EtaSearch",
    "Fista",
    "Lbfgs",
    "Lloyd",
    "Pursuit",
    "Solver",
    "choose_solver",
    "forward_from_reverse",
    "path",
    "reverse_from_forward",
    "solve",
]
