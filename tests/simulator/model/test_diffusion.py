"""States that diffuse along a network's cells, against a dense system."""

import mod_files
import numpy as np
import pytest

from clhines import InputError, Mechanism, Network, Simulation, discretise, sample_cells
from clhines.simulator.engines.reference import Reference
from clhines.simulator.model import compile
from clhines.simulator.network.copies import copies_of
from clhines.simulator.ranks.partition import Share

DT = 0.1
ENGINES = ("reference", "epochs", "epochs-gpu")
CABLE = discretise(sample_cells()[0], max_length=60)
SEEP = """
NEURON { SUFFIX seep RANGE D, w, start }
PARAMETER { D = 1 w = 1 start = 1 }
STATE { c q[2] }
INITIAL { c = start  FROM i = 0 TO 1 { q[i] = start*(i + 1) } }
BREAKPOINT { SOLVE mixed METHOD sparse }
KINETIC mixed {
    COMPARTMENT 2*w {c}
    COMPARTMENT i, (i + 1)*w {q}
    LONGITUDINAL_DIFFUSION D*w {c}
    LONGITUDINAL_DIFFUSION i, (2 - i)*D*w {q}
    ~ q[0] <-> q[1] (0.3*w, 0.2*w)
    ~ c << (0)
}
"""
PUTS = """
NEURON { SUFFIX puts POINTER p }
ASSIGNED { p }
BEFORE BREAKPOINT { p = 2 }
"""
MIXED = np.linalg.inv(np.eye(2) + DT * np.array([[0.3, -0.2], [-0.15, 0.1]]))  # reaction step of q
# Entries off the diagonal add up to about 1/dt at most, so that little cancels: the error of a step
# is some 60 roundings in float64 and float32
EPS = {"float64": 60 * 2.3e-16, "float32": 60 * 1.2e-7}


def built(cells=2, mechanism=SEEP, at="all"):
    net = Network([CABLE], num_cells=cells)
    nodes = net.nodes(at=at)
    random = np.random.default_rng(1)
    parameters = {"D": random.uniform(1, 50, len(nodes)), "w": random.uniform(0.5, 3, len(nodes))}
    group = net.insert(Mechanism.from_nmodl(mechanism), nodes, **parameters)
    group.parameters["start"] = random.uniform(0.1, 2, len(nodes))
    return net, group


def joints():
    first, nseg, sections = CABLE.first_node, CABLE.nseg, CABLE.sections
    pairs = [(first[s] + k, first[s] + k + 1) for s in range(len(nseg)) for k in range(nseg[s] - 1)]
    for s in range(1, len(nseg)):
        p, x = sections.parent[s], sections.parent_x[s]
        pairs.append((first[p] + min(int(x * nseg[p]), nseg[p] - 1), first[s]))
    return np.array(pairs)


def dense(net, group, volume, coefficient):
    """Return the matrix of a state's step in all nodes; rows are divided by volume * length/dt."""
    length = np.tile((CABLE.sections.length / CABLE.nseg)[CABLE.section], net.num_cells)
    n = net.forest.num_nodes
    v, flow = np.zeros(n), np.zeros(n)
    v[group.nodes], flow[group.nodes] = volume, coefficient
    a = np.eye(n)
    for cell in net.forest.cell_offsets[:-1]:
        for i, j in joints() + cell:
            if v[i] > 0 and v[j] > 0:
                g = (flow[i] + flow[j]) / (length[i] + length[j])
                for here, there in ((i, j), (j, i)):
                    share = DT * g / (v[here] * length[here])
                    a[here, here] += share
                    a[here, there] -= share
    return a[np.ix_(group.nodes, group.nodes)], v[group.nodes] * length[group.nodes]


def expected(net, group, steps):
    """Return (3, count): c and q after steps of reaction, then diffusion."""
    w, flow, start = (group.parameters[name] for name in ("w", "w", "start"))
    flow = group.parameters["D"] * w
    rows = np.stack([start, start, 2 * start])
    systems = [dense(net, group, *of) for of in ((2 * w, flow), (w, 2 * flow), (2 * w, flow))]
    amounts = [(amount @ x) for (_, amount), x in zip(systems, rows, strict=True)]
    for _ in range(steps):
        rows[1:] = MIXED @ rows[1:]
        rows = np.stack([np.linalg.solve(a, x) for (a, _), x in zip(systems, rows, strict=True)])
    np.testing.assert_allclose(systems[0][1] @ rows[0], amounts[0], 1e-12)  # conserved
    return rows


def states(sim):
    result = sim.arrays()
    return np.stack([result[f"state0_{name}"] for name in ("c", "q__0", "q__1")])


def simulated(engine, queue, dtype="float64", steps=5, **options):
    net, group = built(**options)
    sim = Simulation(net, dt=DT, engine=engine, dtype=dtype, queue=queue)
    sim.run(steps * DT)
    return sim, expected(net, group, steps)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("engine", [*ENGINES, "auto"])
