"""Models without derivatives are refused in one line, before anything runs."""

import mod_files
import numpy as np
import pytest
import small_networks

from clhines import InputError, Mechanism, Network, Simulation, discretise, sample_cells
from clhines.simulator.refusals import id_of


def zero(*rows):
    return 0.0, [np.zeros_like(r) for r in rows]


def refused(sim, of, **options):
    with pytest.raises(InputError) as error:
        sim.gradient(1.0, zero, of, **options)
    assert "\n" not in str(error.value) and sim.step == 0
    return id_of(error.value.args[0])


def recorded(net, at=(0,), **options):
    sim = Simulation(net, 0.05, engine="reference", **options)
    sim.record("v", [*at])
    return sim


def added(text):
    net = small_networks.plain()
    return net, net.add(Mechanism.from_nmodl(text), [0])


def test_a_parameter_that_decides():
    net = small_networks.plain()
    clamp = net.add("iclamp", [0], delay=0.1, dur=1.0, amp=1.0)
    assert refused(recorded(net), [(clamp, "dur")]) == "gradient.choice"


@pytest.mark.parametrize("value", ["delay", "threshold", "celsius"])
def test_what_is_fixed(value):
    net = small_networks.with_synapse()
    assert refused(recorded(net), [value]) == "gradient.no-slope"


@pytest.mark.parametrize("name", ["delay", "threshold", "time", "events", "celsius"])
def test_a_parameter_may_have_the_name_of_what_is_fixed(name):
    net = small_networks.plain()
    group = net.insert(f"density leak\nparameter {name} = 1e-3\ncurrent i = {name}*(v + 60)\n", [0])
    sim = recorded(net)
    assert sim.gradient(1.0, lambda v: (0.0, np.ones_like(v)), [(group, name)])[group, name] != 0


def test_celsius_of_a_file_belongs_to_the_network():
    """Reversal potentials and other mechanisms depend on it, too."""
    net, group = added(
        "NEURON { POINT_PROCESS warm NONSPECIFIC_CURRENT i }\nPARAMETER { celsius }\n"
        "ASSIGNED { v i }\nBREAKPOINT { i = 1e-5*celsius*v }\n"
    )
    assert refused(recorded(net), [(group, "celsius")]) == "gradient.no-slope"


HEAD = "NEURON { POINT_PROCESS noslope NONSPECIFIC_CURRENT i RANGE p, q, x %s }\n"
BODY = "PARAMETER { p = 1 q = 1 }\nASSIGNED { v (mV) i (nA) x }\n%s\n"
EVENTS = {
    "gradient.event-time": "BREAKPOINT { i = q*p*v*1e-4 }\nINITIAL { net_send(p, 1) }\n"
    "NET_RECEIVE(w) { x = 1 }",
    "gradient.watch": "BREAKPOINT { i = q*p*v*1e-4 }\nINITIAL { net_send(0, 1) }\n"
    "NET_RECEIVE(w) { IF (flag == 1) { WATCH (v > p) 2 } }",
    "gradient.table": "BREAKPOINT { rate(v) i = x*p*1e-4 }\n"
    "PROCEDURE rate(v (mV)) { TABLE x DEPEND p FROM -100 TO 100 WITH 200 x = p*v }",
}


@pytest.mark.parametrize("id_", EVENTS)
def test_events_and_tables(id_):
    net, group = added(HEAD % "" + BODY % EVENTS[id_])
    sim = recorded(net)
    assert refused(sim, [(group, "p")]) == id_
    sim.gradient(0.05, zero, [(group, "q")] if "table" not in id_ else ["v_init"])


SENDS = "INITIAL { z = 0 } NET_RECEIVE(w) { IF (flag == 0) { net_send(%s) } ELSE { z = z + %s } }"


@pytest.mark.parametrize(
    "sends", [("w", "flag"), ("1, w", "flag"), ("fmod(w, 2), 2", "w"), ("q, 2", "w")]
)
def test_weights_and_states_in_events(sends):
    """Compare a weight as an event's time or flag, and a variable that is set, as its time."""
    text = HEAD % "" + "PARAMETER { p = 1 q = 1 }\nASSIGNED { v (mV) i (nA) x z }\n"
    send = sends[0] if ", " in sends[0] else f"{sends[0]}, 1"
    text += "BREAKPOINT { q = q*1 i = p*z*v*1e-4 }\n" + SENDS % (send, sends[1])
    net, group = added(text)
    net.connect([0], group, [0], 1.0, 1.0)
    sim, one = recorded(net), (group, "q") if "q" in send else "weight"
    assert refused(sim, [one]) == "gradient.event-time"
    sim.gradient(0.05, zero, [(group, "p"), *["weight"] * ("q" in send)])


TIMED = """NEURON { POINT_PROCESS timed NONSPECIFIC_CURRENT i RANGE p, g }
PARAMETER { p = 0.1 g = 0.01 }
ASSIGNED { v (mV) i (nA) x since y }
INITIAL { x = %s since = 0 y = 0 net_send(0.1, 1) }
BREAKPOINT { i = g*y*v }
NET_RECEIVE(w) {
    IF (flag == 0) { x = x + w }
    ELSE { y = y*exp(since - t) + 1 since = t net_send(%s, 1) }
}
"""


