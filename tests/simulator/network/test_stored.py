"""Networks in files: loading returns an equal network and refuses other files in one line."""

import io
import json
import zipfile

import mod_files
import numpy as np
import pytest
from exact_cells import network
from networks import CABLES, DT, mixed_network

from clhines import STDP, InputError, Mechanism, Network, Population, Simulation
from clhines.core.files import write_npz
from clhines.simulator.mechanisms.builtin import KEPT_NUMBER
from clhines.simulator.model.compiling import compile
from clhines.simulator.network.copies import copies_of
from clhines.simulator.network.groups import inside
from clhines.simulator.state.saved import signature

ENGINE = "reference"


def plastic():
    """Return cells of cables with a rule, outside events, and one threshold per cell."""
    net, syn = mixed_network()
    net.threshold = np.linspace(-20, 5, net.num_cells)
    rule = STDP(1e-3, 2e-3, w_max=0.02)
    net.connect(np.arange(3), syn, [0, 1, 2], 0.004, 1.0 + np.arange(3), rule)
    net.add_event(syn, [0, 2], [0.2, 1.0], 0.01)
    return net


def everything():
    """Return ions, played values, trains, detectors, pointers, streams, artificial cells, bins."""
    net, groups = network()
    net.celsius = 31.5
    fire = net.add_artificial(mod_files.ours("ext_fire"), 3, tau=[4.0, 5.0, 6.0])
    net.connect(fire, groups["ext_nmda"], [0, 1], [[0.003, 1.0]], 0.0, source_index=[0, 2])
    net.connect(net.add_detector([2, 7], [-10.0, -30.0], [0.0, 2.5]), fire, [1, 2], 0.9, 0.7)
    net.set_pointer(net.add(mod_files.ours("ext_gap"), [5, 11]), "vgap", to=[11, 5])
    adds, totals = (
        net.insert(mod_files.ours("ext_adds"), [2, 3], ri=2.0),
        net.add(mod_files.ours("ext_total"), [1]),
    )
    kept = net.add(Mechanism.from_nmodl(KEPT_NUMBER), [4, 5])
    net.set_pointer(adds, "neighbour", to=[1, 2])
    net.set_pointer(adds, "total", (totals, "total", 0))
    net.set_pointer(adds, "whole", (kept, "x", [1, 0]))
    net.set_pointer(totals, "whole", (kept, "x", 1))
    draws = net.add(mod_files.ours("nmodl/nmrandom"), [3, 3]) if RANDOM == "point" else None
    if draws is None:
        draws = net.insert(mod_files.ours("nmodl/nmrandom"), np.arange(4))
    variable = draws.mechanism.program.random[0]
    net.random(draws, variable, np.arange(3 * len(draws)).reshape(-1, 3), 4)
    net.spike_source([])
    tables = {"inf": ([-90.0, 0.0], [0.1, 0.9]), "tau": 3.0, "scale": ([0, 1], [1, 2])}
    net.insert(
        Mechanism.from_nmodl(mod_files.FOLDER / "ext_functab.mod", function_tables=tables), [4]
    )
    inside(net).added.bins = True
    return net


RANDOM = mod_files.ours("nmodl/nmrandom").kind
BUILDS = {"plastic": plastic, "everything": everything}


@pytest.fixture(params=BUILDS)
def build(request):
    return BUILDS[request.param]


def test_an_equal_network_comes_back(build, tmp_path):
    net, path = build(), tmp_path / "network.npz"
    net.save(path)
    again = Network.load(path)
    models = [compile(n, DT, seed=3) for n in (net, again)]
    assert signature(models[0]) == signature(models[1])
    assert models[0].needs == models[1].needs and again.celsius == net.celsius
    assert [g.given for g in again.groups] == [g.given for g in net.groups]
    assert again.settings == net.settings and np.array_equal(again.threshold, net.threshold)
    again.save(tmp_path / "again.npz")
    assert path.read_bytes() == (tmp_path / "again.npz").read_bytes()


def test_settings_of_neuron_come_back_for_all_that_take_them(tmp_path):
    net = Network(CABLES[:1], 1)
    net.insert("hh", "soma")
    net.settings.update(dt=DT, v_init=-65.0, secondorder=2, t=0.0)
    net.save(tmp_path / "network.npz")
    again = Network.load(tmp_path / "network.npz")
    assert again.settings == net.settings
    protocol = {"step": {"stop": 1.0, "stimuli": [{"amp": 0.5, "delay": 0.1, "dur": 0.5}]}}
    arguments = {"g": ("hh", "gnabar")}, protocol
    v = [Population(n, *arguments, engine=ENGINE).evaluate({"g": [0.1]}).v for n in (net, again)]
    assert np.array_equal(*v) and np.ptp(v[0]) > 1


