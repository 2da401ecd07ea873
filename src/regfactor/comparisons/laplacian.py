"""Manifold regularization: machines that are smooth over a graph of all rows."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.metaestimators import available_if

from regfactor.comparisons import machines
from regfactor.comparisons.base import KernelMachine
from regfactor.comparisons.basis import MOST_FEATURES, basis_of
from regfactor.comparisons.deformed import DualSpace, IterativeSpace, PrimalSpace, Space
from regfactor.comparisons.graphs import NeighborGraph, Power
from regfactor.comparisons.targets import CLASSES, TARGETS, KnownTargets
from regfactor.core.params import Array, choose
from regfactor.fitting.parameters import COUNT, FINITE_NON_NEGATIVE, FINITE_POSITIVE, parametrized
from regfactor.kernels import Precomputed

SOLVERS = {"auto": None, "direct": False, "cg": True}
TASKS = {"auto": None, "classification": CLASSES, "regression": TARGETS}
LOSSES = {"hinge": machines.hinge, "squared_hinge": machines.squared_hinge}


def _decides(model: Any) -> bool:
    if is_classifier(model) or (model.task == "auto" and hasattr(model, "classes_")):
        return True
    raise AttributeError("decision_function is that of a classification; a regression has predict.")


class LaplacianMachine(KernelMachine):
    """f(x) = h(x) + b, h in a space with norm gamma_A |h|_K^2 + gamma_I/(l+u)^2 h'L^p h."""

    _parameter_constraints = {
        "gamma_A": [FINITE_POSITIVE],
        "gamma_I": [FINITE_NON_NEGATIVE],
        "laplacian_degree": [COUNT],
        "normalized": ["boolean"],
        "average": ["boolean"],
        "fit_intercept": ["boolean"],
        "max_iter": [COUNT],
        "tol": [FINITE_POSITIVE],
    }

    def _space(self, X: Any) -> Space:
        """Return the space of the kernel, deformed by the graph of the rows of X."""
        graph = NeighborGraph(self.n_neighbors, self.graph_gamma, self.normalized)
        iterative = choose(self.solver, SOLVERS, "solver")
        kernel = self._kernel().resolved(X)
        basis = basis_of(X, kernel, self.landmarks, bool(iterative), self.random_state)
        if isinstance(kernel, Precomputed):
            W = graph.affinities_of_gram(X)
        else:
            W = graph.affinities(X)
        form = Power(graph.laplacian_of(W), self.laplacian_degree)
        if self.average:
            c = self.gamma_I / X.shape[0] ** 2
        else:
            c = self.gamma_I
        if basis.dual:
            return DualSpace(basis, self.gamma_A, c, form)
        if iterative or (iterative is None and basis.table.shape[1] > MOST_FEATURES):
            return IterativeSpace(basis, self.gamma_A, c, form, self.tol, self.max_iter)
        return PrimalSpace(basis, self.gamma_A, c, form)

    @available_if(_decides)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """Return f of every row, one column for each class where there are more than two."""
        f = self._scores(X)
        if f.shape[1] == 1:
            return f[:, 0]
        return f


