"""Files of states for the fuzz: refused, or continued by their contents."""

import contextlib
import os
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import clhines
from bench.measures.fuzz.common import WrongError, check_refusal, pick, shortened
from bench.measures.fuzz.npz import CHANGES, array_of, members_of
from clhines.core.errors import ClhinesError, InputError, SimulationError
from clhines.solver.device import devices

ENGINES = ("reference", "reference", "steps", "epochs")
BEGIN, MORE = 5.0, 1.0  # ms: before the state was saved, and after it was restored
LAST_STEP = 2**30
TOLERANCE = 1e-6  # mV, of devices against NumPy in float64 over a millisecond
_FOLDER = Path(".")
_SIMS = {}
_SAVED = {}
_MEMBERS = {}
_AFTER = {}


@dataclass(frozen=True)
class Case:
    """The engine that restores, and the changes of its saved file: (name, seed) each."""

    engine: str
    changes: tuple[tuple[str, int], ...]
    place: str = ""  # save() to such a place instead


def generate(rng):
    engine = pick(rng, ENGINES)
    if rng.random() < 0.02:
        return Case("float32", ())
    if rng.random() < 0.05:
        return Case(engine, (), pick(rng, list(PLACES)))
    names = [pick(rng, list(CHANGES)) for _ in range(int(pick(rng, [1, 1, 1, 2, 3])))]
    names.sort(key="large".__eq__)  # last: further changes would unpack it
    return Case(engine, tuple((name, int(rng.integers(1 << 30))) for name in names))


def prepare(folder):
    global _FOLDER
    _FOLDER = folder
    for engine in dict.fromkeys(ENGINES):
        sim = _simulation(engine)
        sim.run(BEGIN)
        sim.save(folder / f"{engine}.npz")
        _SAVED[engine] = (folder / f"{engine}.npz").read_bytes()
        with np.load(folder / f"{engine}.npz") as arrays:
            _MEMBERS[engine] = dict(arrays)
        _SIMS[engine] = sim
        _AFTER[engine] = _run(sim)
    _SIMS["float32"] = _simulation("steps", "float32")


def _simulation(engine, dtype="float64"):
    """Three cells in a ring whose connections learn, with a spike every few ms."""
    Path("cell.swc").write_text("1 1 0 0 0 8 -1\n2 3 10 0 0 1 1\n3 3 90 0 0 1 2\n")
    cable = clhines.discretise(clhines.read_swc("cell.swc"), max_length=40.0)
    net = clhines.Network(cable, num_cells=3)
    net.insert("hh", at="soma")
    rest = (net.area > 0) & ~np.isin(np.arange(net.forest.num_nodes), net.soma)
    net.insert("pas", at=np.flatnonzero(rest))
    synapses = net.add("exp2syn", at=net.soma, tau1=0.5, tau2=2.0)
    net.add("inoise", at=net.soma[2], std=0.05)
    net.add("iclamp", at=net.soma[0], dur=100.0, amp=0.3)
    rule = clhines.STDP(a_plus=0.01, a_minus=0.005, w_max=0.2)
    net.connect([2, 0, 1], synapses, weight=0.05, delay=0.5, rule=rule)
    net.add_event(synapses, index=[0, 1], time=[1.0, 5.5], weight=0.05)
    net.threshold = -20.0
    where = {} if engine == "reference" else {"queue": devices.make_queue(devices.choose())}
    sim = clhines.Simulation(net, dt=0.025, dtype=dtype, engine=engine, seed=7, **where)
    sim.record("v", np.arange(net.forest.num_nodes))
    return sim


def _run(sim):
    with np.errstate(all="ignore"):
        return sim.run(MORE)[0]


def changed(case):
    data = _SAVED[case.engine]
    for name, seed in case.changes:
        with contextlib.suppress(zipfile.BadZipFile, ValueError, RuntimeError, NotImplementedError,
                                 EOFError, KeyError, OSError, IndexError):  # fmt: skip
            data = CHANGES[name](np.random.default_rng(seed), data)
    return data


def ready(case):
    """Write a case's file before time and memory are counted."""
    if case.changes:
        (_FOLDER / "case.npz").write_bytes(changed(case))


def check(case):
    """Restore a file; afterwards the simulation must restore an undamaged one."""
    if case.place:
        return _check_place(case)
    if case.engine == "float32":
        return _check_precision()
    sim, file = _SIMS[case.engine], _FOLDER / "case.npz"
    try:
        sim.restore(file)
    except ClhinesError as error:
        text = check_refusal(error, hide=[str(file)])
        if str(file) not in text:
            raise WrongError(f"refusal without file: {shortened(text)}") from None
        _check_whole(case.engine)
        return "refused"
    try:
        outcome = _check_restored(case.engine, file)
    finally:
        _restore_whole(case.engine)
    _check_whole(case.engine)
    return outcome


