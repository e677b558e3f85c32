"""Thresholds of many cells at once, against single cells."""

import numpy as np
import pytest

from clhines import InputError, Mechanism, Network, Simulation, find_thresholds
from clhines.fields import fibres, point_potential

DT, STOP = 0.02, 4.0  # ms
PULSE = ([0.1, 0.3], [-1.0, 0.0])  # ms; steps


def fibre_network(distance, diameters=(10.0, 20.0, 15.0), pulse=PULSE):
    """Return SENN fibres at different distances from an electrode."""
    distance = np.broadcast_to(distance, len(diameters))
    at = np.stack([0 * distance, 0 * distance, distance], axis=1)
    made = fibres.senn(diameters, 15, at)
    net = made.network(Network.from_arrays)
    potential = point_potential(made.geometry, [0.0, 0.0, 0.0])
    return net, net.field(potential, pulse, continuous=False), made


def found(net, group, made, **options):
    values = {"low": 1.0, "high": 1e4, "duration": STOP, "dt": DT, "v_init": -70.0}
    return find_thresholds(net, group, made.ranvier[:, 1], **{**values, **options})


@pytest.mark.core
def test_thresholds_are_those_of_single_cells(double_queue):
    distance, diameters = np.array([800.0, 900.0, 1500.0]), (10.0, 20.0, 15.0)
    net, group, made = fibre_network(distance, diameters)
    result = found(net, group, made, queue=double_queue)
    assert (result.amplitude / result.below - 1 <= 1e-3).all() and result.runs < 25
    assert repr(result).endswith(f" of {result.runs} runs)") and "[" in repr(result)
    assert result.amplitude[0] > result.amplitude[1] and result.amplitude[2] > result.amplitude[1]
    for k in range(3):
        for scale, fires in ((result.amplitude[k], True), (result.below[k], False)):
            one, field, single = fibre_network(distance[k], diameters[k : k + 1])
            field.parameters["scale"] = scale
            sim = Simulation(one, DT, queue=double_queue, v_init=-70.0)
            number = sim.record("v", single.ranvier[0, 1])
            assert (sim.run(STOP)[number].max() > 0) == fires


def test_a_threshold_lies_below_a_block(double_queue):
    """Far above its threshold a pulse blocks a near fibre; the bounds span both."""
    net, group, made = fibre_network(150.0, (20.0,))
    result = found(net, group, made, queue=double_queue, low=0.1, high=4e3)
    fires = []
    for scale in (1.2 * result.amplitude[0], 4e3):
        one, field, single = fibre_network(150.0, (20.0,))
        field.parameters["scale"] = scale
        sim = Simulation(one, DT, queue=double_queue, v_init=-70.0)
        number = sim.record("v", single.ranvier[0, 1], reduce="count", threshold=0.0)
        sim.run(0.5)  # the pulse itself
        fires.append(bool(sim.run(STOP - 0.5)[number][0]))
    assert fires == [True, False]


def test_late_spikes_count(double_queue):
    """The second pulse is stronger, but spikes come late, after the short runs."""
    pulses = [0.1, 0.3, 2.5, 2.7], [-1.0, 0.0, -1.3, 0.0]
    net, group, made = fibre_network([800.0, 810.0], (10.0, 10.0), pulses)
    result = found(net, group, made, queue=double_queue, low=30.0)
    for scale, fires in ((result.amplitude, [True, True]), (result.below, [False, False])):
        sim = Simulation(net, DT, queue=double_queue, v_init=-70.0)
        sim.set(group, scale=net.per_cell(scale))
        number = sim.record("v", made.ranvier[:, 1])
        rows = sim.run(STOP)[number]
        assert (rows.max(axis=0) > 0).tolist() == fires
        assert not fires[0] or (rows[: round(2.5 / DT)].max(axis=0) < 0).all()
    assert (result.amplitude / result.below - 1 <= 1e-3).all() and result.runs > 16


def test_amplitudes_of_electrodes_in_cells(double_queue):
    made = fibres.unmyelinated([1.0, 1.0], 1000.0, 21)
    net = made.network(Network.from_arrays)
    clamp = net.add("iclamp", at=made.ranvier[:, 3], delay=0.1, dur=[0.5, 1e-6], amp=0.0)
    options = {"name": "amp", "low": 1e-3, "high": 5.0, "v_init": -65.0, "missing": "nan"}
    result = found(net, clamp, made, queue=double_queue, **options)
    assert 0.01 < result.amplitude[0] < 1.0 and np.isnan(result.amplitude[1])
    with pytest.raises(
        InputError, match="cell 1 does not fire from low to high, 5; expected a thr"
    ):
        found(net, clamp, made, queue=double_queue, **{**options, "missing": "raise"})


