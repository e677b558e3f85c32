"""The table of engines: what networks need, what each engine takes, names and refusals."""

import exact_cells
import mod_files
import numpy as np
import pytest
from networks import DT as STEP
from networks import (
    diffusing_network,
    layered_network,
    mixed_network,
    reading_network,
    steering_network,
    written_network,
)

from clhines import STDP, InputError, Mechanism, Network, Simulation
from clhines.simulator.choose import check_split, described, engines_for
from clhines.simulator.engines.arena_run import ArenaRun
from clhines.simulator.engines.reference import Reference
from clhines.simulator.engines.steps import Steps
from clhines.simulator.engines.table import ALL, CHOICES, ENGINES, NAMES
from clhines.simulator.model import compile
from clhines.simulator.model.needs import EXACT, NEEDS
from clhines.simulator.network.groups import inside
from clhines.solver.device import devices
from clhines.solver.device.templates import render

DT = 0.05


def plain():
    net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2)
    net.insert("hh", [0])
    return net


def with_synapse(**given):
    net = plain()
    net.connect([0], net.add("expsyn", at=[1]), weight=0.01, delay=1.0, **given)
    return net


def with_ions():
    return exact_cells.network()[0]


def inserted(name):
    def build():
        net = plain()
        made = Mechanism.from_nmodl(name) if "\n" in name else mod_files.ours(name)
        net.insert(made, [0]) if made.kind == "density" else net.add(made, [0])
        return net

    return build


def changed(change):
    def made():
        net = with_ions()
        change(net)
        return net

    return made


def fires(net, delay=1.0):
    fire = net.add_artificial(mod_files.ours("ext_fire"), 2)
    net.connect(fire, fire, [1], 0.7, delay, source_index=[0])
    return fire


def sends_at_once(net, node=5):
    watch = net.add(mod_files.ours("ext_watch"), [0])
    pulse = net.add(mod_files.ours("ext_pulse"), [node])
    net.connect(watch, pulse, [0], 0.7, 0.001, source_index=[0])


def noisy():
    net = plain()
    net.add("inoise", at=[0], std=0.01)
    return net


def played(net):
    net.play(net.add(mod_files.ours("ext_clamp"), [0]), 0, "amp", [0], [1])


def gap(net, mechanism=None):
    net.set_pointer(net.add(mechanism or mod_files.ours("ext_gap"), [5]), "vgap", to=[11])


NETWORKS = {  # a need -> a network that has it, and options of its simulation
    "grid_times": (plain, {}),
    "plastic": (lambda: with_synapse(rule=STDP(0.01, 0.01)), {}),
    "noise": (noisy, {}),
    "exact_times": (with_ions, {}),
    "ions": (with_ions, {}),
    "detectors": (changed(lambda net: net.add_detector([0])), {}),
    "trains": (changed(lambda net: net.spike_source([[1.0]])), {}),
    "played": (changed(played), {}),
    "random": (inserted("nmodl/nmrandom"), {}),
    "nmodl": (with_ions, {}),
    "single_events": (changed(fires), {}),
    "self_events": (changed(lambda net: net.add(mod_files.ours("ext_pulse"), [0])), {}),
    "set_voltages": (changed(lambda net: net.add(mod_files.ours("ext_reset"), [0])), {}),
    "sent_events": (changed(fires), {}),
    "weights": (with_ions, {}),
    "bins": (changed(lambda net: setattr(inside(net).added, "bins", True)), {}),
    "artificial_cells": (changed(fires), {}),
    "pointers": (changed(gap), {}),
    "pointers_in_states": (
        changed(lambda net: gap(net, Mechanism.from_nmodl(exact_cells.FOLLOWS))),
        {},
    ),
    "written_pointers": (lambda: written_network(7, 2)[0], {}),
    "read_pointers": (lambda: reading_network()[0], {}),
    "instant_events": (changed(sends_at_once), {}),
    "instant_between_cells": (changed(lambda net: sends_at_once(net, 11)), {}),
    "instant_artificial": (changed(lambda net: fires(net, 0.001)), {}),
    "ion_order": (with_ions, {"secondorder": 2}),
    "read_currents": (inserted(exact_cells.READS), {}),
    "last_instances": (
        changed(lambda net: net.insert(mod_files.ours("nmodl/nmlast"), [0, 1])),
        {},
    ),
    "steered_weights": (lambda: steering_network()[0], {}),
    "diffusion": (lambda: diffusing_network()[0], {}),
    "layers": (lambda: layered_network()[0], {}),
    "played_artificial": (
        changed(lambda net: net.play(fires(net), 0, "refrac", [0.0, 1.0], [1.0, 2.0])),
        {},
    ),
}
OTHERS = ("begins", "ranks", "ranked_pointers", "copies", "solver")
BOTH, GPU, CPU = ("epochs-gpu", "epochs-cpu"), "epochs-gpu", "epochs-cpu"
FIRST = {  # a need -> the first engine of `auto` on a GPU and on a CPU, where they are not BOTH
    "instant_between_cells": ("steps", CPU),
    "last_instances": ("steps", "steps"),
    "steered_weights": ("steps", "steps"),
    "diffusion": ("steps", "steps"),
    "layers": ("steps", "steps"),
    "read_pointers": ("steps", "steps"),
}