def test_a_state_of_the_one_goes_on_in_the_other(tmp_path):
    net = everything()
    net.save(tmp_path / "network.npz")
    first = Simulation(net, DT, engine=ENGINE)
    first.run(2.0)
    first.save(tmp_path / "state.npz")
    expected = first.run(3.0)
    second = Simulation(Network.load(tmp_path / "network.npz"), DT, engine=ENGINE)
    second.restore(tmp_path / "state.npz")
    result = second.run(3.0)
    assert len(expected.spike_time) > 2
    assert np.array_equal(result.spike_time, expected.spike_time)
    assert np.array_equal(first.voltages(), second.voltages())


def test_defaults_stay_defaults(tmp_path):
    """A temperature that is set after loading reaches groups with the default temperature."""
    net = Network.from_arrays([-1, 0], [0, 2], [300.0, 200.0], [0, 0.1], [3e-3, 2e-3])
    net.insert("hh", [0])
    net.save(tmp_path / "network.npz")
    again = Network.load(tmp_path / "network.npz")
    again.celsius = 20.0
    assert again.groups[0].parameters["celsius"] == 20.0


def test_copies(tmp_path):
    """Copies of a loaded network equal the original's, and are saved like other networks."""
    net, _ = network()
    net.save(tmp_path / "network.npz")
    several, expected = (copies_of(n, 3) for n in (Network.load(tmp_path / "network.npz"), net))
    assert signature(compile(several, DT)) == signature(compile(expected, DT))
    several.save(tmp_path / "several.npz")
    again = Network.load(tmp_path / "several.npz")
    assert signature(compile(again, DT)) == signature(compile(expected, DT))


def members(path):
    with np.load(path) as file:
        return dict(file)


def text_of(arrays, **changes):
    """Return members with changed entries in their text."""
    entries = json.loads(arrays["network"].tobytes())
    entries.update(changes)
    return arrays | {"network": np.frombuffer(json.dumps(entries).encode(), np.uint8)}


def endless(arrays):
    """Return a file's members with an infinite number in place of an array's number."""
    text = arrays["network"].tobytes().replace(b'{"array": 0}', b'{"array": 1e999}', 1)
    return arrays | {"network": np.frombuffer(text, np.uint8)}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda a: text_of(a, format=2), "format 2; expected 1"),
        (lambda a: text_of(a, groups=[{"mechanism": 99}]), "not a file that Network.save"),
        (lambda a: text_of(a, sources=[{"first": 5}]), "Network.save|follow each other"),
        (lambda a: text_of(a, celsius="warm"), "celsius"),
        (lambda a: text_of(a, mechanisms=[{"text": "density x", "nmodl": None}]), "x"),
        (lambda a: text_of(a, remote_v=0.5), r"remote_v has shape \(\); expected \(m,\)"),
        (lambda a: text_of(a, remote_v=[None]), "remote_v"),
        (lambda a: text_of(a, threshold={"array": 10**6}), "a1000000.* is missing"),
        (lambda a: text_of(a, rule={"a_plus": 1}), "missing 1 required positional argument"),
        (lambda a: a | {"network": np.frombuffer(b"[1, 2]", np.uint8)}, "Network.save"),
        (lambda a: a | {"network": np.frombuffer(b"{" * 9999, np.uint8)}, "is not JSON"),
        (lambda a: a | {"a0": a["a0"] - 7}, "a0|parent"),
        (lambda a: a | {"a0": a["a0"].astype(object)}, "damaged|Python objects"),
        (lambda a: a | {"a2": a["a2"] * np.nan}, "a2"),
        (lambda a: a | {"a5": a["a5"] * 2}, "g_total or in_soma do not fit"),
        (lambda a: {"v": a["a0"]}, "'network' is missing"),
        (lambda a: endless(a), "Network.save"),
        (
            lambda a: text_of(a, linear=[[[0], -1, [], {}]]),
            "linear equations of voltages .* longer",
        ),
    ],
)
def test_what_is_damaged_is_refused(tmp_path, change, match):
    everything().save(tmp_path / "network.npz")
    path, arrays = tmp_path / "other.npz", change(members(tmp_path / "network.npz"))
    if any(a.dtype == object for a in arrays.values()):
        np.savez(path, allow_pickle=True, **arrays)
    else:
        write_npz(path, arrays)
    with pytest.raises(InputError, match=match) as error:
        Network.load(path)
    assert "other.npz" in str(error.value) and "\n" not in str(error.value)