@parametrized
class LaplacianRLS(LaplacianMachine):
    r"""min over f of sum_labeled (y_i - f(x_i))^2 / l + gamma_A |f|_K^2 + gamma_I/(l+u)^2 f'L^p f.

    Laplacian regularized least squares (Belkin, Niyogi & Sindhwani 2006; Sindhwani, Niyogi & Belkin
    2005): kernel ridge regression on l labeled rows whose f must also vary little between neighbors
    among all l + u rows. L is the Laplacian of their neighbor graph, p its degree. The solution is
    sum_i k(x, x_i) a_i over all rows, with (J K + gamma_A l I + gamma_I l/(l+u)^2 L^p K) a = J y, J
    the indicator of labeled rows. With gamma_I = 0 it is scikit-learn's KernelRidge with alpha =
    gamma_A l on the labeled rows.

    Classes are regressed on as -1 and 1, one against the rest where there are more than two; the
    largest f wins.

    Parameters
    ----------
    gamma_A : float, default=1e-3
        Weight > 0 of the norm in the space of the kernel.
    gamma_I : float, default=1.0
        Weight >= 0 of the variation over the graph.
    kernel : str, Kernel or callable, default="rbf"
        "linear", "rbf", "poly", "precomputed" (X is then the square kernel matrix, and neighbors
        are nearest by it), a part of `regfactor.kernels`, or a function of two tables.
    n_neighbors : int, default=10
        Rows are joined in the graph where one is among the nearest of the other; all rows, where
        there are fewer.
    laplacian_degree : int, default=1
        p.
    gamma, degree, coef0 : default="scale", 3, 1.0
        Parameters of the kernel.
    graph_gamma : float or str, optional
        Joins of the graph weigh 1, or exp(-graph_gamma |x_i - x_j|^2); a number or "scale",
        "median", "neighbors".
    normalized : bool, default=True
        Whether L is I - D^-1/2 W D^-1/2 or D - W.
    average : bool, default=True
        False leaves out the division by (l+u)^2.
    fit_intercept : bool, default=False
        Whether f = h + b with b in neither penalty.
    task : {"auto", "classification", "regression"}, default="auto"
        What y holds. "auto": strings, truth values and integers are classes; several columns, or
        floats of which some is not whole, are targets. Floats that are all whole are classes if all
        rows are labeled and a class has two rows on average; otherwise they may be either, which is
        an error.
    unlabeled : object, optional
        The marker of unlabeled rows in y. Without it: -1, NaN, None or "" for classes, NaN for
        targets.
    solver : {"auto", "direct", "cg"}, default="auto"
        "direct": factorizations, in the number of rows (up to 4000) or of features. "cg":
        preconditioned conjugate gradients in the features, that never form a square matrix. "auto":
        direct unless there are more than 3000 features and more than 4000 rows.
    landmarks : int, "auto" or None, default="auto"
        For kernels that are not linear: the number of random rows whose kernel columns represent
        all (Nystrom). "auto" takes 1000 beyond 4000 rows, and else all, exactly, as None always
        does. No matrix of all pairs of rows is formed beyond 4000 rows, unless None asks for it.
    max_iter, tol : default=1000, 1e-8
        Limits of conjugate gradients: steps, and residual relative to the right-hand side.
    random_state : int, RandomState instance or None, default=None
        Chooses landmarks.

    Attributes
    ----------
    transduction_ : ndarray of the shape of y
        Classes or targets of all training rows, the given ones kept.
    classes_ : ndarray
        In a classification.
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        With a linear kernel; `dual_coef_` of the training rows, or of the landmarks, with others.
    intercept_ : float or ndarray
    objective_ : float
        Summed over outputs.
    n_iter_ : int
        Steps of conjugate gradients; 1 without them.

    See Also
    --------
    LaplacianSVM : With a hinge loss.
    LaplacianRegression : Without a kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from regfactor.baselines import LaplacianRLS
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> seen = np.full(200, -1)
    >>> seen[[0, 1, 2, 3]] = y[[0, 1, 2, 3]]
    >>> model = LaplacianRLS(gamma_I=100.0, gamma=5.0).fit(X, seen)
    >>> float(np.mean(model.transduction_ == y))
    1.0
    """

    gamma_A: float = 1e-3
    gamma_I: float = 1.0
    kernel: Any = "rbf"
    n_neighbors: int = 10
    laplacian_degree: int = 1
    _: KW_ONLY
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    graph_gamma: float | str | None = None
    normalized: bool = True
    average: bool = True
    fit_intercept: bool = False
    task: str = "auto"
    unlabeled: Any = None
    solver: str = "auto"
    landmarks: int | str | None = "auto"
    max_iter: int = 1000
    tol: float = 1e-8
    random_state: Any = None

    def _holds_classes(self) -> bool | None:
        return choose(self.task, TASKS, "task")

    def _solve(self, X: Any, given: KnownTargets) -> Array:
        space = self._space(X)
        table = space.basis.table
        c = np.zeros((table.shape[1], given.Y.shape[1]))
        b = np.zeros(given.Y.shape[1])
        loss = 0.0
        # one pattern, but for targets of which single ones are missing
        for rows, columns in given.patterns():
            Y = given.Y[np.ix_(rows, columns)]
            part = space.ridge(rows, Y, self.fit_intercept)
            residual = Y - table[rows] @ part
            if self.fit_intercept:
                b[columns] = residual.mean(axis=0)
            c[:, columns] = part
            loss += float(np.square(residual - b[columns]).sum()) / len(rows)
        self._publish(space.basis, c, b, given, X.dtype)
        self.objective_ = loss + space.norm(c)
        self.n_iter_ = max(space.steps, default=1)
        return table @ c + b

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of classes, or R^2 of targets."""
        predicted = self.predict(X)
        measure = r2_score if self._given.classes is None else accuracy_score
        return float(measure(y, predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        """Return the tags, with the task where it is given."""
        tags = super().__sklearn_tags__()
        if self.task == "classification":
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags()
        elif self.task == "regression":
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags()
            tags.target_tags.multi_output = True
        return tags


@parametrized
class LaplacianSVM(ClassifierMixin, LaplacianMachine):
    r"""min over f = h + b of sum_labeled max(0, 1 - y_i f(x_i)) / l + norm(h).

    norm(h) = gamma_A |h|_K^2 + gamma_I/(l+u)^2 h'L^p h. The Laplacian support vector machine
    (Belkin, Niyogi & Sindhwani 2006; Sindhwani, Niyogi & Belkin 2005), y_i = -1 or 1, one class
    against the rest where there are more than two. It is an ordinary support vector machine on the
    labeled rows in the space whose norm holds both penalties, and is solved as one: the hinge loss
    exactly, through the dual quadratic program (libsvm; liblinear without an intercept), the
    squared hinge loss by Newton's method in the primal. With gamma_I = 0 it is scikit-learn's SVC
    with C = 1/(2 gamma_A l) on the labeled rows.

    Parameters
    ----------
    gamma_A, gamma_I, kernel, n_neighbors, laplacian_degree, gamma, degree, coef0 :
        As in `LaplacianRLS`.
    graph_gamma, normalized, average, solver, landmarks, random_state :
        As in `LaplacianRLS`.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        The squared hinge loss scales to many labeled rows.
    fit_intercept : bool, default=True
        Whether to fit b, which is in neither penalty.
    unlabeled : object, optional
        The marker of unlabeled rows in y. Without it: -1, NaN, None or "".
    max_iter, tol : default=1000, 1e-6
        Limits of conjugate gradients, Newton's method (steps) and the quadratic program (thousands
        of steps, and how far f may be from the margin).

    Attributes
    ----------
    transduction_ : ndarray of shape (n_samples,)
        Classes of all training rows, the given ones kept.
    classes_ : ndarray
    coef_ or dual_coef_, intercept_, objective_ :
        As in `LaplacianRLS`.
    n_iter_ : int
        Steps of the machine that took most.

    See Also
    --------
    LaplacianRLS : With a squared loss, for targets too.
    ExpectationSVC : A machine that learns from unlabeled rows by expectations.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from regfactor.baselines import LaplacianSVM
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> seen = np.full(200, -1)
    >>> seen[[0, 1, 2, 3]] = y[[0, 1, 2, 3]]
    >>> model = LaplacianSVM(gamma_I=100.0, gamma=5.0).fit(X, seen)
    >>> float(np.mean(model.transduction_ == y))
    1.0
    """

    gamma_A: float = 1e-3
    gamma_I: float = 1.0
    kernel: Any = "rbf"
    n_neighbors: int = 10
    laplacian_degree: int = 1
    _: KW_ONLY
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    graph_gamma: float | str | None = None
    normalized: bool = True
    average: bool = True
    loss: str = "hinge"
    fit_intercept: bool = True
    unlabeled: Any = None
    solver: str = "auto"
    landmarks: int | str | None = "auto"
    max_iter: int = 1000
    tol: float = 1e-6
    random_state: Any = None

    def _holds_classes(self) -> bool:
        return CLASSES

    def _solve(self, X: Any, given: KnownTargets) -> Array:
        machine = choose(self.loss, LOSSES, "loss")
        space = self._space(X)
        rows = next(given.patterns())[0]
        Phi, coefficients = space.features(rows)
        fits = [
            machine(Phi, side, self.fit_intercept, self.tol, self.max_iter)
            for side in given.Y[rows].T
        ]
        v = np.column_stack([fit[0] for fit in fits])
        b = np.array([fit[1] for fit in fits])
        c = coefficients(v)
        loss = np.maximum(1 - given.Y[rows] * (Phi @ v + b), 0)
        if self.loss == "squared_hinge":
            loss = np.square(loss)
        self._publish(space.basis, c, b, given, X.dtype)
        self.objective_ = float(loss.mean(axis=0).sum() + np.square(v).sum())
        self.n_iter_ = max(1, *(fit[2] for fit in fits))
        return space.basis.table @ c + b