def model_of(word):
    build, given = NETWORKS[word]
    return compile(build(), DT, **given)


def test_words_are_those_of_the_table():
    assert NEEDS.keys() == ALL
    assert CHOICES == ("auto", "epochs", *NAMES) and len({*NAMES}) == len(NAMES)
    assert {*NEEDS} - {*NETWORKS} == {
        "begins",
        "ranks",
        "ranked_pointers",
        "copies",
        "solver",
    }


@pytest.mark.parametrize("word", NETWORKS)
def test_needs_of_networks(word):
    """Found in the model, which has events at exact times where any need asks for them."""
    model = model_of(word)
    assert word in model.needs and model.needs <= NEEDS.keys()
    assert model.has_times == bool(model.needs & EXACT)
    assert ("exact_times" in model.needs) != ("grid_times" in model.needs)
    first = [engines_for(model.needs, "auto", device)[0].name for device in ("gpu", "cpu")]
    assert tuple(first) == FIRST.get(word, BOTH)


@pytest.mark.parametrize("engine", ENGINES, ids=NAMES)
@pytest.mark.parametrize("word", [*NETWORKS, *OTHERS])
def test_what_an_engine_lacks_is_refused_in_words(word, engine):
    needs = model_of(word).needs if word in NETWORKS else model_of("ions").needs | {word}
    device = "gpu" if engine.on == "gpu" else "cpu"
    if engine.kernels_for(needs):
        assert engines_for(needs, engine.name, device) == [engine]
        return
    with pytest.raises(InputError) as found:
        engines_for(needs, engine.name, device)
    text = str(found.value)
    lacks = engine.lacks(needs)
    assert text.startswith(f"engine={engine.name!r} takes no ") and "\n" not in text
    assert all(NEEDS[w] in text for w in lacks if w != "exact_times" or not lacks & EXACT - {w})
    others = [e for e in ENGINES if f"{e.name!r}" in text.split("expected")[1]]
    assert others == [e for e in ENGINES if e.kernels_for(needs) and e.runs_on(device)]
    assert ENGINES[-1] in others


def sees(net):
    net.set_pointer(net.add(mod_files.ours("ext_gap"), [5]), "vgap", to=[0])


def late(net):
    net.add(mod_files.ours("ext_late"), [3])
    net.add_detector([3])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda net: net.add(mod_files.ours("ext_watch"), [0]), "other events at the node depend"),
        (lambda net: net.add(mod_files.ours("ext_reset"), [0]), "other events at the node depend"),
        (sees, "pointers point to it"),
        (gap, ""),
        (lambda net: setattr(inside(net).added, "bins", True), "events are delivered in bins"),
        (lambda net: net.add_detector([0]), ""),
        (late, "its threshold is compared"),
    ],
)
def test_voltages_that_events_set(change, said):
    net = with_ions()
    net.add(mod_files.ours("ext_reset"), [0])
    change(net)
    if not said:
        assert "set_voltages" in compile(net, DT).needs
        return
    with pytest.raises(InputError, match=f"v is set in NET_RECEIVE, and .*{said}"):
        compile(net, DT)


def test_other_refusals():
    """An engine of other devices, and what no engine takes; the family's nearest row counts."""
    grid, exact = model_of("grid_times").needs, model_of("instant_between_cells").needs
    for needs, other in ((grid, "epochs-gpu"), (exact, "steps")):
        with pytest.raises(InputError, match=f"'epochs-cpu' is for CPUs; expected '{other}'"):
            engines_for(needs, "epochs-cpu", "gpu")
    assert [e.name for e in engines_for(grid, "epochs-gpu", "cpu")] == ["epochs-gpu"]
    with pytest.raises(
        InputError,
        match="takes no events between cells within a step; expected 'steps' or 'reference'$",
    ):
        engines_for(exact, "epochs", "gpu")
    with pytest.raises(InputError, match="takes no pointers to voltages of other ranks; expected"):
        engines_for(model_of("ions").needs | {"ranks", "ranked_pointers"}, "epochs-gpu", "gpu")
    assert [e.name for e in engines_for(exact, "epochs", "cpu")] == ["epochs-cpu"]


