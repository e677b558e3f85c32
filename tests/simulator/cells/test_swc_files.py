"""The SWC reader: real files with known counts, malformed files with verdicts, round trips."""

import csv
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_cells import FOLDER, needs_folder
from swc_files import is_tree, parent_ids, refusal, swc, zero_edges

from bench.made import random_binary_tree
from clhines.core.errors import MorphologyError
from clhines.simulator.cells.swc import read_swc

pytestmark = pytest.mark.core

SEVERAL = "roots in all, expected 1"
# The line and words in a strict reader's refusal, by bad file.
REFUSED = {
    "missing_parents.swc": (40, "sample 6 has parent 5, which is absent"),
    "missing_ids.swc": (42, "sample 8 has parent 7, which is absent"),
    "repeated_id.swc": (6, "id 4 is also on line 5"),
    "multiple_somata.swc": (12, f"sample 10 is a second root .* 2 {SEVERAL}"),
    "disconnected_neurite.swc": (10, f"sample 10 is a second root .* 2 {SEVERAL}"),
    "hemibrain_754538881_two_roots.swc": (1951, f"sample 1945 is a second root .* 2 {SEVERAL}"),
    "dIN_5_roots_crlf.swc": (90, f"sample 86 is a second root .* 5 {SEVERAL}"),
    "autotrace_207_roots.swc": (4, f"sample 4 is a second root .* 207 {SEVERAL}"),
    "multiple_roots_and_dup_id.swc": (9, "id 3 is also on line 7"),
    "self_parent_no_root.swc": (3, "sample 0 is its own parent"),
    "comments_only.swc": (8, "no samples"),
    "zero_bytes.swc": (1, "no samples"),
    "decimal_commas.swc": (4, "x is '-0,000', expected a number"),
    "na_radius_negative_type_self_parent.swc": (6, "radius is 'NA', expected a number"),
    "twelve_columns_vaa3d.swc": (4, "12 columns .* expected 7"),
    "symlink_text.swc": (1, "1 columns in '../swc/Neuron.swc', expected 7"),
    "nine_columns_missing_parent.swc": (2, "9 columns .* expected 7"),
    "cycle_off_root.swc": (4, "sample 3 is on a cycle of 3 samples.* 3 -> 5 -> 4 -> 3"),
    "nan_and_inf.swc": (2, "x is 'nan', expected a finite number"),
    "truncated_last_line.swc": (4, "4 columns .* expected 7"),
    "id_overflow.swc": (2, "id is '9223372036854775808', expected a whole number of 64 bits"),
    "parent_minus_two.swc": (2, "sample 2 has parent -2, which is absent"),
    "nul_bytes.swc": (2, r"x is '5\\x00\\x00\\x00\\x00', expected a number"),
}
# Trees that are read: number of samples, radii <= 0, samples at their parent's point.
READ = {
    "HSS_ids_as_floats.swc": (2252, 0, 0),
    "negative_radius_C031097B-I4.swc": (5420, 815, 0),
    "unsorted_ids.swc": (16, 1, 0),
    "zero_radius_inline_comment.swc": (8, 3, 1),
    "zero_length_edges.swc": (847, 0, 23),
    "all_zero_radius.swc": (335, 335, 1),
    "utf8_bom.swc": (4, 0, 0),
    "cr_only_line_ends.swc": (4, 0, 0),
}


def index_rows(name):
    path = FOLDER / name
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def num_branches(parent):
    children = np.bincount(parent[parent >= 0], minlength=parent.size)
    return int((parent < 0).sum() + children[children >= 2].sum())


@needs_folder
def test_the_folder_has_the_files_these_tests_know():
    assert len(index_rows("index.csv")) == len(list((FOLDER / "good").iterdir())) == 30
    files = {row["file"] for row in index_rows("bad.csv")}
    assert files == {path.name for path in (FOLDER / "bad").iterdir()}
    assert files == set(REFUSED) | set(READ)
    assert len(REFUSED) + len(READ) == 31


@needs_folder
@pytest.mark.parametrize("row", index_rows("index.csv"), ids=lambda row: row["file"])
def test_good_file_has_the_counts_of_the_index(row):
    path = FOLDER / "good" / row["file"]
    cell = read_swc(path)
    n = int(row["points"])
    assert cell.parent.shape == cell.radius.shape == cell.type.shape == cell.id.shape == (n,)
    assert cell.xyz.shape == (n, 3)
    assert [a.dtype for a in (cell.parent, cell.type, cell.id, cell.line)] == [np.int64] * 4
    assert cell.xyz.dtype == cell.radius.dtype == np.float64
    assert cell.name == str(path)
    assert is_tree(cell.parent)
    assert (cell.parent < 0).sum() == int(row["roots"]) == 1
    assert np.bincount(cell.parent[cell.parent >= 0]).max() == int(row["max_children"])
    assert num_branches(cell.parent) == int(row["branches"])
    assert cell.type[cell.parent < 0][0] == int(row["root_type"])
    types, counts = np.unique(cell.type, return_counts=True)
    assert " ".join(f"{t}:{c}" for t, c in zip(types, counts, strict=True)) == row["type_counts"]
    assert (cell.radius <= 0).sum() == int(row["zero_or_negative_radii"])
    assert cell.radius.min() == pytest.approx(float(row["min_radius"]), abs=5e-7)
    assert zero_edges(cell) == int(row["zero_length_edges"])
    before = (cell.parent < np.arange(n)).all()
    assert before == (row["parent_before_child"] == "yes")
    assert np.array_equal(cell.id, np.arange(1, n + 1)) == (row["ids"] == "1..n")


