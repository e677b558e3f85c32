"""Random networks, delays and `hh` against NEURON, spike for spike."""

from types import SimpleNamespace

import numpy as np

import clhines
from bench.measures.checks.common import (
    Outcome,
    in_steps,
    neuron,
    neuron_cell,
    simulate,
    start,
    unlike,
)
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.synthetic import ring_cell

DTS = (0.1, 0.05, 0.025)


def random_network(seed):
    """Draw the description of a network, for both simulators."""
    rng = np.random.default_rng([14, seed])
    dt, count = float(rng.choice(DTS)), int(rng.integers(3, 9))
    cables = []
    for _ in range(count):
        levels, samples, stems = rng.integers(1, 4, 3).tolist()
        ball, lengths = float(rng.uniform(5, 12)), (120.0, 30.0)
        tree = ring_cell(
            levels, 0.6, samples, rng, stems=stems, branch_lengths=lengths, soma_radius=ball
        )
        Ra, cm = rng.uniform(80, 200), rng.uniform(0.7, 1.5)
        cables.append(discretise(tree, max_length=rng.uniform(25, 90), Ra=Ra, cm=cm))
    starts = np.cumsum([0, *(c.num_nodes for c in cables)])
    active = [np.append(True, rng.random(c.sections.num_sections - 1) < 0.2) for c in cables]
    membrane = [c.area > 0 for c in cables]
    anywhere = [np.flatnonzero(m) for m in membrane]

    def places(number):
        cell = rng.integers(0, count, number)
        return cell, np.array([rng.choice(anywhere[c]) for c in cell])

    synapses = {}
    for name in ("expsyn", "exp2syn"):
        cell, node = places(2 * count)
        inhibits = rng.random(len(cell)) < 0.3
        taus = {"tau": rng.uniform(0.5, 5, len(cell))}
        if name == "exp2syn":
            taus = {"tau1": rng.uniform(0.1, 2, len(cell)), "tau2": rng.uniform(2.5, 12, len(cell))}
        synapses[name] = SimpleNamespace(
            cell=cell, node=node, params={**taus, "e": np.where(inhibits, -75.0, 0.0)}
        )
    links = links_of(rng, dt, count, synapses)
    cell, node = places(count)
    clamps = SimpleNamespace(
        cell=cell, node=node, params={
            "delay": rng.uniform(0, 100, count), "dur": rng.uniform(50, 400, count),
            "amp": rng.uniform(0.0, 0.6, count),
        },
    )  # fmt: skip
    return SimpleNamespace(
        rng=rng, dt=dt, cables=cables, starts=starts, active=active, synapses=synapses,
        links=links, clamps=clamps, threshold=rng.uniform(-25, 5, count),
        celsius=float(rng.choice([6.3, 10.0, 16.3])), secondorder=bool(rng.random() < 0.3),
        v_init=float(rng.uniform(-75, -60)), stimuli=stimuli(rng, synapses),
        membranes=[membranes(rng, c, a) for c, a in zip(cables, active)],
    )  # fmt: skip


def links_of(rng, dt, count, synapses):
    links = []
    for name, group in synapses.items():
        m = 3 * len(group.cell)
        target, source = rng.integers(0, len(group.cell), m), rng.integers(0, count, m)
        weight = rng.uniform(0.0005, 0.008, m)
        delay = np.where(
            rng.random(m) < 0.5, rng.uniform(dt, 12.0, m), rng.integers(2, 100, m) * (dt / 2)
        )
        links.append(
            SimpleNamespace(name=name, source=source, target=target, weight=weight, delay=delay)
        )
    return links


def stimuli(rng, synapses):
    """Trains of events from outside: synapse, begin, interval, number, delay and weight."""
    return [
        (name, int(rng.integers(0, len(group.cell))), float(rng.uniform(1, 50)),
         float(rng.uniform(7, 60)), int(rng.integers(1, 8)), float(rng.uniform(0.5, 5)),
         float(rng.uniform(0.005, 0.03)))
        for name, group in synapses.items() for _ in range(3)
    ]  # fmt: skip


def membranes(rng, cable, active):
    segment = cable.area > 0
    hh = np.flatnonzero(segment & active[cable.section])
    pas = np.flatnonzero(segment & ~active[cable.section])
    high = {"gnabar": 0.12, "gkbar": 0.036, "gl": 0.0003}
    values = {k: g * rng.uniform(0.7, 1.4, len(hh)) for k, g in high.items()}
    return {
        "hh": (hh, {**values, "el": rng.uniform(-58, -52, len(hh))}),
        "pas": (
            pas,
            {"g": rng.uniform(2e-5, 3e-4, len(pas)), "e": rng.uniform(-72, -60, len(pas))},
        ),
    }


def ours(given):
    net = clhines.Network(given.cables)
    for name in ("hh", "pas"):
        some = [m[name] for m in given.membranes]
        nodes = np.concatenate([n + b for (n, _), b in zip(some, given.starts)])
        params = {k: np.concatenate([p[k] for _, p in some]) for k in some[0][1]}
        if len(nodes):
            more = {"celsius": given.celsius} if name == "hh" else {}
            net.insert(name, nodes, **params, **more)
    groups = {
        name: net.add(name, given.starts[g.cell] + g.node, **g.params)
        for name, g in given.synapses.items()
    }
    clamps = given.clamps
    net.add("iclamp", given.starts[clamps.cell] + clamps.node, **clamps.params)
    for link in given.links:
        net.connect(link.source, groups[link.name], link.target, link.weight, link.delay)
    for name, index, begin, interval, number, delay, weight in given.stimuli:
        times = begin + interval * np.arange(number) + delay
        net.add_event(groups[name], index, times, weight)
    net.threshold = given.threshold
    return net


