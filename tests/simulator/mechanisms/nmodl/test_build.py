"""NMODL: values and calls of its mechanisms, and OpenCL against NumPy; refusals.

`tests/neuron/test_compartments.py` compares each file with NEURON.
"""

import functools
import importlib.util
import pickle
from pathlib import Path

import numpy as np
import pytest
from nmodl_texts import assert_refused, rejections, text_of

import clhines
from clhines.core.errors import InputError
from clhines.simulator.kinds.blocks import in_vectors
from clhines.simulator.mechanisms import Mechanism
from clhines.simulator.mechanisms import mechanism as built_in
from clhines.simulator.mechanisms.emit.functions import Functions
from clhines.simulator.mechanisms.nmodl import NmodlError
from clhines.solver.device.devices import limits

OWN = Path(__file__).parents[3] / "mod" / "nmodl"
FILES = {"ExpSyn": "expsyn", "hh": "hh"}  # in the folder of NEURON

needs_neuron = pytest.mark.skipif(importlib.util.find_spec("neuron") is None, reason="needs NEURON")


def wheel():
    """Return the folder of the .mod files that come with NEURON."""
    spec = importlib.util.find_spec("neuron")
    return Path(spec.origin).parent / ".data" / "share" / "modfile"


@functools.cache
def mechanism(name, use_tables=True):
    """Return the mechanism for a .mod file in these tests or in NEURON."""
    path = OWN / f"{name}.mod" if name not in FILES else wheel() / f"{FILES[name]}.mod"
    return Mechanism.from_nmodl(path, use_tables=use_tables)


REFUSED = {  # text, refused construct, words in its line
    "changing table": (
        text_of(
            "f(v)",
            "RANGE x, y",
            "ASSIGNED { y }\nPROCEDURE f(a) { TABLE x FROM 0 TO 1 WITH 9\n x = a*y }\n"
            "BEFORE STEP { y = v }",
        ),
        "TABLE of f depends on 'y'",
        "PROCEDURE f",
    ),
    **{
        f"changing table, {what}": (
            text_of(
                "f(v)",
                f"RANGE x, y, z {neuron}",
                f"ASSIGNED {{ y z p }}\nPROCEDURE f(a) {{ TABLE x DEPEND {depend}\n"
                f"FROM 0 TO 1 WITH 9\n {sets} = a*y }}\nBEFORE STEP {{ y = v }}",
            ),
            "TABLE of f depends on '" + ("x'" if what == "left out" else "y'"),
            "PROCEDURE f",
        )
        for what, neuron, depend, sets in (
            ("looked at once a step", "", "y", "x"),
            ("thread safe", "POINTER p THREADSAFE", "y", "x"),
            ("of another", "POINTER p", "p", "x"),
            ("left out", "POINTER p", "y", "z"),
        )
    },
}


@pytest.mark.parametrize("which", REFUSED)
def test_refused_by_name_and_line(which):
    assert_refused(*REFUSED[which])


@pytest.mark.parametrize("name", ["diam", "area", "celsius"])
def test_what_neuron_gives_to_every_file_needs_no_declaration(name):
    made = Mechanism.from_nmodl(text_of(f"x = {name}"))
    declared = Mechanism.from_nmodl(text_of(f"x = {name}", more=f"ASSIGNED {{ {name} }}"))
    assert made.program.built_in == declared.program.built_in == (name,)


def test_all_refusals_at_once():
    text = text_of("VERBATIM\n x = *y;\nENDVERBATIM").replace("x = m }", "x = poisson(m) }")
    refusals = rejections(text + "BEFORE STEP { x = nothing }\n")
    assert [r.construct.split()[0] for r in refusals] == ["VERBATIM", "the", "'nothing'"]
    assert [r.line for r in refusals] == [10, 6, 14]
    assert rejections(text_of("x = 1")) == []


def test_mechanism_of_nmodl_is_a_value():
    one = mechanism("nmexpr")
    again = pickle.loads(pickle.dumps(one))
    assert again == one and again.program.states == one.program.states  # its INCLUDE is kept
    assert again.functions("double") == one.functions("double")
    plain = mechanism("nmtable", use_tables=False)
    assert plain != mechanism("nmtable") and not plain.program.tables


def test_nmodl_and_text_of_the_same_equations_are_called_alike():
    """Compare states and currents of hh.mod with the text's at several voltages."""
    one, other = mechanism("hh", use_tables=False), built_in("hh")
    v, ions = np.linspace(-90, 30, 7), {"ena": 50.0, "ek": -77.0}
    own = {name: other.defaults[name] for name in ("gnabar", "gkbar", "gl", "el")}
    start, expected = one.initial(v, {**own, **ions}), other.initial(v)
    assert list(start) == list(expected)
    steps = one.advance(v + 3, 1.0, 0.025, own, start), other.advance(v + 3, 1.0, 0.025, {}, start)
    currents = one.current(v, 1.0, {**own, **ions}, start), other.current(v, 1.0, {}, start)
    for name in start:
        np.testing.assert_allclose(start[name], expected[name], rtol=1e-13)
        np.testing.assert_allclose(steps[0][name], steps[1][name], rtol=1e-12)
    np.testing.assert_allclose(currents[0][0], currents[1][0], rtol=1e-12)
    np.testing.assert_allclose(currents[0][1], currents[1][1], rtol=1e-12)