@pytest.mark.parametrize(
    ("start", "time", "one"), [("p", "x", "p"), ("1", "x", "weight"), ("1", "x*(v + 90)", "g")]
)
def test_times_of_events_by_states(start, time, one):
    """A parameter, a weight or the voltage sets a state, and the state an event's time."""
    net, group = added(TIMED % (start, time))
    net.connect([0], group, [0], 1.0, 1.0)
    of = one if one == "weight" else (group, one)
    assert refused(recorded(net), [of]) == "gradient.event-time"
    if one != "g":
        recorded(net).gradient(0.05, zero, ["cm", (group, "g")])


def test_a_parameter_that_seeds_random_numbers():
    text = HEAD % "RANDOM r" + BODY % (
        "INITIAL { random_setseq(r, p) x = random_normal(r) }\nBREAKPOINT { i = x*q*p }"
    )
    net, group = added(text)
    net.random(group, "r", [[1, 2, 3]])
    assert refused(recorded(net), [(group, "p")]) == "gradient.drawn"


LOOP = "BREAKPOINT { x = p WHILE (x < 3) { x = x*2 } i = x*1e-3 }"


def test_loops_until_a_condition():
    net, _ = added(HEAD % "" + BODY % LOOP)
    assert refused(recorded(net), ["cm"]) == "gradient.block"


def test_for_netcons():
    text = HEAD % "" + BODY % (
        "BREAKPOINT { i = p*v*1e-4 }\nNET_RECEIVE(w) { FOR_NETCONS(u) { u = u*p } x = x + w }"
    )
    net, group = added(text)
    net.connect([0], group, [0], 1.0, 1.0)
    assert refused(recorded(net), ["weight"]) == "gradient.for-netcons"


def test_variables_that_are_one_for_all():
    net = small_networks.plain()
    net.insert(mod_files.ours("nmodl/nmbegun"), [0, 1])
    assert refused(recorded(net), ["cm"]) == "gradient.last"


def test_records():
    net = small_networks.plain()
    sim = Simulation(net, 0.05, engine="reference")
    assert refused(sim, ["cm"]) == "gradient.no-record"
    sim.record("i_membrane", [0])
    assert refused(sim, ["cm"]) == "gradient.membrane"
    sim = Simulation(net, 0.05, engine="reference")
    sim.record("v", [0], reduce="max")
    assert refused(sim, ["cm"]) == "gradient.reduced"


def test_networks_of_arrays_have_no_resistivity():
    assert refused(recorded(small_networks.plain()), ["Ra"]) == "gradient.several-ra"


def test_a_field_depends_on_the_resistivity():
    net = Network(discretise(sample_cells()[0], nseg=1), 1)
    net.insert("pas")
    net.field(np.arange(net.forest.num_nodes), ([0.0], [1.0]))
    assert refused(recorded(net), ["Ra"]) == "gradient.field-ra"


def test_surrogates_are_for_events_in_whole_steps():
    sim = recorded(small_networks.with_ions())
    assert refused(sim, ["cm"], surrogate=1.0) == "gradient.surrogate-exact"


def test_a_network_with_plasticity():
    net = small_networks.NETWORKS["plastic"][0]()
    assert refused(recorded(net), ["cm"]) == "gradient.needs"


ROOT = """density root
parameter p = -65
parameter rate = 0.2
state m = 0
dm/dt = rate*(sqrt((v - p)^2) - m)
current i = 1e-3*m
"""
GROWS = """density grows
parameter k = 100
state m = 1
method euler
dm/dt = k*m*m
current i = 1e-3*m
"""


@pytest.mark.parametrize("mode", ["host", "forward", "reverse"])
def test_derivatives_that_are_not_finite(fast_queue, mode):
    """A square root has no slope at 0; a run that overflows has no gradient."""
    options = {"engine": "reference"} if mode == "host" else {"queue": fast_queue}
    mode = "reverse" if mode == "host" else mode
    for text, name, id_ in (
        (ROOT, "p", "gradient.not-finite"),
        (GROWS, "k", "gradient.run"),
    ):
        net = Network.from_arrays([-1, -1], [0, 1, 2], [400.0] * 2, [0.0] * 2, [0.004] * 2)
        net.insert("pas", [0, 1], g=1e-4, e=-65.0)
        group = net.insert(text, [0, 1])
        with Simulation(net, 0.05, v_init=[-64.0, -65.0], **options) as sim:
            sim.record("v", [0, 1])
            with pytest.raises(InputError) as error:
                sim.gradient(1.0, lambda v: (0.0, np.ones_like(v)), [(group, name)], mode=mode)
            assert id_of(error.value.args[0]) == id_ and sim.step == 0
            if name == "p":
                assert str(error.value).startswith("the derivative by p of root is nan:")
