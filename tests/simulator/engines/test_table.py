"""The table of engines: needs, support by each engine, names, refusals."""

import numpy as np
import pytest
from small_networks import DT, NETWORKS, changed, model_of, with_synapse

from clhines import InputError, Simulation
from clhines.simulator.choose import check_split, described, engines_for
from clhines.simulator.engines.table import ENGINES, NAMES
from clhines.simulator.model.needs import EXACT, NEEDS

OTHERS = ("begins", "ranks", "ranked_pointers", "solver")


@pytest.mark.parametrize("engine", ENGINES, ids=NAMES)
@pytest.mark.parametrize("word", [*NETWORKS, *OTHERS])
def test_what_an_engine_lacks_is_refused_in_words(word, engine):
    needs = model_of(word).needs if word in NETWORKS else model_of("ions").needs | {word}
    device = "gpu" if engine.on == "gpu" else "cpu"
    if engine.supports(needs):
        assert engines_for(needs, engine.name, device) == [engine]
        return
    with pytest.raises(InputError) as error:
        engines_for(needs, engine.name, device)
    text = str(error.value)
    lacks = needs & engine.lacks
    assert text.startswith(f"engine={engine.name!r} takes no ") and "\n" not in text
    assert all(NEEDS[w] in text for w in lacks if w != "exact_times" or not lacks & EXACT - {w})
    others = [e for e in ENGINES if f"{e.name!r}" in text.split("expected")[1]]
    assert others == [e for e in ENGINES if e.supports(needs) and e.runs_on(device)]
    assert ENGINES[-1] in others


def test_other_refusals():
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
    of_gpus, own = described()[0][3], f"{NEEDS['layers']} and {NEEDS['solver']}"
    assert of_gpus.startswith(NEEDS["instant_between_cells"])
    assert of_gpus.endswith(f" and {NEEDS['solver']}") and NEEDS["layers"] not in of_gpus
    assert NEEDS["ranked_pointers"] in of_gpus
    of_cpus = described()[1][3]
    assert of_cpus.startswith(NEEDS["read_elsewhere"]) and of_cpus.endswith(own)
    assert [row[3] for row in described()[2:]] == ["", ""]


@pytest.mark.parametrize("engine", ["auto", "steps", "reference"])
def test_a_cell_above_its_threshold_at_the_start_sends_an_event(double_queue, engine):
    """As in NEURON, it sends an event at t = 0, in whole steps and at exact times."""
    results = []
    for build in (with_synapse, changed(lambda net: None)):
        net = build()
        net.threshold = -70.0
        sim = Simulation(net, DT, queue=double_queue, engine=engine)
        number = sim.record("v", [0])
        result = sim.run(2.0)
        assert result.spike_time[0] == 0.0 and result.spike_cell[0] == 0
        results.append(result[number])
    quiet = with_synapse()
    quiet.threshold = 100.0
    sim = Simulation(quiet, DT, queue=double_queue, engine=engine)
    number = sim.record("v", [0])
    values = sim.run(2.0)[number]
    np.testing.assert_array_equal(values[:20], results[0][:20])  # the delay is 1 ms
    assert np.abs(values[-1] - results[0][-1]) > 1e-3