def test_strength_and_duration(double_queue):
    """With a pulse's duration, the charge at threshold grows and the strength falls."""
    durations = np.array([0.04, 0.1, 0.3, 1.0])
    made = fibres.senn([20.0] * 4, 15, [[0, 0, 2000.0]] * 4)
    net = made.network(Network.from_arrays)
    t = np.append(0.1, 0.1 + durations)
    y = -np.less.outer(t, 0.1 + durations - 1e-9).T.astype(float)
    group = net.field(
        point_potential(made.geometry, [0, 0, 0]), (t, y), of_cell=np.arange(4), continuous=False
    )
    result = found(net, group, made, queue=double_queue, level=-20.0)
    assert (np.diff(result.amplitude) < 0).all()
    assert (np.diff(result.amplitude * durations) > 0).all()


@pytest.mark.core
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"low": 300.0}, "cell 1 fires at low, 300; expected a lower one, and no spikes without"),
        ({"high": 2.0}, "cell 0 does not fire from low to high, 2; expected a threshold between"),
        ({"low": 0.0}, "low has shape (); expected (3,) numbers above 0"),
        ({"low": [1.0, 2.0]}, "low has shape (2,); expected (3,) numbers above 0"),
        ({"high": 0.5}, "high of cell 0 is 0.5; expected at least low, 1"),
        ({"high": np.nan}, "high is nan; expected a finite number"),
        ({"tolerance": 0.0}, "tolerance is 0; expected 1e-12 or more, below 1"),
        ({"level": np.inf}, "level is inf; expected a finite number"),
        ({"name": "power"}, "power"),
        ({"name": ["scale"]}, "field has no parameter ['scale']; expected one of "),
        ({"name": "amp"}, "field: amp differs within cell 0; expected one value per cell"),
        ({"missing": "zero"}, "missing='zero'; expected raise, nan"),
        (
            {"low": 1e300, "high": 1e300},
            "cell 0: its voltage is not finite at scale = 1e+300; expected a lower high, or a",
        ),
    ],
)
def test_refusals(given, said):
    net, group, made = fibre_network([3000.0, 500.0, 3000.0])
    with pytest.raises(InputError) as caught:
        found(net, group, made, engine="reference", duration=given.pop("duration", STOP), **given)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.core
@pytest.mark.parametrize("by", ["events", "voltages"])
def test_cells_that_interact_are_refused(by):
    net, group, made = fibre_network(1000.0)
    if by == "events":
        synapse = net.add("expsyn", at=made.ranvier[:, 2])
        train = net.spike_source([[1.0]])
        net.connect(train, synapse, [0], 1e-6, 1.0)
        found(net, group, made, engine="reference", tolerance=0.5, duration=1.0, missing="nan")
        net, group, made = fibre_network(1000.0)
        net.connect([0], net.add("expsyn", at=made.ranvier[:, 2]), [1], 1e-6, 1.0)
    else:
        net = made.network(Network.from_arrays)
        group = net.add("iclamp", at=made.ranvier[:, 3], delay=0.1, dur=0.2)
        text = "NEURON { POINT_PROCESS gap POINTER vgap NONSPECIFIC_CURRENT i }\n"
        text += "ASSIGNED { v (mV) vgap (mV) i (nA) }\nBREAKPOINT { i = 1e-6*(v - vgap) }"
        gap = net.add(Mechanism.from_nmodl(text), at=made.ranvier[:, 2])
        net.set_pointer(gap, "vgap", to=np.roll(made.ranvier[:, 2], 1))
    name = "scale" if by == "events" else "amp"
    with pytest.raises(InputError, match="cells of the network are connected; expected cells"):
        found(net, group, made, engine="reference", name=name)


@pytest.mark.core
def test_one_node_of_each_cell_is_needed():
    net, group, made = fibre_network(1000.0)
    options = {"low": 1.0, "high": 9.0, "duration": 1.0}
    with pytest.raises(InputError, match="at has 2 nodes; expected one of each of 3 cells"):
        find_thresholds(net, group, made.ranvier[:2, 1], **options)
    with pytest.raises(InputError, match="'int', 'Group'.; expected a Network and a Group"):
        find_thresholds(3, group, [0], **options)