def test_steps_are_those_of_dense_systems(double_queue, engine, dtype):
    sim, want = simulated(engine, double_queue, dtype if engine != "reference" else "float64")
    assert np.ptp(want, axis=1).min() > 0.3
    np.testing.assert_allclose(states(sim), want, 5 * EPS[dtype])


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_flows_where_the_mechanism_is_not(double_queue, engine):
    """Diffuse in some sections, one with a gap: each connected piece is a separate tree."""
    chosen = np.random.default_rng(2).random(len(CABLE.nseg)) < 0.6
    some = chosen[CABLE.section]
    long = np.argmax(CABLE.nseg)
    some[CABLE.section == long] = True
    some &= CABLE.area > 0
    some[CABLE.first_node[long] + 2] = False
    sim, want = simulated(engine, double_queue, cells=1, at=np.flatnonzero(some))
    (one,) = compile(sim.network, DT).diffusions
    assert 2 < one.forest.num_cells < some.sum() / 2
    np.testing.assert_allclose(states(sim), want, 5 * EPS["float64"])


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_go_on_from_states_and_files(double_queue, engine, tmp_path):
    sim, want = simulated(engine, double_queue)
    np.testing.assert_allclose(states(sim), want, 5 * EPS["float64"])
    half = simulated(engine, double_queue, steps=2)[0]
    half.save(tmp_path / "state.npz")
    half.network.save(tmp_path / "network.npz")
    net = Network.load(tmp_path / "network.npz")
    again = Simulation(net, dt=DT, engine=engine, queue=double_queue)
    again.restore(tmp_path / "state.npz")
    again.run(3 * DT)
    np.testing.assert_array_equal(states(again), states(sim))
    again.reset()
    again.set(again.network.groups[0], D=0.0)
    again.run(5 * DT)
    start = sim.network.groups[0].parameters["start"]
    np.testing.assert_allclose(states(again)[0], start, 5 * EPS["float64"])


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_and_recordings(double_queue, engine):
    sim, want = simulated(engine, double_queue)
    once = built()[0]
    for many in (copies_of(once, 3), None):
        made = Simulation(once if many is None else many, dt=DT, engine=engine, queue=double_queue)
        copies = made if many is not None else made.replicate(3)
        group = copies.network.groups[0]
        recording = copies.record("q[1]", group)
        recorded = copies.run(5 * DT)[recording]
        assert group.nodes.shape == (3 * want.shape[1],)
        np.testing.assert_allclose(states(copies), np.tile(states(sim), 3), 5 * EPS["float64"])
        np.testing.assert_array_equal(recorded[-1], states(copies)[2])


SEES = """
NEURON { SUFFIX sees NONSPECIFIC_CURRENT i POINTER here, there RANGE g }
PARAMETER { g = 1e-5 }
ASSIGNED { v (mV) i (mA/cm2) here there }
STATE { x }
INITIAL { x = 0 }
BREAKPOINT { SOLVE states METHOD cnexp i = g*(there + x)*(v + 60) }
DERIVATIVE states { x' = (here - x)/2 }
"""


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("secondorder", [0, 2])
def test_beside_pointers_and_variables_set_in_turn(double_queue, engine, secondorder):
    """Pointers read a concentration before diffusion at its own node and after it elsewhere."""
    net, group = built(cells=3)
    nodes, n = group.nodes, len(group) // 3
    sees = net.insert(Mechanism.from_nmodl(SEES), nodes)
    net.set_pointer(sees, "here", (group, "c", np.arange(3 * n)))
    others = np.concatenate([k * n + np.roll(np.arange(n), 7) for k in range(3)])
    net.set_pointer(sees, "there", (group, "c", others))
    turns = net.insert(mod_files.ours("nmodl/nmlast"), nodes)
    runs = []
    for options in ({"engine": "reference"}, {"engine": engine, "queue": double_queue}):
        sim = Simulation(net, DT, secondorder=secondorder, **options)
        numbers = sim.record("v", nodes), sim.record("x", sees), sim.record("m", turns)
        numbers += (sim.record("c", group),)
        results = [sim.run(t) for t in (0.7, 0.1, 4.2)]
        runs.append([np.concatenate([r[k] for r in results]) for k in numbers])
    for values, want in zip(runs[1], runs[0], strict=True):
        assert np.ptp(want) > 1e-3
        np.testing.assert_allclose(values, want, 0, 50 * EPS["float64"] * np.abs(want).max())


def test_engine_steps_refuses(double_queue):
    with pytest.raises(InputError, match="^engine='steps' takes no LONGITUDINAL_DIFFUSION"):
        simulated("steps", double_queue)


def test_ranks_have_the_trees_of_their_cells():
    model = compile(built(cells=3)[0], DT)

    def advanced(own):
        run = Reference(own)
        run.begin(5, [])
        run.advance(0, 5, 0)
        return run.variables.states[0]["c"]

    parts = [advanced(Share(model, first, end).model()) for first, end in ((0, 1), (1, 3))]
    np.testing.assert_array_equal(np.concatenate(parts), advanced(model))


def test_what_cannot_be_had_is_refused_in_one_line():
    net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2)
    net.insert(Mechanism.from_nmodl(SEEP), [0, 1])
    with pytest.raises(InputError, match="^seep: LONGITUDINAL_DIFFUSION needs lengths of segments"):
        Simulation(net)
    ion = SEEP.replace("RANGE D", "USEION x WRITE xi VALENCE 1 RANGE D").replace("c = ", "xi = ")
    ion = ion.replace("STATE { c ", "STATE { xi ").replace("{c}", "{xi}").replace("~ c ", "~ xi ")
    net, _ = built(mechanism=ion)
    net.insert(Mechanism.from_nmodl(ion.replace("seep", "second")), net.nodes())
    with pytest.raises(InputError, match="^second: xi diffuses by another mechanism, too"):
        Simulation(net)
    net, group = built(mechanism=SEEP.replace("~ c << (0)", ""))
    puts = net.insert(Mechanism.from_nmodl(PUTS), group.nodes[:1])
    net.set_pointer(puts, "p", (group, "c", [0]))
    with pytest.raises(InputError, match="^puts: pointer p points to c of seep, which uses it"):
        Simulation(net)
