"""Files of states for the fuzz: refused, or continued as what they hold says."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_common import WrongError, check_refusal, pick, shortened

PATHS = ("reference", "reference", "steps", "epochs")
BEGIN, MORE = 5.0, 1.0  # ms: before the state was saved, and after it was restored
LAST_STEP = 2**30
TOLERANCE = 1e-6  # mV, of devices against NumPy in float64 over a millisecond
_FOLDER = Path(".")
_SIMS: dict[str, Any] = {}
_SAVED: dict[str, bytes] = {}
_MEMBERS: dict[str, dict[str, np.ndarray]] = {}
_AFTER: dict[str, np.ndarray] = {}

Members = dict[str, bytes]


@dataclass(frozen=True)
class Case:
    """Which path restores, and what was done to the file it had saved: (name, seed) each."""

    path: str
    changes: tuple[tuple[str, int], ...]
    place: str = ""  # save() to such a place instead


def generate(rng: np.random.Generator) -> Case:
    """Make one to three changes of a file."""
    path = pick(rng, PATHS)
    if rng.random() < 0.05:
        return Case(path, (), pick(rng, list(PLACES)))
    names = [pick(rng, list(CHANGES)) for _ in range(int(pick(rng, [1, 1, 1, 2, 3])))]
    return Case(path, tuple((name, int(rng.integers(1 << 30))) for name in names))


# -------------------------------------------------------------------------------------- network


def prepare(folder: Path) -> None:
    """Simulate a small network by each path and save its state."""
    global _FOLDER
    _FOLDER = folder
    for path in dict.fromkeys(PATHS):
        sim = _simulation(path)
        sim.run(BEGIN)
        sim.save(folder / f"{path}.npz")
        _SAVED[path] = (folder / f"{path}.npz").read_bytes()
        with np.load(folder / f"{path}.npz") as arrays:
            _MEMBERS[path] = dict(arrays)
        _SIMS[path] = sim
        _AFTER[path] = _run(sim)


def _simulation(path: str) -> Any:
    """Three cells in a ring whose connections learn, with a spike every few ms."""
    import clhines
    from clhines import device

    Path("cell.swc").write_text("1 1 0 0 0 8 -1\n2 3 10 0 0 1 1\n3 3 90 0 0 1 2\n")
    cable = clhines.discretise(clhines.read_swc("cell.swc"), max_length=40.0)
    net = clhines.Network(cable, num_cells=3)
    net.insert("hh", where="soma")
    rest = (net.area > 0) & ~np.isin(np.arange(net.forest.num_nodes), net.soma)
    net.insert("pas", where=np.flatnonzero(rest))
    synapses = net.add("exp2syn", at=net.soma, tau1=0.5, tau2=2.0)
    net.add("inoise", at=net.soma[2], std=0.05)
    net.add("iclamp", at=net.soma[0], dur=100.0, amp=0.3)
    rule = clhines.STDP(a_plus=0.01, a_minus=0.005, w_max=0.2)
    net.connect([2, 0, 1], synapses, weight=0.05, delay=0.5, rule=rule)
    net.event(synapses, index=[0, 1], time=[1.0, 5.5], weight=0.05)
    net.threshold = -20.0
    where = {} if path == "reference" else {"queue": device.make_queue(device.choose())}
    sim = clhines.Simulation(net, dt=0.025, path=path, seed=7, **where)
    sim.record("v", np.arange(net.forest.num_nodes))
    return sim


def _run(sim: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        return sim.run(MORE)[0]


# -------------------------------------------------------------------------------------- changes


def _members(data: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def _zipped(members: Members, method: int = zipfile.ZIP_STORED) -> bytes:
    room = io.BytesIO()
    with zipfile.ZipFile(room, "w", method) as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data, method)
    return room.getvalue()


def _npy(array: Any, pickle: bool = False) -> bytes:
    room = io.BytesIO()
    np.lib.format.write_array(room, np.asanyarray(array), allow_pickle=pickle)
    return room.getvalue()


def _array(data: bytes) -> np.ndarray:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def _one(rng: np.random.Generator, members: Members) -> str:
    return pick(rng, list(members)) if rng.random() < 0.7 else "step.npy"


Change = Callable[[np.random.Generator, bytes], bytes]


def _by_array(change: Callable[[np.random.Generator, np.ndarray], Any]) -> Change:
    """Change one array of the file."""

    def changed(rng: np.random.Generator, data: bytes) -> bytes:
        members = _members(data)
        name = _one(rng, members)
        if name in members:
            with np.errstate(all="ignore"):
                new = change(rng, _array(members[name]).copy())
            members[name] = _npy(new, pickle=np.asarray(new).dtype == object)
        return _zipped(members)

    return changed


def _by_member(change: Callable[[np.random.Generator, Members, str], Any]) -> Change:
    """Change the members of the file, given the name of one."""

    def changed(rng: np.random.Generator, data: bytes) -> bytes:
        members = _members(data)
        change(rng, members, _one(rng, members))
        return _zipped(members)

    return changed


def _cast(rng: np.random.Generator, a: np.ndarray) -> Any:
    kinds = "f4 f8 i4 i8 u8 i1 c16 ? U20 S20 >f8 >i8 f2 M8[s] O V8".split()
    try:
        return a.astype(pick(rng, kinds))
    except (TypeError, ValueError):
        return a


def _reshape(rng: np.random.Generator, a: np.ndarray) -> Any:
    forms: list[Callable[[], Any]] = [
        lambda: a.reshape(-1, 1), lambda: a.reshape(1, -1), lambda: a.reshape(-1)[:-1],
        lambda: np.append(a, a), lambda: a.reshape(-1)[:0], lambda: a.reshape(-1)[0],
        lambda: np.asfortranarray(a), lambda: a[None, None],
        lambda: np.append(a, a.reshape(-1)[:1]),
        lambda: a.T, lambda: np.zeros((0, 3), a.dtype), lambda: np.zeros(a.size + 7, a.dtype),
    ]  # fmt: skip
    try:
        return pick(rng, forms)()
    except (IndexError, ValueError):
        return a


def _value(rng: np.random.Generator, a: np.ndarray) -> Any:
    if a.dtype.kind not in "fiu" or not a.size:
        return a
    flat = a.reshape(-1)
    k = int(rng.integers(a.size))
    if a.dtype.kind == "f":
        flat[k] = pick(rng, [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-310, 0.0, -0.0, 1.0, -70.0])
    else:
        info = np.iinfo(a.dtype)
        flat[k] = pick(rng, [info.min, info.max, -1 if info.min else 1, 0, 1, 2**20, 7, 2**30])
    return flat.reshape(a.shape)


STEPS: list[Any] = [-1, -5, -(2**31), -(2**62), 2**31, 2**62, np.uint64(2**63), 1.5, np.nan, [200],
                    [1, 2], 2**30, 2**30 + 1, 10**6, 0, 199, 201, True, "200", b"200", 200.0, 200j,
                    np.int8(-3), np.int32(200), np.datetime64("2020"), [], None]  # fmt: skip


def _set_step(rng: np.random.Generator, data: bytes) -> bytes:
    members = _members(data)
    value = np.asarray(pick(rng, STEPS))
    members["step.npy"] = _npy(value, pickle=value.dtype == object)
    return _zipped(members)


def _rename(rng: np.random.Generator, members: Members, name: str) -> None:
    plain = name.removesuffix(".npy")
    new = pick(rng, ["x.npy", "V.npy", plain, "../" + name, "", "/v.npy", "v.npy"])
    members[new] = members.pop(name, b"")


def _swap(rng: np.random.Generator, members: Members, name: str) -> None:
    other = pick(rng, list(members))
    members[name], members[other] = members[other], members.get(name, b"")


def _header(rng: np.random.Generator, members: Members, name: str) -> None:
    """Write another shape or nonsense into the header of an array."""
    if name not in members:
        return
    data = members[name]
    size = struct.unpack("<H", data[8:10])[0]
    text = data[10 : 10 + size].decode("latin-1")
    shapes = ["(1000000000000,)", "(1099511627776, 1099511627776)", "(-1,)", "(3.5,)", "(True,)"]
    shapes += ["(10**9,)", "'x'", "(" * 90 + ")" * 90, "(400000000,)", "(9223372036854775807,)"]
    begin, end = text.index("'shape': ") + 9, text.rindex(", }")
    new = pick(
        rng,
        [
            text[:begin] + pick(rng, shapes) + text[end:],
            text.replace("'descr'", "'desc'"),
            "{" * 50,
            text.replace("False", "maybe"),
            text.strip() + " " * 40_000 + "\n",
            text.replace("<f8", "|O").replace("<i8", "|O"),
        ],
    )
    version = pick(rng, [b"\x01\x00", b"\x01\x00", b"\x09\x09"])
    long = struct.pack("<H", min(len(new), 65535))
    members[name] = data[:6] + version + long + new.encode("latin-1") + data[10 + size :]


def _flags(rng: np.random.Generator, data: bytes) -> bytes:
    """Change flags, methods or sizes in the directory of the archive, and in the local headers."""
    changed = bytearray(data)
    fields = {"flags": [1, 0x41, 0x800, 0xFFFF], "method": [1, 8, 9, 12, 14, 99]}
    fields["size"] = [0, 2**31]
    field, values = pick(rng, list(fields.items()))
    for sign, at in ((b"PK\x01\x02", (8, 10, 24)), (b"PK\x03\x04", (6, 8, 22))):
        place = data.find(sign)
        if place < 0 or rng.random() < 0.2:
            continue
        offset = place + at[("flags", "method", "size").index(field)]
        form = "<I" if field == "size" else "<H"
        if offset + struct.calcsize(form) <= len(changed):
            struct.pack_into(form, changed, offset, pick(rng, values))
    return bytes(changed)


def _flipped(rng: np.random.Generator, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(int(pick(rng, [1, 1, 2, 5, 50]))):
        if changed:
            changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _bomb(rng: np.random.Generator, data: bytes) -> bytes:
    """Make a small file that holds 320 MB of zeros."""
    members = _members(data)
    name = pick(rng, ["v.npy", "step.npy", "more.npy"])
    members[name] = _npy(np.zeros(40_000_000))
    return _zipped(members, zipfile.ZIP_DEFLATED)


def _twice(rng: np.random.Generator, data: bytes) -> bytes:
    room = io.BytesIO(data)
    members = _members(data)
    with zipfile.ZipFile(room, "a") as file:
        name = pick(rng, list(members))
        file.writestr(zipfile.ZipInfo(name), pick(rng, list(members.values())))
    return room.getvalue()


CHANGES: dict[str, Change] = {
    "value": _by_array(_value),
    "another value": _by_array(_value),
    "dtype": _by_array(_cast),
    "shape": _by_array(_reshape),
    "step": _set_step,
    "step again": _set_step,
    "missing": _by_member(lambda rng, members, name: members.pop(name, None)),
    "renamed": _by_member(_rename),
    "swapped": _by_member(_swap),
    "header": _by_member(_header),
    "cut array": _by_member(lambda rng, m, name: m.update({name: m.get(name, b"")[:-9]})),
    "empty array": _by_member(lambda rng, m, name: m.update({name: b""})),
    "no array": _by_member(lambda rng, m, name: m.update({name: rng.bytes(300)})),
    "more": _by_member(lambda rng, m, name: m.update({"more.npy": _npy(np.arange(5))})),
    "text": _by_member(lambda rng, m, name: m.update({"note.txt": b"hello"})),
    "flags": _flags,
    "bits": _flipped,
    "cut": lambda rng, data: data[: int(rng.integers(len(data) + 1))],
    "junk after": lambda rng, data: data + rng.bytes(int(rng.integers(1, 70000))),
    "junk before": lambda rng, data: rng.bytes(int(rng.integers(1, 100))) + data,
    "deflated": lambda rng, data: _zipped(_members(data), zipfile.ZIP_DEFLATED),
    "twice": _twice,
    "no file": lambda rng, data: pick(rng, [b"", b"PK", rng.bytes(500), b"\x93NUMPY", b"{}"]),
    "one array": lambda rng, data: _npy(np.arange(9.0)),
    "large": lambda rng, data: _bomb(rng, data) if rng.random() < 0.1 else data,
}


def changed(case: Case) -> bytes:
    """Return the bytes of the file."""
    data = _SAVED[case.path]
    for name, seed in case.changes:
        with contextlib.suppress(zipfile.BadZipFile, ValueError, RuntimeError, NotImplementedError,
                                 EOFError, KeyError, OSError, IndexError):  # fmt: skip
            data = CHANGES[name](np.random.default_rng(seed), data)
    return data


# -------------------------------------------------------------------------------------- checks


def check(case: Case) -> str:
    """Restore a file; whatever became of it, the simulation restores a whole one after it."""
    from clhines.errors import ClhinesError

    if case.place:
        return _check_place(case)
    sim, file = _SIMS[case.path], _FOLDER / "case.npz"
    file.write_bytes(changed(case))
    try:
        sim.restore(file)
    except ClhinesError as error:
        text = check_refusal(error, hide=[str(file)])
        if str(file) not in text:
            raise WrongError(f"refusal without file: {shortened(text)}") from None
        _check_whole(case.path)
        return "refused"
    try:
        outcome = _check_restored(case.path, file)
    finally:
        _restore_whole(case.path)
    _check_whole(case.path)
    return outcome


def _check_restored(path: str, file: Path) -> str:
    """Compare what goes on from an accepted file with what it holds."""
    from clhines.errors import InputError, SimulationError

    sim, whole, failed = _SIMS[path], _MEMBERS[path], False
    try:
        after = _run(sim)  # first of all: memory may be corrupted
    except SimulationError:
        failed = True
    except InputError:  # no step is left
        return "accepted"
    try:
        with np.load(file, allow_pickle=False) as arrays:
            held = {name: arrays[name] for name in whole if name in arrays}
    except Exception as error:
        raise WrongError(f"accepted what NumPy cannot read: {type(error).__name__}") from error
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
    if same and not np.array_equal(after, _AFTER[path]):
        raise WrongError("an untouched state goes on with other bits")
    if path != "reference" and not same:
        _compare_paths(file, after)
    return "accepted"


def _compare_paths(file: Path, after: np.ndarray) -> None:
    from clhines.errors import ClhinesError

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


def _restore_whole(path: str) -> None:
    _SIMS[path].restore(_FOLDER / f"{path}.npz")


def _check_whole(path: str) -> None:
    _restore_whole(path)
    if not np.array_equal(_run(_SIMS[path]), _AFTER[path]):
        raise WrongError("a whole file goes on with other bits after a refused one")


# -------------------------------------------------------------------------------------- save()


def _make_link(place: Path) -> None:
    (_FOLDER / "target.npz").write_text("target")
    place.symlink_to("target.npz")


PLACES: dict[str, Callable[[Path], Any]] = {
    "link": _make_link,
    "dangling link": lambda place: place.symlink_to("nothing.npz"),
    "device": lambda place: os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 3)),
    "fifo": lambda place: os.mkfifo(place),
    "read-only": lambda place: (place.write_text("mine"), place.chmod(0o444)),
    "folder": lambda place: place.mkdir(),
    "absent folder": lambda place: None,
}


def _check_place(case: Case) -> str:
    """Save to what is no ordinary file: it is written through or refused, never replaced."""
    from clhines.errors import ClhinesError

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
        _SIMS[case.path].save(place)
    except ClhinesError as error:
        check_refusal(error, hide=[str(place)])
        return "refused"
    after = stat.S_IFMT(os.lstat(place).st_mode)
    if after != before:
        raise WrongError(f"save() replaced: '{case.place}'")
    if case.place == "read-only":
        raise WrongError("save() overwrote: 'read-only'")
    return "accepted"


def explain(case: Case) -> str:
    """Return what the file holds that the whole one does not."""
    if case.place:
        return ""
    try:
        held = {name: _array(data) for name, data in _members(changed(case)).items()}
    except Exception as error:  # whatever it is, it is what there is to say
        return f"the file: {type(error).__name__}: {shortened(str(error))}"
    whole, said = _MEMBERS[case.path], []
    for name, array in held.items():
        expected = whole.get(name.removesuffix(".npy"))
        if expected is None:
            said.append(f"{name} is new")
        elif (array.shape, array.dtype) != (expected.shape, expected.dtype):
            said.append(f"{name} {array.dtype} {array.shape} for {expected.dtype} {expected.shape}")
        elif array.tobytes() != expected.tobytes():
            said.append(f"{name} = {shortened(str(array), 60)}")
    said += [f"no {name}" for name in whole if name + ".npy" not in held]
    return "the file: " + ("; ".join(said) or "the same arrays")


def smaller(case: Case) -> Iterator[Case]:
    """Yield cases with changes left out, and with another path."""
    for k in range(len(case.changes) if len(case.changes) > 1 else 0):
        yield replace(case, changes=case.changes[:k] + case.changes[k + 1 :])
    if case.path != "reference":
        yield replace(case, path="reference")


def show(case: Case) -> str:
    """Return what was done to the file, and what differs in it."""
    if case.place:
        return f"path {case.path}: save() to a {case.place}"
    text = f"path {case.path}: " + ", ".join(f"{name} (seed {seed})" for name, seed in case.changes)
    return text
