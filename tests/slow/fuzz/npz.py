"""Changes of npz files for the fuzz: arrays, members, headers, the archive, bytes."""

import io
import struct
import zipfile

import numpy as np

from bench.measures.fuzz.common import pick


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def _zipped(members, method=zipfile.ZIP_STORED):
    room = io.BytesIO()
    with zipfile.ZipFile(room, "w", method) as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data, method)
    return room.getvalue()


def _npy(array, pickle=False):
    room = io.BytesIO()
    np.lib.format.write_array(room, np.asanyarray(array), allow_pickle=pickle)
    return room.getvalue()


def array_of(data):
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def _one(rng, members):
    return pick(rng, list(members)) if rng.random() < 0.7 else "step.npy"


def _by_array(change):
    def changed(rng, data):
        members = members_of(data)
        name = _one(rng, members)
        if name in members:
            with np.errstate(all="ignore"):
                new = change(rng, array_of(members[name]).copy())
            members[name] = _npy(new, pickle=np.asarray(new).dtype == object)
        return _zipped(members)

    return changed


def _by_member(change):
    def changed(rng, data):
        members = members_of(data)
        change(rng, members, _one(rng, members))
        return _zipped(members)

    return changed


def _cast(rng, a):
    kinds = "f4 f8 i4 i8 u8 i1 c16 ? U20 S20 >f8 >i8 f2 M8[s] O V8".split()
    try:
        return a.astype(pick(rng, kinds))
    except (TypeError, ValueError):
        return a


def _reshape(rng, a):
    forms = [
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


def _value(rng, a):
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


STEPS = [-1, -5, -(2**31), -(2**62), 2**31, 2**62, np.uint64(2**63), 1.5, np.nan, [200],
                    [1, 2], 2**30, 2**30 + 1, 10**6, 0, 199, 201, True, "200", b"200", 200.0, 200j,
                    np.int8(-3), np.int32(200), np.datetime64("2020"), [], None]  # fmt: skip


def _set_step(rng, data):
    members = members_of(data)
    value = np.asarray(pick(rng, STEPS))
    members["step.npy"] = _npy(value, pickle=value.dtype == object)
    return _zipped(members)


def _rename(rng, members, name):
    plain = name.removesuffix(".npy")
    new = pick(rng, ["x.npy", "V.npy", plain, "../" + name, "", "/v.npy", "v.npy"])
    members[new] = members.pop(name, b"")


def _swap(rng, members, name):
    other = pick(rng, list(members))
    members[name], members[other] = members[other], members.get(name, b"")


def _header(rng, members, name):
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


def _flags(rng, data):
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


def _flipped(rng, data):
    changed = bytearray(data)
    for _ in range(int(pick(rng, [1, 1, 2, 5, 50]))):
        if changed:
            changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _bomb(rng, data):
    """Make a small file that holds 320 MB of zeros."""
    members = members_of(data)
    name = pick(rng, ["v.npy", "step.npy", "more.npy"])
    members[name] = _npy(np.zeros(40_000_000))
    return _zipped(members, zipfile.ZIP_DEFLATED)


def _twice(rng, data):
    room = io.BytesIO(data)
    members = members_of(data)
    with zipfile.ZipFile(room, "a") as file:
        name = pick(rng, list(members))
        file.writestr(zipfile.ZipInfo(name), pick(rng, list(members.values())))
    return room.getvalue()


CHANGES = {
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
    "deflated": lambda rng, data: _zipped(members_of(data), zipfile.ZIP_DEFLATED),
    "twice": _twice,
    "no file": lambda rng, data: pick(rng, [b"", b"PK", rng.bytes(500), b"\x93NUMPY", b"{}"]),
    "one array": lambda rng, data: _npy(np.arange(9.0)),
    "large": lambda rng, data: _bomb(rng, data) if rng.random() < 0.1 else data,
}