def test_an_event_and_groups_of_nmodl():
    synapse, text = mechanism("ExpSyn"), built_in("expsyn")
    states = {"g": np.array([0.0, 0.25])}
    after = synapse.event(0.5, {}, states)
    np.testing.assert_array_equal(after["g"], text.event(0.5, {}, states)["g"])
    printed = Functions(synapse.compiled, "double", 4, ["tau"])
    source, constants = printed.lifted(["current", "advance"])
    assert constants == ["_c0"] and "static void ExpSyn_constants(const real dt" in source
    assert "const real tau, const real _c0, real4 *g_)" in source
    pool = mechanism("nmcad")
    assert (
        pool.initial(-65.0).keys()
        == {"cai"}
        == pool.advance(-65.0, 0.0, 0.1, {"ica": -1e-3, "cai": 1e-4}, {}).keys()
    )


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        ("nmtable", lambda m: m.initial(-65), "nmtable: its initial needs the table 'rates'; exp"),
        ("nmrandom", lambda m: m.initial(-65), "its initial needs random numbers of 'first'"),
        ("nmkca", lambda m: m.initial(-65), "no value of ion 'cai'; expected it among the param"),
        ("nmpoint", lambda m: m.current(-65, 0), "no value of pointer 'other'; expected it among"),
        ("nmkca", lambda m: m.current(-65, 0, {"ek": -77}), "no value of state 'o'$"),
        ("nmcell", lambda m: m.current(-65, 0), "mechanism nmcell has no current"),
        ("nmcell", lambda m: m.event(1, {}, m.initial(0)), "its receive needs the time"),
        ("nmkca", lambda m: m.event(1, {}, {}), "nmkca takes no events"),
        ("nmkca", lambda m: m.initial(-65, {"cao": 1}), "nmkca has no parameter 'cao'; it has"),
        ("nmkca", lambda m: m.calls("watch"), "nmkca has no block 'watch'; it has initial, curr"),
    ],
)
def test_what_a_call_of_nmodl_cannot_do_is_said(name, call, message):
    with pytest.raises(InputError, match=message):
        call(mechanism(name))


def test_what_it_is():
    m = mechanism("nmsyn")
    assert (m.name, m.kind, m.takes_events) == ("nmsyn", "point", True)
    assert m.parameters == ("tau", "e", "late", "U", "trec")
    assert m.defaults["trec"] == 20 and m.units["tau"] == ""
    assert set(m.states) == {"g", "s", "onset", "n", "total", "moved"}
    net = m.program.net
    assert net.weights == ("w", "R", "last", "k") and not net.summed
    assert net.sends == ("self", "move", "self")
    text = m.describe()
    assert "advance:" in text and "send 1.time = " in text
    assert mechanism("ExpSyn").program.net.summed
    table = mechanism("nmtable").program.tables[0]
    assert table.columns == ("minf", "mtau") and table.n == 77
    assert table.depends == ("slope", "celsius")


def test_a_table_beside_an_initial_that_is_refused_is_no_error_of_its_own():
    table = "ASSIGNED { y }\nPROCEDURE f(a) { TABLE y FROM 0 TO 1 WITH 9\n y = a }"
    text = text_of("f(v) x = nowhere(v)", "RANGE x, y", table)
    with pytest.raises(NmodlError, match="the function nowhere"):
        Mechanism.from_nmodl(text)


BESIDE = """NEURON { SUFFIX beside NONSPECIFIC_CURRENT i }
ASSIGNED { v i celsius q many minf }
BREAKPOINT { rates(v) i = 1e-5*q*many*minf*(v + 50) }
PROCEDURE rates(v) {
    TABLE minf DEPEND celsius FROM -100 TO 100 WITH 200
    minf = 1/(1 + exp(-(v + 50)/9)) scale()
}
PROCEDURE scale() { q = 3^((celsius - 23)/10) many = 2 }"""