@needs_folder
@pytest.mark.parametrize("row", index_rows("index.csv"), ids=lambda row: row["file"])
def test_good_file_reads_as_numpy_reads_it(row):
    path = FOLDER / "good" / row["file"]
    cell = read_swc(path)
    table = np.loadtxt(path, encoding="latin-1")  # float64: exact for these ids
    ours = np.column_stack([cell.id, cell.type, cell.xyz, cell.radius, parent_ids(cell)])
    assert np.array_equal(ours, table)
    numbers = [
        k
        for k, text in enumerate(path.read_text(encoding="latin-1").split("\n"), 1)
        if text.strip() and not text.lstrip().startswith("#")
    ]
    assert cell.line.tolist() == numbers


@needs_folder
@pytest.mark.parametrize("file", REFUSED)
def test_bad_file_is_refused_at_the_line(file):
    line, what = REFUSED[file]
    path = FOLDER / "bad" / file
    with pytest.raises(MorphologyError, match=f":{line}: {what}") as caught:
        read_swc(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")


@needs_folder
@pytest.mark.parametrize("file", READ)
def test_awkward_file_is_read(file):
    samples, radii, edges = READ[file]
    cell = read_swc(FOLDER / "bad" / file)
    assert cell.parent.size == samples
    assert (cell.radius <= 0).sum() == radii
    assert zero_edges(cell) == edges
    assert is_tree(cell.parent)
    assert (cell.parent < 0).sum() == 1


finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def trees(draw):
    """Draw a random forest: parents in any order, ids, types, coordinates, and a file format."""
    n = draw(st.integers(1, 30))
    above = [-1] + [draw(st.integers(-1 if draw(st.booleans()) else 0, k - 1)) for k in range(1, n)]
    ids = draw(st.lists(st.integers(0, 2**63 - 1), min_size=n, max_size=n, unique=True))
    types = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n))
    numbers = draw(st.lists(st.tuples(finite, finite, finite, finite), min_size=n, max_size=n))
    order = draw(st.permutations(range(n)))
    return above, ids, types, numbers, order


def number_text(k, style):
    return [str(k), f"{k}.", f"{k}.000", f"{k}e0", f"+{k}" if k >= 0 else str(k)][style]


@settings(max_examples=150, deadline=None)
@given(trees(), st.data())
def test_written_trees_read_back(tmp_path_factory, tree, data):
    above, ids, types, numbers, order = tree
    style = data.draw(st.integers(0, 4))
    gap = data.draw(st.sampled_from([" ", "\t", "  "]))
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r", " # note\n", "\n\n#\n"]))
    rows = []
    for k in order:
        over = -1 if above[k] < 0 else ids[above[k]]
        whole = [number_text(value, style) for value in (ids[k], types[k], over)]
        rows.append(gap.join([*whole[:2], *(repr(v) for v in numbers[k]), whole[2]]))
    path = swc(tmp_path_factory.getbasetemp(), end.join(rows), "round_trip.swc")
    cells = read_swc(path, roots="split")
    place = {ids[k]: j for j, k in enumerate(order)}
    seen = []
    for cell in cells:
        assert (cell.parent < 0).sum() == 1
        for j, sample in enumerate(cell.id.tolist()):
            k = ids.index(sample)
            over = -1 if cell.parent[j] < 0 else int(cell.id[cell.parent[j]])
            assert over == (-1 if above[k] < 0 else ids[above[k]])
            assert cell.type[j] == types[k]
            assert (*cell.xyz[j].tolist(), float(cell.radius[j])) == numbers[k]
            seen.append(sample)
        assert [place[s] for s in cell.id.tolist()] == sorted(place[s] for s in cell.id.tolist())
    assert sorted(seen) == sorted(ids)
    assert len(cells) == above.count(-1)
    if len(cells) == 1:
        assert read_swc(path).parent.tolist() == cells[0].parent.tolist()
    else:
        assert f"{len(cells)} {SEVERAL}" in refusal(path)[1]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text("0123456789.-+e#_ \t\r\n", max_size=80))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    path = swc(tmp_path_factory.getbasetemp(), data, "any.swc")
    try:
        cells = read_swc(path, roots="split")
    except MorphologyError as error:
        assert str(error).startswith(f"{path}:")
        assert str(error).isascii() or not str(path).isascii()
    else:
        assert all(math.isfinite(v) for cell in cells for v in cell.xyz.ravel())


def test_a_large_shuffled_file(tmp_path):
    parent = random_binary_tree(3000, 200, 3)
    n = parent.size
    assert n > 2000
    rng = np.random.default_rng(5)
    ids = rng.permutation(10 * n)[:n]
    order = rng.permutation(n)
    rows = [f"{ids[k]} 3 {k} 0 0 1 {-1 if k == 0 else ids[parent[k]]}" for k in order]
    cell = read_swc(swc(tmp_path, "\n".join(rows)))
    assert np.array_equal(cell.id, ids[order])
    node = cell.xyz[:, 0].astype(int)
    assert np.array_equal(node, order)
    root = np.flatnonzero(cell.parent < 0)
    assert node[root].tolist() == [0]
    inner = cell.parent >= 0
    assert np.array_equal(node[cell.parent[inner]], parent[node[inner]])
