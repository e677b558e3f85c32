"""The texts of `repr` and summaries."""

import pickle

import numpy as np
import pytest

import clhines


@pytest.fixture
def cable():
    return clhines.discretise(clhines.sample_cells()[0])


def test_cables(cable):
    assert "Cable(sample-0: 148 nodes in 27 sections (soma 1, basal 26); Ra 100" in repr(cable)


def test_plans_and_factors(queue):
    forest = clhines.Forest(np.array([-1, 0, 1, 1]))
    plan = clhines.make_plan(forest, "flat")
    assert repr(plan) == "Plan(flat: 1 cell, 4 nodes, 1 launch)"
    solver = clhines.Solver(forest, "flat", np.float32, queue=queue)
    factors = solver.factor(np.full(4, 4.0), np.full(4, -1.0))
    assert repr(factors).startswith(
        "Factors(Forest(1 cell, 4 nodes, 1 distinct shape), float32, flat"
    )


def test_results_and_populations(cable):
    model = clhines.Network(cable)
    model.insert("hh", "soma")
    clamp = [{"amp": 0.5, "delay": 0.1}]
    protocols = {"step": {"stop": 0.5, "stimuli": clamp}}
    population = clhines.Population(model, {"g": ("hh", "gnabar")}, protocols, engine="reference")
    assert repr(population).startswith("Population(1 parameter x 1 protocol of Network(1 cell")
    sim = clhines.Simulation(model, engine="reference")
    sim.record("v", model.soma)
    assert repr(sim.run(0.5)).endswith("records [(21, 1)])")


def test_the_bar_of_a_population(cable, capsys):
    model = clhines.Network(cable)
    model.insert("hh", "soma")
    protocols = {"rest": {"stop": 0.1}}
    population = clhines.Population(
        model, {"g": ("hh", "gnabar")}, protocols, batch=2, engine="reference"
    )
    population.evaluate(np.full((3, 1), 0.1), progress=True)
    assert "3/3 sets" in capsys.readouterr().err
    with pytest.raises(clhines.InputError, match="progress is 1; expected True or False"):
        population.evaluate(np.full((3, 1), 0.1), progress=1)


def test_the_bar_ends_where_the_run_does(cable, capsys, recwarn):
    """The bar ends at the duration, although steps of 0.025 ms add up to more in doubles."""
    net = clhines.Network(cable)
    sim = clhines.Simulation(net, 0.025, engine="reference", chunk=1)
    sim.run(2.5, progress=True)
    assert "2.5/2.5 ms" in capsys.readouterr().err
    assert not recwarn.list


def test_pictures_show_themselves(cable):
    pytest.importorskip("matplotlib")
    figure = clhines.draw.plot_morphology(cable, np.arange(cable.num_nodes))
    assert figure._repr_png_()[:4] == b"\x89PNG"
    assert pickle.loads(pickle.dumps(figure))._repr_png_()[:4] == b"\x89PNG"


def test_completion_of_a_network_leaves_internals_out(cable):
    names = dir(clhines.Network(cable))
    assert {"insert", "add", "connect", "add_event", "soma", "celsius", "from_arrays"} <= set(names)
    assert not {"freeze", "take_copies", "connect_numbers", "wiring"} & set(names)
