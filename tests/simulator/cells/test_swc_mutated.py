"""Mutated SWC files: refused with their line, or read as a strict reader in plain Python does."""

import math
import re
from decimal import Decimal

import numpy as np
import pytest

from clhines import MorphologyError, discretise, read_swc, sample_swc
from clhines.core.errors import ClhinesError

NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
NUMBERS = ["nan", "inf", "1e999", "1e39", "1e-40", "-0", "+3", ".5", "5.", "1e1", "0x1", "1_0", "٣"]
NUMBERS += ["1.0", "1.5", "-1", "0", "9" * 400, str(2**63), "1e999999999", "1\0", "abc", "1,5", ""]
FIELDS = {  # column: values
    1: ["0", "1", "1", "2", "3", "5", "-1", "99"],
    5: ["0", "-1", "1e-30", "1e9", "1e38", "100"],
    6: ["-1", "1", "2", "5", "90", "-2", "0"],
    2: ["1e6", "1e15", "3e38", "1e39"],
}
NOTES = [" # é日本", "#", " #\0\1", " # \udcff", "\t#x", " // x", " ; x", " 1", "\v", "\x1c"]
BYTES = [
    lambda rng, data: data[: int(rng.integers(len(data) + 1))],
    lambda rng, data: b"\xef\xbb\xbf" + data,
    lambda rng, data: b"\xff\xfe" + data.decode("latin-1").encode("utf-16-le"),
    lambda rng, data: data.replace(b"\n", b"\0"),
    lambda rng, data: data + b"\x1a",
    lambda rng, data: rng.bytes(200),
    lambda rng, data: b"#" * 100_000 + b"\n" + data,
    lambda rng, data: data + b"1 " * 20_000,
]


def mutated(seed):
    """Return bytes of a small cell after some changes, and the choice of roots."""
    rng = np.random.default_rng(seed)
    lines = sample_swc()[seed % 2].read_text("utf-8").splitlines()
    lines = [x for x in lines if x and x[0] != "#"][: int(rng.integers(5, 100))]
    for _ in range(int(rng.integers(0, 5))):
        k, j = (int(x) for x in rng.integers(len(lines), size=2))
        fields, how = lines[k].split(), rng.integers(8)
        column = int(rng.choice([*FIELDS]))
        if how < 3 and len(fields) == 7:
            fields[column] = str(rng.choice(FIELDS[column]))
            lines[k] = " ".join(fields)
        elif how == 3 and fields:
            fields[int(rng.integers(len(fields)))] = NUMBERS[int(rng.integers(len(NUMBERS)))]
            lines[k] = " ".join(fields)
        elif how == 4:
            lines[k] += NOTES[int(rng.integers(len(NOTES)))]
        elif how == 5:
            lines.insert(k, lines[j])
        elif how == 6:
            lines[k], lines[j] = lines[j], lines[k]
        else:
            lines[k] = str(rng.choice([lines[k].rpartition(" ")[0], "", "1", lines[k] * 2]))
    end = ["\n", "\n", "\r\n", "\r", "\n\r", "\x85", "\u2028"][int(rng.integers(7))]
    data = (end.join(lines) + end * (rng.random() < 0.8)).encode("utf-8", "surrogateescape")
    if rng.random() < 0.25:
        data = BYTES[int(rng.integers(len(BYTES)))](rng, data)
    return data, "split" if rng.random() < 0.2 else "refuse"


def read_plainly(data):
    """Return samples by the documented rules, an error, or None if the rules are silent."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    rows = []
    for line in re.split(rb"\r\n|\n|\r", data.removeprefix(b"\xef\xbb\xbf")):
        text = line.partition(b"#")[0]
        if re.search(rb"[\x0b\x0c\x1c-\x1f]", text):
            return None  # documented are spaces and tabs
        fields = text.split()
        if not fields:
            continue
        if len(fields) != 7:
            return "columns"
        if not all(NUMBER.fullmatch(f) for f in fields):
            return "not a number"
        if any(len(f) > 300 or abs(int(f.lower().partition(b"e")[2] or 0)) > 10**6 for f in fields):
            return None if all(math.isfinite(float(f)) for f in fields[2:6]) else "not finite"
        whole = [Decimal(fields[k].decode()) for k in (0, 1, 6)]
        if any(w != w.to_integral_value() or not -(2**63) <= w < 2**63 for w in whole):
            return "not whole"
        real = [float(f) for f in fields[2:6]]
        if not all(map(math.isfinite, real)) or whole[0] < 0:
            return "not finite or negative"
        rows.append((int(whole[0]), int(whole[1]), *real, int(whole[2])))
    return rows or "no samples"


def tree_problem(rows, roots):
    """Return the error in the tree of some samples, or nothing."""
    place = {row[0]: k for k, row in enumerate(rows)}
    if len(place) < len(rows):
        return "repeated id"
    if any(row[6] != -1 and row[6] not in place for row in rows):
        return "absent parent"
    for row in rows:
        path, here = set(), row[0]
        while here != -1:
            if here in path:
                return "cycle"
            path.add(here)
            here = rows[place[here]][6]
    return "several roots" if sum(row[6] == -1 for row in rows) > 1 and roots == "refuse" else ""


@pytest.mark.filterwarnings("ignore:.*the area of the cell")
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_mutated_files(tmp_path, first):
    counts = [check_file(tmp_path / "case.swc", seed) for seed in range(first, first + 100)]
    assert 20 < sum(counts) < 90


def check_file(path, seed):
    """Return whether a file is read; compare with `read_plainly`."""
    data, roots = mutated(seed)
    path.write_bytes(data)
    plain = read_plainly(data)
    problem = plain if isinstance(plain, str) else tree_problem(plain, roots) if plain else ""
    try:
        cells = read_swc(path, roots=roots)
    except MorphologyError as error:
        text = str(error)
        assert re.match(re.escape(str(path)) + r":\d+: ", text) and len(text) < 300 + len(str(path))
        assert text.isprintable() and (problem or plain is None), (seed, text)
        return False
    assert not problem, seed
    cells = cells if isinstance(cells, list) else [cells]
    samples = {
        int(cell.id[k]): (
            *(int(cell.type[k]), *cell.xyz[k].tolist(), float(cell.radius[k])),
            int(cell.id[cell.parent[k]]) if cell.parent[k] >= 0 else -1,
        )
        for cell in cells
        for k in range(len(cell.id))
    }
    assert plain is None or samples == {row[0]: row[1:] for row in plain}, seed
    for cell in cells:
        check_cable(cell, path)
    return True


def check_cable(cell, path):
    """A cell is refused by its file, or its tree and its matrix are sound."""
    try:
        cable = discretise(cell, max_length=20.0)
    except ClhinesError as error:
        assert str(path) in str(error) and "\n" not in str(error)
        return
    n, parent = cable.num_nodes, cable.parent
    assert parent[0] == -1 and (parent[1:] >= 0).all() and (parent[1:] < np.arange(1, n)).all()
    system = cable.system(0.025)
    off = np.where(parent >= 0, np.abs(system.u), 0)
    rows = off + np.bincount(parent[1:], off[1:], minlength=n)
    assert np.isfinite(system.constant).all() and np.isfinite(rows).all()
    assert (system.d > 0).all() and (system.d >= rows * (1 - 1e-12)).all()
    assert (cable.area >= 0).all() and cable.area.sum() > 0 and (cable.g_axial[1:] > 0).all()