def test_other_files_are_refused(tmp_path):
    for name, data in (("empty", b""), ("text", b"network"), ("zip", _zip({"a.txt": b"x"}))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=name):
            Network.load(tmp_path / name)
    with pytest.raises(InputError, match="cannot be read"):
        Network.load(tmp_path / "none.npz")


def test_states_and_networks_are_told_apart(tmp_path):
    net = plastic()
    net.save(tmp_path / "network.npz")
    sim = Simulation(net, DT, engine="reference")
    sim.save(tmp_path / "state.npz")
    with pytest.raises(
        InputError, match=r"state.npz: is the state of a simulation, for Sim.*resto"
    ):
        Network.load(tmp_path / "state.npz")
    with pytest.raises(InputError, match=r"network.npz: is a network, for Network.load\(\); expec"):
        sim.restore(tmp_path / "network.npz")


def test_a_member_larger_than_the_file_is_refused(tmp_path):
    """Refuse a member by its header: a compressed member may unpack to any size."""
    everything().save(tmp_path / "network.npz")
    arrays = members(tmp_path / "network.npz") | {"a2": np.zeros(10**7)}
    np.savez_compressed(tmp_path / "bomb.npz", **arrays)
    with pytest.raises(InputError, match="a2 has shape .*; expected at most the size of the file"):
        Network.load(tmp_path / "bomb.npz")


def _zip(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in files.items():
            file.writestr(name, data)
    return buffer.getvalue()


def test_random_damage(tmp_path):
    rng, path = np.random.default_rng(11), tmp_path / "network.npz"
    plastic().save(path)
    arrays, refused = members(path), 0
    text = arrays["network"].tobytes()
    words = [b"0", b"-1", b"1e9", b"null", b"true", b'"x"', b"[]", b"{}", b'{"array": 0}']
    places = [k for k in range(len(text)) if text[k : k + 1] in b"0123456789[{"]
    for case in range(150):
        changed = dict(arrays)
        if case % 2:
            at, word = int(rng.choice(places)), words[int(rng.integers(len(words)))]
            told = text[:at] + word + text[at + 1 :]
            changed["network"] = np.frombuffer(told, np.uint8)
        else:
            name = f"a{rng.integers(len(arrays) - 1)}"
            values = changed[name].copy()
            if values.size and values.dtype != bool:
                values.reshape(-1)[rng.integers(values.size)] = rng.choice([-1, 0, 1, 7, 10**6])
            changed[name] = values
        write_npz(path, changed)
        try:
            compile(Network.load(path), DT)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
    assert 30 < refused < 150


NAMED = """
NEURON {{ {kind} named NONSPECIFIC_CURRENT i RANGE at, count, mechanism, g }}
PARAMETER {{ at = 1 (mV) count = 2 mechanism = 3 g = 1e-4 (S/cm2) }}
ASSIGNED {{ v (mV) i (mA/cm2) }}
BREAKPOINT {{ i = g*count*(v - at*mechanism) }}
"""


@pytest.mark.parametrize("kind", ["SUFFIX", "POINT_PROCESS"])
def test_parameters_may_have_the_names_of_arguments(kind, tmp_path):
    net = Network.from_arrays([-1], [0, 1], [300.0], [0.0], [1e-3])
    put = net.insert if kind == "SUFFIX" else net.add
    made = Mechanism.from_nmodl(NAMED.format(kind=kind))
    group = put(made, net.soma, count=5.0)
    group.parameters.update(at=6.0, mechanism=4.0)
    net.save(tmp_path / "net.npz")
    networks = [Network.load(tmp_path / "net.npz"), net]
    results = []
    for one in networks:
        for copies in (1, 2):
            sim = Simulation(one, 0.1, engine="reference")
            sim = sim.replicate(copies) if copies > 1 else sim
            v = sim.record("v", [0])
            results.append(sim.run(1.0)[v][-1, 0])
            (own,) = sim.network.groups
            assert {k: np.ravel(own.parameters[k])[0] for k in ("at", "count", "mechanism")} == {
                "at": 6.0, "count": 5.0, "mechanism": 4.0,
            }  # fmt: skip
    assert len(set(results)) == 1
    assert results[0] != -65.0
