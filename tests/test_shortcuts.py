"""The short ways: results by name and as tables, files and NEURON's names, numbers with units."""

import copy
import pickle

import numpy as np
import pytest
from networks import run, spiking
from processes import output_of

import clhines
from clhines import InputError, Mechanism, Network, Simulation, discretise
from clhines.core.quantities import as_numbers
from clhines.simulator.common.units import number_in

SWC = "1 1 0 0 0 8 -1\n2 3 60 0 0 1 1\n3 3 120 0 0 1 2\n4 3 60 50 0 1 2\n"
MOD = """
NEURON { SUFFIX leaky NONSPECIFIC_CURRENT i RANGE g }
PARAMETER { g = 0.001 (S/cm2) }
ASSIGNED { v (mV) i (mA/cm2) }
BREAKPOINT { i = g*(v + 60) }
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "cell.swc").write_text(SWC)
    (tmp_path / "leaky.mod").write_text(MOD)
    return tmp_path


@pytest.fixture
def cable():
    return discretise(clhines.sample_cells()[0])


def test_one_number_of_segments_for_all_sections(files):
    cell = clhines.read_swc(files / "cell.swc")
    cable = clhines.discretize(cell, nseg=3)
    assert clhines.discretize is clhines.discretise
    assert (cable.nseg == 3).all()
    assert np.array_equal(cable.area, discretise(cell, nseg=np.full(len(cable.nseg), 3)).area)
    for nseg, words in ((2, "a soma, is 2; expected an odd"), (0, "is 0"), (3.0, "float64")):
        with pytest.raises(InputError, match=words):
            discretise(cell, nseg=nseg)


def test_mechanisms_from_files_and_by_neurons_names(files, cable):
    net = Network(cable)
    path = files / "leaky.mod"
    group = net.insert(str(path), "dendrites")
    assert group.mechanism == Mechanism.from_nmodl(path)
    assert net.insert(path, "soma", g=0.002).mechanism == group.mechanism
    for theirs, ours in (("IClamp", "iclamp"), ("ExpSyn", "expsyn"), ("Exp2Syn", "exp2syn")):
        assert net.add(theirs, net.soma).mechanism == clhines.mechanisms.mechanism(ours)
    with pytest.raises(InputError, match="nothere.mod"):
        net.insert("nothere.mod")
    with pytest.raises(InputError, match="unknown mechanism 'VClamp'.*or as a .mod file"):
        net.add("VClamp", net.soma)


def test_records_by_mechanism_and_variable(cable):
    net = Network(cable, 3)
    one = net.insert("hh", net.soma[:2])
    net.insert("hh", net.soma[2:], gnabar=0.1)
    net.add("iclamp", net.soma, dur=1.0, amp=[0.1, 0.2, 0.3])
    net.add("expsyn", np.repeat(net.soma[:1], 2))
    both = net.soma[[2, 0, 1]]
    result = run(net, ("hh.m", both, {}), ("m", one, {}), ("hh.m", net.soma[0], {}))
    assert np.array_equal(result[0][:, 1:], result[1])
    assert np.array_equal(result[2], result[1][:, :1])
    assert (result[0][-1, 0] != result[0][-1, 1:]).all()  # it has another current
    sim = Simulation(net, engine="reference")
    for what, where, words in [
        ("hh.q", net.soma, "hh has no state 'q'"),
        ("kv.m", net.soma, "kv is not in the network; expected one of hh, iclamp, expsyn"),
        ("hh.m", net.soma[0] + 1, "which has hh 0 times; expected once"),
        ("expsyn.g", net.soma[0], "which has expsyn 2 times; expected once"),
        ("hh.m", [10**6], "there is no node 1000000"),
    ]:
        with pytest.raises(InputError, match=words):
            sim.record(what, where)


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("5 ms", "ms", 5.0),
        ("25us", "ms", 0.025),
        (" 0.1  pA ", "nA", 1e-4),
        ("-7e1 mV", "mV", -70.0),
        ("0.07 V", "mV", 70.0),
        ("36 mS/cm2", "S/cm2", 0.036),
        ("34 degC", "degC", 34.0),
        ("1 Mohm um", "ohm cm", 100.0),
        ("1e400 ms", "ms", np.inf),
        ("-1e308 s", "ms", -np.inf),
        ("1e-400 ms", "ms", 0.0),
        ("5", "ms", None),
        ("1e3", "ms", None),
        ("soma", "ms", None),
        ("1" * 50 + " ms", "ms", None),
    ],
)
def test_numbers_in_texts(text, unit, number):
    assert number_in(text, unit) == number
    assert as_numbers("x", text, unit) == (text if number is None else number)
    assert as_numbers("x", text) == text


def test_units_as_texts_act_or_are_refused(cable):
    net = Network(cable)
    net.celsius = "34 degC"
    assert net.celsius == 34.0
    assert net.insert("hh", "soma", gnabar="120 mS/cm2").parameters["gnabar"] == 0.12
    group = net.add("iclamp", net.soma, delay="500 us", dur="1 ms", amp="2000 pA")
    assert (group.parameters["delay"], group.parameters["amp"]) == (0.5, 2.0)
    sim = Simulation(net, dt="25 us", v_init="-65 mV", engine="reference")
    assert sim.run("1 ms").t[-1] == 1.0
    assert discretise(clhines.sample_cells()[0], max_length="0.05 mm", Ra="1 ohm m").Ra == 100.0
    other = Network(cable)
    for wrong, words in [
        ("5 mV", "mV and ms are units of different quantities; expected a number, or one in ms"),
        ("5 foo", "foo"),
        ("5 __import__('os')", "expected a number, or one in ms"),
        ("5", "expected"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            other.add("iclamp", other.soma, dur=wrong)
        assert "\n" not in str(caught.value)


def test_words_for_places_are_the_same_everywhere(cable):
    net = Network(cable, 3)
    net.insert("pas", at="all", g=1e-4, e=-65.0)
    clamps = net.add("iclamp", at="soma.middle", dur=1.0, amp=0.1)
    assert np.array_equal(clamps.nodes, net.soma)
    far = net.add("expsyn", at=lambda distance: distance > 100)
    assert np.array_equal(far.nodes, net.nodes(at=lambda distance: distance > 100))
    sim = Simulation(net, engine="reference")
    v = sim.record("v", at="soma.middle", name="soma v")
    assert (v, v.name, v.variable, v.unit) == (0, "soma v", "v", "mV")
    assert repr(v) == "Recording(0, 'soma v', v [mV], 3 places)"
    assert v.columns == ["cell 0", "cell 1", "cell 2"]
    tip = sim.record("v", [int(far.nodes[0])], reduce="crossings", threshold=0.0, name="tip")
    g = sim.record("g", far, index=[0, 2])
    assert (tip.unit, g.unit, g.columns) == ("ms", "uS", ["expsyn 0", "expsyn 2"])
    result = sim.run(1.0)
    assert np.array_equal(result[v], result["soma v"]) and result[v].shape[1] == 3
    assert result.units == ("mV", "ms", "uS")
    assert result.columns(tip) == [f"cell 0 node {far.nodes[0]}"]
    other = Simulation(net, engine="reference")
    wrong = other.record("i_membrane", [0])
    with pytest.raises(InputError, match="record 0 of the run is 'soma v'; expected one of the"):
        result[wrong]


def test_a_recording_is_pickled_and_copied(cable):
    net = spiking(cable, 2)
    sim = Simulation(net, 0.025)
    v = sim.record("v", net.soma, name="soma")
    result = sim.run(1.0)
    for again in (pickle.loads(pickle.dumps(v)), copy.deepcopy(v)):
        assert (again, again.name, again.unit, again.columns) == (v, "soma", "mV", v.columns)
        assert np.array_equal(result[again], result[v])
    assert v in result and "soma" in result and 1 not in result and "v" not in result


@pytest.mark.parametrize("times", [None, 3.0, "a"])
def test_times_that_are_no_list_are_refused(cable, times):
    with pytest.raises(InputError, match="^times is .*; expected a list"):
        spiking(cable, 1).spike_source(times)


@pytest.mark.parametrize(
    "name",
    "analysis analysis.features cells.sections device draw library mechanisms model"
    " network plan.by_segment.schedule reference".split(),
)
def test_public_modules_are_imported_by_their_public_names(name):
    """In a process of its own; the module exists once, under its own name and the public one."""
    code = f"""
import sys
import clhines.{name}
module = sys.modules["clhines.{name}"]
real = module.__spec__.name
assert module is __import__("importlib").import_module(real) is clhines.{name}
assert real != "clhines.{name}" and module.__name__ == real, real
"""
    output_of("-c", code)


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_libraries_that_differentiate_are_imported_by_name(name):
    pytest.importorskip(name)
    output_of("-c", f"import clhines.{name}")


def test_a_wrong_keyword_of_a_reader_says_which_was_meant():
    with pytest.raises(TypeError, match="did you mean 'repair'"):
        clhines.read_swc("no.swc", repairs=True)


def test_names_complete():
    """In a process of its own, without imports that add names."""
    program = "import clhines; print(*dir(clhines), '|', *dir(clhines.draw))"
    names, drawn = (part.split() for part in output_of("-c", program).split("|"))
    assert {*clhines.__all__, "neuron", "draw", "analysis", "__version__"} <= set(names)
    assert not {"import_module", "logging"} & set(names)
    assert all(hasattr(clhines, name) for name in names)
    assert drawn == sorted(drawn)
    assert {"plot_morphology", "plot_raster", "plot_result", "plot_traces", "style"} == set(drawn)