def test_what_a_table_sets_beside_its_columns_is_to_be_given():
    """Require values for `q` and `many`, which NEURON sets while it makes a table."""
    with_table, without = (Mechanism.from_nmodl(BESIDE, use_tables=use) for use in (True, False))
    assert with_table.program.beside == ("q", "many") and without.program.beside == ()

    def end(made, **options):
        net = clhines.Network.from_arrays([-1], [0, 1], [300.0], [0.0], [0.005])
        net.insert(made, **options)
        sim = clhines.Simulation(net, 0.025, engine="reference")
        sim.run(1)
        return sim.voltages()[0]

    with pytest.raises(InputError, match="beside: many is set while NEURON makes a TABLE"):
        end(with_table, q=0.5)
    q = 3 ** ((6.3 - 23) / 10)
    # linear interpolation of minf over 1 mV is off by less than 1/8 of its curvature
    assert abs(end(with_table, q=q, many=2) - end(without)) < 1e-3 * abs(end(without) + 65)


def test_tables_between_their_ends():
    with_table, without = mechanism("nmtable"), mechanism("nmtable", use_tables=False)
    low, high = with_table.twin("grid_curve")()
    x = low + np.arange(51) * ((high - low) / 50)
    [column] = with_table.twin("table_curve")(x)
    assert np.allclose(column, np.sin(x) + x * x / 9, rtol=1e-14, atol=1e-15)
    calls = [a.name for a in with_table.calls("advance", ["f"]) if a.direction != "out"]
    inputs = dict.fromkeys(calls, 0.0) | {"dt": 0.1, "m": 0.3, "curve": column[:, None]}
    inputs["rates"] = np.ones((78, 2))
    where = np.array([-900.0, -65.0, -64.05, -3.0, 900.0])
    out = [a.name for a in with_table.calls("advance", ["f"]) if a.direction != "in"]
    assert "f" not in out  # set in BREAKPOINT, not in advance
    call = with_table.calls("current", ["f"])
    names = [a.name for a in call if a.direction != "out"]
    values = {"gbar": 1.0, "m": 0.3, "curve": column[:, None], "v": where}
    results = with_table.twin("current", ["f"])(*(values[n] for n in names))
    at = [a.name for a in call if a.direction != "in"].index("f")
    assert np.allclose(results[at], np.interp(where / 10, x, column), rtol=1e-13)
    assert "table" not in {a.role for a in without.calls("current")}


def all_blocks(wanted):
    """Return (mechanism, block) for all files in this folder and blocks that `wanted` accepts."""
    made = [mechanism(path.stem) for path in sorted(OWN.glob("*.mod"))]
    return [(m, block) for m in made for block in m.program.blocks if wanted(m, block)]


def assert_close(case, expected, found, size, bound):
    """Compare within 300 operations and exponentials (3 ulp), for numbers as large as `size`."""
    name = case[0].name, case[1]
    assert np.array_equal(np.isnan(expected), np.isnan(found)), name
    assert np.nanmax(np.abs(expected - found) / size, initial=0) < bound, name


@pytest.mark.optimised
def test_opencl_as_numpy(fast_queue):
    from nmodl_device import on_device

    cases = all_blocks(lambda *_: True)
    assert len(cases) > 100
    for case, compared in zip(cases, on_device(fast_queue, cases), strict=True):
        assert_close(case, *compared, 1e-11)


@pytest.mark.optimised
@pytest.mark.parametrize(("real", "bound"), [("double", 1e-11), ("float", 1e-11 * 2.0**29)])
def test_opencl_of_several_instances_as_numpy(real, bound, fast_queue):
    """Compare functions for vectors of instances on CPUs, with tables and loops, with NumPy."""
    from nmodl_device import on_device, outputs_of

    size = {"double": 8, "float": 4}[real]
    width = min(64, limits(fast_queue.device).trusted_bytes) // size
    cases = all_blocks(
        lambda m, block: block in ("current", "advance") and in_vectors(m, block, outputs_of(m))
    )
    assert len(cases) > 30
    for case, compared in zip(cases, on_device(fast_queue, cases, real, width), strict=True):
        assert_close(case, *compared, bound)


@needs_neuron
def test_neurons_own_files():
    folders = [wheel(), wheel().parent / "nrn" / "demo" / "release"]
    refusals = {p.name: rejections(p.read_text()) for f in folders for p in f.glob("*.mod")}
    assert len(refusals) >= 18
    refused = {name: {r.construct.split()[0] for r in rs} for name, rs in refusals.items() if rs}
    assert refused == {"pattern.mod": {"VERBATIM"}}


def test_blocks_without_effect_that_add_ion_currents_are_kept():
    """NEURON adds ion currents in them once more, which an importer refuses to record."""
    text = text_of("", "RANGE x USEION k WRITE ik", "ASSIGNED { ik hid }\n{} { hid = v }")
    text = text.replace("x = m", "x = m ik = 1e-3")
    for block in ("AFTER SOLVE", "BEFORE STEP"):
        blocks = Mechanism.from_nmodl(text.replace("{} {", f"{block} {{")).program.blocks
        assert block.lower().replace(" ", "_") in blocks