def theirs(given, duration, more=0.0):
    """Make and run the network in NEURON, with capacitances enlarged by a fraction."""
    h = neuron()
    cells = [neuron_cell(cable) for cable in given.cables]
    for cell, membrane, active in zip(cells, given.membranes, given.active):
        neuron_membrane(cell, membrane, active)
        for section in cell.sections:
            section.cm *= 1 + more
    kept = neuron_processes(given, cells)
    times, ids = h.Vector(), h.Vector()
    for c, (cell, cable) in enumerate(zip(cells, given.cables)):
        soma = cell.segments[cable.soma]
        con = h.NetCon(soma._ref_v, None, sec=soma.sec)
        con.threshold = given.threshold[c]
        con.record(times, ids, c)
        kept.append(con)
    segments = [segment for cell in cells for _, segment in sorted(cell.segments.items())]
    v = [h.Vector().record(segment._ref_v) for segment in segments]
    h.celsius = given.celsius
    start(given.dt, given.v_init, given.secondorder)
    steps = round(duration / given.dt)
    for _ in range(steps + 1):  # NEURON finds the spikes of a step when the next one begins
        h.fadvance()
    h.celsius = 6.3
    spikes = [spike for spike in in_steps(times, ids, given.dt) if spike[0] <= steps]
    return spikes, np.array([np.array(x)[: steps + 1] for x in v]).T


def neuron_membrane(cell, membrane, active):
    for section, is_active in zip(cell.sections, active):
        section.insert("hh" if is_active else "pas")
        if is_active:
            section.ena, section.ek = 50.0, -77.0
    for name, (nodes, params) in membrane.items():
        for k, node in enumerate(nodes.tolist()):
            for key, values in params.items():
                setattr(getattr(cell.segments[node], name), key, values[k])


def neuron_processes(given, cells):
    """Make synapses, clamps, connections and events from outside; return objects to keep alive."""
    h, built = neuron(), {}
    groups = {**given.synapses, "iclamp": given.clamps}
    for name, kind in (("expsyn", h.ExpSyn), ("exp2syn", h.Exp2Syn), ("iclamp", h.IClamp)):
        places = zip(groups[name].cell.tolist(), groups[name].node.tolist())
        built[name] = [kind(cells[c].segments[n]) for c, n in places]
        assign(built[name], groups[name].params)
    kept = [built]
    somas = [cell.segments[cable.soma] for cell, cable in zip(cells, given.cables)]
    for link in given.links:
        links = zip(link.source.tolist(), link.target, link.weight, link.delay)
        for s, target, weight, delay in links:
            con = h.NetCon(somas[s]._ref_v, built[link.name][target], sec=somas[s].sec)
            con.weight[0], con.delay = weight, delay
            kept.append(con)
    for name, index, begin, interval, number, delay, weight in given.stimuli:
        stim = h.NetStim()
        stim.start, stim.interval, stim.number, stim.noise = begin, interval, number, 0
        con = h.NetCon(stim, built[name][index])
        con.delay, con.weight[0] = delay, weight
        kept += [stim, con]
    return kept


def assign(processes, params):
    for name, values in params.items():
        for process, value in zip(processes, values.tolist(), strict=True):
            setattr(process, name, value)


# Some of these networks are chaotic: roundings grow a thousandfold in 50 ms, in NEURON too. A
# second run of NEURON, with all capacitances larger by `MORE`, shows how long its result is
# determined. (Its slopes, differences of currents over 0.001 mV, carry roundings of that size.) The
# comparison ends when the two runs of NEURON are `APART`; until then our run must be nearer to the
# first run than the second ever was, or within `V_BOUND`.
MORE, APART, V_BOUND = 1e-11, 1e-2, 1e-6  # a fraction; mV; mV


def determined(v, other):
    """Find the steps until two runs of NEURON are apart, and the difference allowed in each."""
    gap = np.maximum.accumulate(np.abs(v - other).max(axis=1))
    return int(np.searchsorted(gap, APART)), np.maximum(gap, V_BOUND)


def networks(settings):
    engines = [engine for engine in settings.engines if engine != "reference"]  # hours, of 100
    outcome = Outcome(
        "networks", f"{settings.duration:g} ms, usetable_hh 0, engines {', '.join(engines)}"
    )
    for seed in settings.progress(range(settings.seeds)):
        given = random_network(seed)
        spikes, v = theirs(given, settings.duration)
        end, allowed = determined(v, theirs(given, settings.duration, MORE)[1])
        early = [spike for spike in spikes if spike[0] < end]
        outcome.add("networks that are chaotic", end < len(v))
        outcome.add("spikes in NEURON", len(spikes))
        outcome.add("before chaos", len(early))
        for engine in engines[: 2 if seed % 10 == 0 else 1]:
            network = ours(given)
            nodes = np.flatnonzero(network.area > 0)
            result = simulate(
                network, settings, engine, settings.duration, [("v", nodes)], dt=given.dt,
                v_init=given.v_init, secondorder=given.secondorder,
            )  # fmt: skip
            mine = in_steps(result.spike_time, result.spike_cell, given.dt)
            wrong = unlike([spike for spike in mine if spike[0] < end], early)
            outcome.add("all equal", mine == spikes)
            gap = np.abs(result[0] - v).max(axis=1)
            if not wrong:
                outcome.largest("mV, of what is allowed", (gap / allowed)[:end].max())
                late = ~(gap <= allowed)[:end]
                first = int(np.argmax(late)) * given.dt
                wrong = f"voltages differ by {gap[:end].max():.3g} mV, too much from {first:g} ms"
                wrong = wrong if late.any() else ""
            outcome.case(wrong and f"seed {seed}, {engine}, dt {given.dt:g}: {wrong}")
    return [outcome]