def _check_precision():
    """Check that a simulation in float32 refuses a state of float64."""
    try:
        _SIMS["float32"].restore(_FOLDER / "steps.npz")
    except ClhinesError as error:
        check_refusal(error, hide=[str(_FOLDER / "steps.npz")])
        return "refused"
    raise WrongError("accepted a float64 state in a float32 simulation")


def _check_restored(engine, file):
    sim, whole, failed = _SIMS[engine], _MEMBERS[engine], False
    try:
        after = _run(sim)  # first of all: memory may be corrupted
    except SimulationError:
        failed = True
    except InputError:  # no step is left
        return "accepted"
    try:
        members = members_of(file.read_bytes())
        members = {name.removesuffix(".npy"): data for name, data in members.items()}
        held = {name: array_of(members[name]) for name in whole if name in members}
    except Exception as error:
        raise WrongError(f"accepted what zipfile and NumPy cannot read: {error!r}") from error
    for name, expected in whole.items():
        if name not in held:
            raise WrongError(f"accepted without a member: '{name}'")
        got = held[name]
        if got.shape != expected.shape:
            raise WrongError(f"accepted with another shape: '{name} {got.shape}'")
        if got.dtype.newbyteorder("=") != expected.dtype and got.dtype.kind not in "US":
            raise WrongError(f"accepted with another dtype: '{name} {got.dtype}'")
    step = int(held["step"])
    if not 0 <= step <= LAST_STEP:
        raise WrongError(f"accepted with step {step}")
    if str(held["network"]) != str(whole["network"]):
        raise WrongError("accepted of another network")
    same = all(held[n].tobytes() == whole[n].tobytes() for n in whole)
    if failed:
        return "refused"  # a voltage that is not finite is said
    if not np.isfinite(after).all():
        raise WrongError("goes on without a word from what is not finite")
    if same and not np.array_equal(after, _AFTER[engine]):
        raise WrongError("an untouched state goes on with other bits")
    if engine != "reference" and not same:
        _compare_paths(file, after)
    return "accepted"


def _compare_paths(file, after):
    reference = _SIMS["reference"]
    try:
        reference.restore(file)
        expected = _run(reference)
    except ClhinesError:
        return
    finally:
        _restore_whole("reference")
    size = np.abs(expected).max()
    if np.isfinite(size) and size < 1e3 and np.abs(after - expected).max() > TOLERANCE * size:
        worst = np.abs(after - expected).max()
        raise WrongError(f"device and NumPy go on differently from a file: by {worst:.3g} mV")


def _restore_whole(engine):
    _SIMS[engine].restore(_FOLDER / f"{engine}.npz")


def _check_whole(engine):
    _restore_whole(engine)
    if not np.array_equal(_run(_SIMS[engine]), _AFTER[engine]):
        raise WrongError("a whole file goes on with other bits after a refused one")


def _make_link(place):
    (_FOLDER / "target.npz").write_text("target")
    place.symlink_to("target.npz")


PLACES = {
    "link": _make_link,
    "dangling link": lambda place: place.symlink_to("nothing.npz"),
    "device": lambda place: os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 3)),
    "fifo": os.mkfifo,
    "read-only": lambda place: (place.write_text("mine"), place.chmod(0o444)),
    "folder": lambda place: place.mkdir(),
    "absent folder": lambda place: None,
}


def _check_place(case):
    """Save to a special path: it is refused or, if a link, followed; never replaced."""
    place = _FOLDER / "place.npz"
    if place.is_dir():
        place.rmdir()
    place.unlink(missing_ok=True)
    try:
        PLACES[case.place](place)
    except PermissionError:
        return "refused"
    if case.place == "absent folder":
        place = _FOLDER / "absent" / "place.npz"
    before = stat.S_IFMT(os.lstat(place).st_mode) if os.path.lexists(place) else 0
    try:
        _SIMS[case.engine].save(place)
    except ClhinesError as error:
        check_refusal(error, hide=[str(place)])
        return "refused"
    after = stat.S_IFMT(os.lstat(place).st_mode)
    if after != before:
        raise WrongError(f"save() replaced: '{case.place}'")
    if case.place == "read-only":
        raise WrongError("save() overwrote: 'read-only'")
    return "accepted"