@pytest.mark.parametrize("word", ["bins", "written_pointers", "read_pointers", "last_instances"])
def test_networks_that_ranks_cannot_split(word):
    check_split(model_of("ions").needs)
    with pytest.raises(InputError, match="in a network that several ranks split; expected one"):
        check_split(model_of(word).needs)


def test_descriptions():
    assert [row[0] for row in described()] == list(NAMES)
    of_steps, of_times = described()[0][3].split("; ")
    own = f"{NEEDS['layers']} and {NEEDS['solver']}"
    assert of_steps == f"with events in whole steps: {own}"
    assert of_times.startswith("with events at exact times: events between cells within a step")
    assert all(NEEDS[w] in of_times for w in ("ranked_pointers", "solver", "instant_between_cells"))
    assert [row[3] for row in described()[2:]] == ["", ""]


@pytest.mark.parametrize("build", [with_synapse, with_ions])
def test_a_name_gives_the_same_engine_again(fast_queue, needs, build):
    needs(fast_queue, "float64")
    words, seen = compile(build(), DT).needs, set()
    on = "cpu" if devices.is_cpu(fast_queue.device) else "gpu"
    asked = ["auto", "epochs", *(e.name for e in ENGINES if e.kernels_for(words) and e.runs_on(on))]
    for engine in asked:
        sim = Simulation(build(), DT, queue=fast_queue, engine=engine)
        again = Simulation(build(), DT, queue=fast_queue, engine=sim.engine)
        assert sim.engine in NAMES and sim.engine == (
            again.engine if engine in CHOICES[:2] else engine
        )
        made, found = (
            {type(getattr(s.runner, part, None)) for part in ("cells", "kernels")}
            for s in (sim, again)
        )
        assert found == made
        seen.add(frozenset(made))
    assert len(seen) == len(asked) - 2


def test_engines_of_a_users_own(fast_queue, needs):
    """A function is given the job of any network, and returns a `Run`."""
    needs(fast_queue, "float64")

    def steps(job):
        return ArenaRun(job, Steps)

    def host(job):
        return Reference(job.model)

    for build in (with_synapse, with_ions):
        sims = [Simulation(build(), DT, queue=fast_queue, engine="steps")]
        sims += [Simulation(build(), DT, queue=fast_queue, engine=make) for make in (steps, host)]
        found = []
        for sim in sims:
            number = sim.record("v", [0, 1])
            sim.run(1.0)
            sim.reset()
            found.append(sim.run(2.0)[number])
            assert (sim.engine == "custom") == (sim is not sims[0]) and sim.device_label
        for values in found[1:]:
            np.testing.assert_allclose(values, found[0], 0, 1e-9)


def test_steps_where_a_device_has_no_float64(fast_queue, monkeypatch):
    """Times are single there: in whole steps, so that spikes are in the same ones."""
    truth = Simulation(mixed_network()[0], STEP, engine="reference", seed=7)
    expected = truth.run(20.0)
    monkeypatch.setattr(devices, "has_fp64", lambda device: False)
    sim = Simulation(mixed_network()[0], STEP, "float32", queue=fast_queue, engine="steps", seed=7)
    assert "double" not in render(sim.runner.kernels._built[1])
    found = sim.run(20.0)
    assert len(found.spike_time) > 3
    np.testing.assert_array_equal(found.spike_cell, expected.spike_cell)
    np.testing.assert_array_equal(found.spike_time, expected.spike_time)
    # 400 steps, each of which rounds about ten numbers of up to 100 mV by half of 2**-23
    np.testing.assert_allclose(sim.voltages(), truth.voltages(), atol=400 * 10 * 100 * 2.0**-24)
    with pytest.raises(InputError, match="has no float64, in which exact times of events are kept"):
        Simulation(with_ions(), DT, "float32", queue=fast_queue, engine="steps")


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_a_cell_above_its_threshold_at_the_start_sends_an_event(fast_queue, needs, engine):
    """As in NEURON: at t = 0, through the grid as at exact times."""
    needs(fast_queue, "float64")
    found = []
    for build in (with_synapse, changed(lambda net: None)):
        net = build()
        net.threshold = -70.0
        sim = Simulation(net, DT, queue=fast_queue, engine=engine)
        number = sim.record("v", [0])
        result = sim.run(2.0)
        assert result.spike_time[0] == 0.0 and result.spike_cell[0] == 0
        found.append(result[number])
    quiet = with_synapse()
    quiet.threshold = 100.0
    sim = Simulation(quiet, DT, queue=fast_queue, engine=engine)
    number = sim.record("v", [0])
    values = sim.run(2.0)[number]
    np.testing.assert_array_equal(values[:20], found[0][:20])  # the delay is 1 ms
    assert np.abs(values[-1] - found[0][-1]) > 1e-3
