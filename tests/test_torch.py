"""Solves in PyTorch, by its own checks of gradients, against its own dense solver."""

import numpy as np
import pytest
from solvers import make_solver
from systems import dissimilar, make_system
from tolerances import assert_close

from bench.made import caterpillar, chain, star
from clhines import Forest, InputError, PivotError, reference

torch = pytest.importorskip("torch")

SHAPES = [star(5), caterpillar(6), chain(1), *dissimilar(1, most=9)]


def tensors(system):
    return {
        name: None if a is None else torch.from_numpy(a.copy()).requires_grad_()
        for name, a in system.arrays.items()
    }


@pytest.fixture(params=[(True, None), (False, 2)], ids=["symmetric", "unsymmetric"])
def case(request, fast_queue, needs):
    needs(fast_queue, np.float64)
    symmetric, rows = request.param
    forest = Forest.from_parents(SHAPES)
    system = make_system(forest, symmetric=symmetric, rows=rows)
    system.u[forest.parent < 0] = 0.5  # large ones would spoil the differences
    if system.l is not None:
        system.l[forest.parent < 0] = 0.5
    return system, make_solver(fast_queue, forest, "contraction_6")


def dense_solve(system, given):
    """The solution by torch.linalg, differentiable, of all cells in one matrix."""
    forest = system.forest
    child = np.flatnonzero(forest.parent >= 0)
    up = forest.parent[child].astype(np.int64)
    matrix = torch.diag(given["d"])
    lower = given["u"] if given["l"] is None else given["l"]
    ends = torch.from_numpy(up), torch.from_numpy(child)
    matrix = matrix.index_put(ends, given["u"][child])
    matrix = matrix.index_put(ends[::-1], lower[child])
    rows = torch.atleast_2d(given["b"])
    return torch.linalg.solve(matrix, rows.mT).mT.reshape(given["b"].shape)


@pytest.mark.parametrize("factored", [False, True])
def test_values_and_gradients_are_those_of_a_dense_solve(case, factored):
    import clhines

    system, solver = case
    ours, theirs = tensors(system), tensors(system)
    if factored:
        matrix = {name: ours[name] for name in "dul"}
        x = clhines.torch.factor(solver, **matrix).solve(ours["b"])
    else:
        x = clhines.torch.solve(solver, **ours)
    truth = dense_solve(system, theirs)
    assert_close(system.forest, x.detach().numpy(), truth.detach().numpy(), np.float64)
    x.sin().sum().backward()
    truth.sin().sum().backward()
    for name, t in ours.items():
        if t is not None:  # a gradient is of the order 1 here: some hundred roundings
            torch.testing.assert_close(t.grad, theirs[name].grad, rtol=0, atol=2e-14)


def test_gradcheck(case):
    import clhines

    system, solver = case
    given = tensors(system)
    names = [name for name, t in given.items() if t is not None]

    def plain(*values):
        return clhines.torch.solve(solver, **dict(zip(names, values, strict=True)))

    def transposed(*values):
        changed = dict(zip(names, values, strict=True))
        b = changed.pop("b")
        return clhines.torch.factor(solver, **changed).solve(b, transpose=True)

    for solve in (plain, transposed):
        assert torch.autograd.gradcheck(solve, [given[name] for name in names])
        assert torch.autograd.gradgradcheck(solve, [given[name] for name in names])


def test_transposed_solution(case):
    import clhines

    system, solver = case
    given = tensors(system)
    factors = clhines.torch.factor(solver, given["d"], given["u"], l=given["l"])
    x = factors.solve(given["b"], transpose=True).detach().numpy()
    upper = system.u if system.l is None else system.l
    truth = reference.solve_serial(system.forest, system.d, upper, system.b, l=system.u)
    assert_close(system.forest, x, truth, np.float64)


def test_what_cannot_be_done_is_refused(case):
    import clhines

    system, solver = case
    given = tensors(system)
    with pytest.raises(InputError, match=r"u has dtype torch.float32; expected torch.float64"):
        clhines.torch.solve(solver, **{**given, "u": given["u"].float()})
    with pytest.raises(InputError, match=r"b is ndarray; expected a torch.Tensor"):
        clhines.torch.solve(solver, **{**given, "b": system.b})
    with pytest.raises(InputError, match=r"solver is str; expected a clhines.Solver"):
        clhines.torch.solve("solver", **given)
    with pytest.raises(PivotError):
        clhines.torch.solve(solver, **{**given, "d": 0 * given["d"]})
    d = given["d"].detach().clone()
    factors = clhines.torch.factor(solver, d, given["u"], l=given["l"])
    d += 1  # as an optimiser does; the factors are of what was there before
    system.assert_solved(factors.solve(given["b"]).detach().numpy())


@pytest.mark.neuron
def test_a_cell_is_found_again_from_a_recording_made_by_neuron(fast_queue, needs):
    """Ra, cm and g_pas that NEURON has simulated with, from voltages at two places.

    Both take the same backward-Euler steps; the loss is flat to some 1e-9 of the parameters.
    """
    needs(fast_queue, np.float64)
    pytest.importorskip("neuron")
    from neuron_cells import h, neuron_sections

    import clhines
    from clhines import Solver, discretise, sample_cells

    truth = np.array([140.0, 0.9, 8e-5])
    made = discretise(sample_cells()[1], max_length=100, Ra=truth[0], cm=truth[1])
    sections = neuron_sections(made)
    for section, count in zip(sections, made.nseg.tolist(), strict=True):
        section.nseg = count
        for segment in section:
            segment.pas.g, segment.pas.e = truth[2], 0.0
    clamp = h.IClamp(sections[0](0.5))
    clamp.delay, clamp.dur, clamp.amp = 0, 1e9, 0.1
    last = len(sections) - 1
    at = [sections[0](0.5), sections[last](0.5)]
    h.secondorder, h.dt, steps = 0, 1.0, 40
    h.finitialize(0.0)
    recorded = []
    for _ in range(steps):
        h.fadvance()
        recorded.append([segment.v for segment in at])
    recorded = torch.tensor(recorded, dtype=torch.float64)

    cable = discretise(sample_cells()[1], nseg=made.nseg, Ra=1.0, cm=1.0)
    solver = Solver(Forest(cable.parent), queue=fast_queue)
    arrays = cable.area, cable.g_axial, cable.g_total
    area, g_axial, g_total = (torch.from_numpy(a.copy()) for a in arrays)
    current = torch.zeros_like(area)
    current[cable.soma] = 0.1
    places = [cable.soma, cable.node(last, 0.5)]

    def loss(log):
        resistivity, cm, g_pas = log.exp()
        c = 1e-5 * cm * area
        d = c + 1e-2 * g_pas * area + g_total / resistivity
        factors = clhines.torch.factor(solver, d, -g_axial / resistivity)
        v, kept = torch.zeros_like(area), []
        for _ in range(steps):
            v = factors.solve(c * v + current)
            kept.append(v[places])
        return ((torch.stack(kept) - recorded) ** 2).mean()

    exact = torch.log(torch.from_numpy(truth))
    scale = float((recorded**2).mean())
    assert float(loss(exact)) <= (1e-9) ** 2 * scale  # as far as the two agree elsewhere
    log = torch.log(torch.tensor([80.0, 1.3, 2e-4], dtype=torch.float64)).requires_grad_()
    optimiser = torch.optim.LBFGS([log], max_iter=80, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        value = loss(log)
        value.backward()
        return value

    optimiser.step(closure)
    np.testing.assert_allclose(log.exp().detach().numpy(), truth, rtol=1e-3)
