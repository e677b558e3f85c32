"""One line for common mistakes: it names the available things, and a call that works."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from networks import CABLES, DT

import clhines
from clhines import Drawn, InputError, Network, Pairs, Simulation


@pytest.fixture
def net():
    net = Network(CABLES[0], 3)
    net.insert("pas")
    return net


def test_an_attribute_of_a_group_is_set_by_the_simulation(net):
    """It was "FrozenInstanceError: cannot assign to field 'amp'"."""
    clamp = net.add("iclamp", at=net.soma, amp=1.0)
    with pytest.raises(InputError, match=r"^Group: amp .*expected sim\.set\(group, NAME="):
        clamp.amp = 5
    with pytest.raises(AttributeError, match=r"no attribute 'amp'; expected parameters\['amp'\]"):
        _ = clamp.amp
    clamp.parameters["amp"] = 5
    sim = Simulation(net, DT, engine="reference")
    sim.set(clamp, amp=5)
    assert len(pickle.loads(pickle.dumps(clamp))) == len(copy.copy(clamp)) == 3


def handles(net):
    synapse = net.add("expsyn", at=net.soma)
    train = net.spike_source([[1.0]])
    connections = net.connect(train, synapse, 0, weight=0.1)
    sim = Simulation(net, DT, engine="reference")
    recording = sim.record("v", net.soma)
    result = sim.run(DT)
    return {
        "threshold": (train, "add_detector"),
        "weight": (connections, r"sim\.set\(weight="),
        "name": (recording, "another record"),
        "t": (result, "results stay as they are"),
        "Ra": (net.cables[0], "discretise"),
        "radius": (clhines.sample_cells()[0], "dataclasses.replace"),
        "text": (synapse.mechanism, "another Mechanism"),
        "p": (Pairs.bernoulli(0.1), "other Pairs"),
        "low": (Drawn.uniform(0, 1), "another one"),
    }


def test_other_handles_do_not_change_either(net):
    """Some accepted any new attribute silently: `connections.weight = 0.1` did nothing."""
    for name, (handle, words) in handles(net).items():
        with pytest.raises(InputError, match=f"^{type(handle).__name__}: {name} cannot .*{words}"):
            setattr(handle, name, 1.0)
        with pytest.raises(InputError, match="cannot be set"):
            handle.no_such_name = 1.0
    with pytest.raises(AttributeError, match="a_plus: a rule cannot change"):
        clhines.STDP(1.0, 1.0).a_plus = 2.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: clhines.STDP(0.1, 0.1, tau_pls=2), r"did you mean 'tau_plus'\?$"),
        (lambda: clhines.Drawn.normal(1.0, sdd=2.0), r"Drawn.normal\(\).* mean 'sd'\?"),
        (lambda: clhines.Pairs.bernoulli(0.1, sed=1), r"Pairs.bernoulli\(\).* mean 'seed'\?"),
    ],
)
def test_misspelt_keywords_are_named(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_unknown_parameters_of_rules_are_refused():
    with pytest.raises(InputError, match="unknown parameter 'tau'; known are a_plus"):
        clhines.Rule("stdp", tau=20)


def test_shapes_of_parameters_are_listed():
    net = Network(CABLES[0], 4)
    for at, count in (("all", len(net.insert("pas"))), (net.soma, 4)):
        with pytest.raises(InputError) as error:
            net.insert("hh", at, gnabar=np.zeros(7))
        shapes = [f"({count},) by instance"] + ["(4,) by cell"] * (count != 4)
        expected = f"hh: gnabar has shape (7,); expected a number, {', '.join(shapes)}, or a func"
        assert str(error.value).startswith(expected)
    hh = net.insert("hh", "soma")
    with pytest.raises(InputError, match=r"shape \(7,\); expected a number, \(4,\) by instance"):
        Simulation(net, DT, engine="reference").set(hh, gnabar=np.zeros(7))


def test_types_of_the_file_are_listed():
    net = Network(clhines.discretise(clhines.sample_cells()[0]))
    words = "no cell has a section of this type; expected soma, dendrites, basal, dend, all, nodes"
    for at in ("apical", "axon", "apic"):
        with pytest.raises(InputError, match=f"at='{at}': {words}"):
            net.insert("pas", at)


def test_a_connection_without_weight_is_told(net):
    synapse = net.add("expsyn", at=net.soma)
    with pytest.warns(UserWarning, match=r"connect\(\) without weight: events have weight 0 for e"):
        assert net.connect(0, synapse, 1).weights.tolist() == [0.0]
    with pytest.warns(UserWarning, match=r"connect\(\) without weight"):
        net.connect([0, 1], synapse, Pairs.all_to_all())
    with pytest.warns(UserWarning, match=r"add_event\(\) without weight"):
        net.add_event(synapse, 1, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.connect(0, synapse, 1, weight=0.0)
        net.add_event(synapse, 1, 1.0, 0.0)


def test_a_file_in_nm_is_told(tmp_path):
    """A soma of 10 um and a dendrite of 100 um, and the same in nm."""
    rows = np.array([[1, 1, 0, 0, 0, 5, -1], [2, 1, 10, 0, 0, 5, 1], [3, 3, 110, 0, 0, 1, 2]])
    for scale in (1, 1000):
        rows[:, 2:6] *= scale
        np.savetxt(tmp_path / f"{scale}.swc", rows, "%d")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clhines.read_swc(tmp_path / "1.swc")
    with pytest.warns(UserWarning, match=r"1000.swc: the area of the cell is 2.2e\+09 µm², .* nm"):
        cell = clhines.read_swc(tmp_path / "1000.swc")
    assert "µm²" in repr(clhines.discretise(cell, nseg=1))


def test_what_differs_from_a_saved_state_is_named(tmp_path):
    def simulation(dt=DT, g=1e-4, **options):
        net = Network(CABLES[0], 2)
        net.insert("pas", g=g)
        return Simulation(net, dt, engine="reference", **options)

    simulation().save(tmp_path / "a.npz")
    for other, words in (
        (simulation(dt=0.05), r"saved with dt=0.025 ms \(here dt=0.05 ms\); expected one"),
        (simulation(seed=3), r"saved with seed=0 \(here seed=3\); expected one"),
        (simulation(secondorder=True), r"saved with secondorder=False \(here secondorder=True\)"),
        (simulation(g=2e-4), "of another network, with the same dt; expected one"),
    ):
        with pytest.raises(InputError, match=words):
            other.restore(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        arrays = dict(file, network=np.array(str(file["network"]).split()[0]))
        np.savez(tmp_path / "old.npz", **arrays)
    simulation().restore(tmp_path / "old.npz")
    with pytest.raises(InputError, match="of another network or another dt; expected one"):
        simulation(dt=0.05).restore(tmp_path / "old.npz")
