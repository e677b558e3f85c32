"""The SWC reader: forms, messages, real files with known counts, round trips, and limits.

Files and cells too large are refused before memory is allocated: 2 GiB of addresses suffice.
"""

import csv
import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_python
from real_cells import FOLDER, needs_folder
from swc_files import is_tree, parent_ids, refusal, swc, zero_edges

import clhines
from bench.made import random_binary_tree
from clhines.core.errors import ClhinesError, InputError, MorphologyError
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


@needs_folder
@pytest.mark.parametrize("file", [name for name, (_, said) in REFUSED.items() if SEVERAL in said])
def test_several_roots_split_into_cells(file):
    path = FOLDER / "bad" / file
    cells = read_swc(path, roots="split")
    table = np.loadtxt(path, encoding="latin-1")
    roots = table[table[:, 6] == -1, 0]
    assert [cell.id[cell.parent < 0].tolist() for cell in cells] == [[r] for r in roots]
    assert all(is_tree(cell.parent) for cell in cells)
    rows = [np.column_stack([c.id, c.type, c.xyz, c.radius, parent_ids(c)]) for c in cells]
    together = np.concatenate(rows)
    by_line = np.argsort(np.concatenate([cell.line for cell in cells]))
    assert np.array_equal(together[by_line], table)


@needs_folder
def test_split_refuses_what_is_malformed_otherwise():
    line, message = refusal(FOLDER / "bad" / "multiple_roots_and_dup_id.swc", roots="split")
    assert line == 9
    assert message.startswith("id 3 is also on line 7")


PLAIN = "1 1 0 0 0 5 -1\n2 3 5 0 0 1 1\n3 3 10 0 0 0.5 2\n4 4 0 -7.25 1e1 .5 1\n"


def assert_is_plain(cell):
    assert cell.parent.tolist() == [-1, 0, 1, 0]
    assert cell.xyz.tolist() == [[0, 0, 0], [5, 0, 0], [10, 0, 0], [0, -7.25, 10]]
    assert cell.radius.tolist() == [5, 1, 0.5, 0.5]
    assert cell.type.tolist() == [1, 3, 3, 4]
    assert cell.id.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (PLAIN, [1, 2, 3, 4]),
        (PLAIN.rstrip("\n"), [1, 2, 3, 4]),
        (PLAIN.replace("\n", "\r\n"), [1, 2, 3, 4]),
        (PLAIN.replace("\n", "\r"), [1, 2, 3, 4]),
        (PLAIN.replace("\n", "\r").rstrip("\r"), [1, 2, 3, 4]),
        (PLAIN.replace(" ", "\t"), [1, 2, 3, 4]),
        (PLAIN.replace(" ", " \t "), [1, 2, 3, 4]),
        (PLAIN.replace("\n", "  \t\n"), [1, 2, 3, 4]),
        ("\ufeff" + PLAIN, [1, 2, 3, 4]),
        ("\ufeff# head\n" + PLAIN, [2, 3, 4, 5]),
        ("# Bj\u00f6rn, \u00b5m, 1 2 3\n\n  \t\n  # more\n" + PLAIN + "# foot\n", [5, 6, 7, 8]),
        (PLAIN.replace("\n", " # a note, 1_000\n"), [1, 2, 3, 4]),
        (PLAIN.replace("\n", "#5\n"), [1, 2, 3, 4]),
        (PLAIN.encode().replace(b"\n", b"\n# caf\xe9 \xff\n"), [1, 3, 5, 7]),
        (PLAIN.replace("1 1 0 0 0 5 -1", "+1 1.0 +0 -0 0. 5e0 -1.0"), [1, 2, 3, 4]),
        (PLAIN.replace("4 4 0", "4.0000e+000 40e-1 0.0"), [1, 2, 3, 4]),
    ],
)
def test_forms_of_one_cell(tmp_path, text, lines):
    path = swc(tmp_path, text)
    cell = read_swc(path)
    assert_is_plain(cell)
    assert cell.line.tolist() == lines
    assert cell.name == str(path)


def test_the_next_line_sign_does_not_end_a_line(tmp_path):
    # str.splitlines ends lines at U+0085, U+2028 and form feeds; that would uncomment this.
    text = "# a\u0085b \u2028 c\x0bd\x0ce\n1 1 0 0 0 5 -1\n"
    assert read_swc(swc(tmp_path, text)).line.tolist() == [2]


def test_ids_with_gaps_in_any_order_and_parents_after_children(tmp_path):
    text = "70 3 1 0 0 1 9\n3 3 2 0 0 1 70\n9 1 0 0 0 5 -1\n0 3 3 0 0 1 3\n"
    cell = read_swc(swc(tmp_path, text))
    assert cell.parent.tolist() == [2, 0, -1, 1]
    assert cell.id.tolist() == [70, 3, 9, 0]


def test_any_type_code_and_any_number_of_children(tmp_path):
    rows = ["1 -5 0 0 0 1 -1"] + [f"{k} {100 * k} {k} 0 0 1 1" for k in range(2, 60)]
    cell = read_swc(swc(tmp_path, "\n".join(rows)))
    assert cell.type.tolist() == [-5] + [100 * k for k in range(2, 60)]
    assert (cell.parent[1:] == 0).all()


def test_awkward_radii_and_places_are_kept(tmp_path):
    cell = read_swc(swc(tmp_path, "1 1 0 0 0 0 -1\n2 3 0 0 0 -2.5 1\n"))
    assert cell.radius.tolist() == [0, -2.5]
    assert zero_edges(cell) == 1


def test_large_ids_are_exact(tmp_path):
    # 2**53 + 1 and 2**63 - 1 do not survive a float; the first is here written like one.
    text = f"{2**53 + 1}.0 1 0 0 0 5 -1\n{2**63 - 1} 3 1 0 0 1 {2**53 + 1}\n"
    text += f"{2**53} 3 2 0 0 1 {2**63 - 1}.00\n"
    cell = read_swc(swc(tmp_path, text))
    assert cell.id.tolist() == [2**53 + 1, 2**63 - 1, 2**53]
    assert cell.parent.tolist() == [-1, 0, 1]


def test_huge_coordinates_whose_sum_overflows(tmp_path):
    cell = read_swc(swc(tmp_path, "1 1 1e308 1e308 1e308 5 -1\n"))
    assert cell.xyz.tolist() == [[1e308] * 3]


def test_split_keeps_order_ids_and_lines(tmp_path):
    text = "#\n5 3 1 0 0 1 7\n8 1 0 9 0 5 -1\n7 1 0 0 0 5 -1\n6 3 2 0 0 1 5\n9 3 0 8 0 1 8\n"
    first, second = read_swc(swc(tmp_path, text), roots="split")
    assert first.id.tolist() == [8, 9]
    assert first.parent.tolist() == [-1, 0]
    assert first.line.tolist() == [3, 6]
    assert second.id.tolist() == [5, 7, 6]
    assert second.parent.tolist() == [1, -1, 0]
    assert second.xyz[:, 0].tolist() == [1, 0, 2]
    assert first.name == second.name == str(tmp_path / "cell.swc")


def test_split_of_one_root_is_a_list_of_one(tmp_path):
    (cell,) = read_swc(swc(tmp_path, PLAIN), roots="split")
    assert_is_plain(cell)


@pytest.mark.parametrize(
    ("text", "line", "got", "expected"),
    [
        ("", 1, "no samples", "at least one"),
        ("# only\r\n\r\n# comments\r\n", 3, "no samples", "at least one"),
        ("1 1 0 0 0 5\n", 1, "6 columns in '1 1 0 0 0 5'", "expected 7: id type x y z radius"),
        (PLAIN + "5 3 1 0", 5, "4 columns", "expected 7"),
        (PLAIN + "5 3 1 0 0 1 # 4", 5, "6 columns", "expected 7"),
        (PLAIN + "5 3 1 0 0 1 4 0", 5, "8 columns", "expected 7"),
        ("n,type,x,y,z,radius,parent\n" + PLAIN, 1, "1 columns", "expected 7"),
        ("1 1 0,5 0 0 5 -1", 1, "x is '0,5'", "expected a number"),
        ("1 1 0 0 NA 5 -1", 1, "z is 'NA'", "expected a number"),
        ("1 1 0 1_0 0 5 -1", 1, "y is '1_0'", "expected a number"),
        ("1 1 0 0x1 0 5 -1", 1, "y is '0x1'", "expected a number"),
        ("1 1 0 0 0 nan -1", 1, "radius is 'nan'", "expected a finite number"),
        ("1 1 0 0 -inf 5 -1", 1, "z is '-inf'", "expected a finite number"),
        ("1 1 1e999 0 0 5 -1", 1, "x is '1e999'", "expected a finite number"),
        (b"1 1 0 0 0 5\0 -1", 1, r"radius is '5\x00'", "expected a number"),
        (b"1 1\0 0 0 0 5 -1", 1, r"type is '1\x00'", "expected a whole number"),
        ("1 1 \uff15 0 0 5 -1", 1, r"x is '\uff15'", "expected a number"),
        ("\uff15 1 0 0 0 5 -1", 1, r"id is '\uff15'", "expected a whole number"),
        ("1 1 0 0\u00a00 0 5 -1", 1, r"y is '0\xa00'", "expected a number"),
        ("1.5 1 0 0 0 5 -1", 1, "id is '1.5'", "expected a whole number"),
        ("1.0000000000000000000000001 1 0 0 0 5 -1", 1, "id is", "expected a whole number"),
        ("1 soma 0 0 0 5 -1", 1, "type is 'soma'", "expected a whole number"),
        ("1 1 0 0 0 5 -1\n2 3 1 0 0 1 1_0", 2, "parent is '1_0'", "expected a whole number"),
        ("1 1 0 0 0 5 nan", 1, "parent is 'nan'", "expected a whole number"),
        ("inf 1 0 0 0 5 -1", 1, "id is 'inf'", "expected a whole number"),
        (f"{2**63} 1 0 0 0 5 -1", 1, f"id is '{2**63}'", "whole number of 64 bits"),
        (f"1 {2**64 + 1} 0 0 0 5 -1", 1, f"type is '{2**64 + 1}'", "whole number of 64 bits"),
        ("1 1 0 0 0 5 1e999999999", 1, "parent is '1e999999999'", "whole number of 64 bits"),
        ("9" * 5000 + " 1 0 0 0 5 -1", 1, "id is '" + "9" * 37 + "...'", "whole number of 64"),
        ("-3 1 0 0 0 5 -1", 1, "id is -3", "expected 0 or more"),
        ("-1 1 0 0 0 5 -1", 1, "id is -1", "expected 0 or more"),
        (PLAIN + "#\n2 3 0 0 0 1 1", 6, "id 2 is also on line 2", "expected unique ids"),
        (PLAIN + "9 3 0 0 0 1 8", 5, "sample 9 has parent 8, which is absent", "or -1 for"),
        ("1 1 0 0 0 5 -2", 1, "sample 1 has parent -2, which is absent", "or -1 for the root"),
        ("1 1 0 0 0 5 1", 1, "sample 1 is its own parent", "another sample or -1"),
        (PLAIN + "8 3 1 0 0 1 9\n9 3 1 0 0 1 8", 5, "a cycle of 2 samples", "8 -> 9 -> 8,"),
        ("1 1 0 0 0 5 2\n2 1 1 0 0 5 1\n", 1, "sample 1 is on a cycle", "expected a tree"),
        # 5 is below a cycle but not on it: the message names the cycle.
        (PLAIN + "5 3 1 0 0 1 6\n6 3 1 0 0 1 7\n7 3 1 0 0 1 6", 6, "sample 6", "6 -> 7 -> 6,"),
        (PLAIN + "5 1 9 9 9 5 -1", 5, "sample 5 is a second root", "expected 1 (or one cell"),
        (b"\xff\xfe1\0 \0", 1, "a UTF-16 byte-order mark", "expected ASCII or UTF-8"),
    ],
)  # fmt: skip
def test_refused(tmp_path, text, line, got, expected):
    where, message = refusal(swc(tmp_path, text))
    assert where == line, message
    assert got in message
    assert expected in message
    assert len(message) < 250


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        # The message names the first bad line, whatever is wrong in later lines or earlier columns.
        ("1 1 0 0 0 nan -1\n2 3 x 0 0 1 1\n3\n", 1, "radius is 'nan'"),
        ("1 1 0 0 0 5 -1\n1 1 0 0 0 5 -1\n2 3 0 0 0 5 9\n", 2, "id 1 is also"),
        ("1 1 0 0 0 5 -1\n2 1 0 0 0 5 -1\n3 3 0 0 0 5 9\n", 3, "sample 3 has parent 9"),
        ("1 1 0 0 0 5 -1\n2 1 0 0 0 5 -1\n3 3 0 0 0 5 3\n", 3, "sample 3 is its own parent"),
        (
            "5 1 0 0 0 5 -1\n3 3 0 0 0 5 5\n5 3 0 0 0 5 3\n3 3 0 0 0 5 5\n",
            3,
            "id 5 is also on line 1",
        ),
        ("1 1 0 0 0 5 -1\n2 3 0 0 0 5 8\n3 3 0 0 0 5 7\n", 2, "sample 2 has parent 8"),
        ("1 1 0 0 0 5 -1\n2 3 0 0 0 5 -1\n3 3 0 0 0 5 -1\n", 2, "sample 2 is a second root"),
    ],
)
def test_the_first_fault_is_named(tmp_path, text, line, message):
    where, got = refusal(swc(tmp_path, text))
    assert where == line
    assert got.startswith(message)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 20_000])
def test_every_length_of_chain_and_cycle(tmp_path, n):
    rows = [f"{k} 3 {k} 0 0 1 {k - 1 or -1}" for k in range(1, n + 1)]
    cell = read_swc(swc(tmp_path, "\n".join(reversed(rows))))
    assert cell.parent.tolist() == [*range(1, n), -1]
    rows[0] = f"1 3 1 0 0 1 {n}"
    line, message = refusal(swc(tmp_path, "\n".join(rows)))
    assert line == 1
    assert "its own parent" in message if n == 1 else f"a cycle of {n} samples" in message
    assert len(message) < 200  # a long cycle is cut short


def test_unreadable_files(tmp_path):
    for path in (tmp_path / "absent.swc", tmp_path, f"{tmp_path}/a\0b"):
        with pytest.raises(
            MorphologyError, match=r"(cannot be read|is no path of a file): .*expected an SWC file"
        ) as caught:
            read_swc(path)
        assert str(caught.value).startswith((f"{path}: ", f"{str(path)!a}: "))
        assert "\n" not in str(caught.value)


def test_unknown_choice_of_roots(tmp_path):
    with pytest.raises(InputError, match="roots is 'merge', expected"):
        read_swc(swc(tmp_path, PLAIN), roots="merge")


def test_path_may_be_a_string_and_errors_share_a_base(tmp_path):
    assert_is_plain(read_swc(str(swc(tmp_path, PLAIN))))
    with pytest.raises(ClhinesError):
        read_swc(str(tmp_path / "absent.swc"))


def test_a_morphology_prints_its_name_and_samples():
    cell = clhines.sample_cells()[0]
    assert len(cell.parent) > 300
    assert repr(cell) == f"Morphology(sample-0: {len(cell.parent)} samples)"


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
def test_good_file_has_the_counts_of_the_index_and_numpy_s_numbers(row):
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


def run_limited(code, *arguments, limit=2**31):
    program = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))\n{code}"
    done = run_python("-c", program, *arguments, timeout=60, OPENBLAS_NUM_THREADS="1")
    return done.stdout + done.stderr[-2000:]


READING = """
import sys
from clhines.core.errors import ClhinesError
from clhines.simulator.cells.swc import read_swc
try:
    read_swc(sys.argv[1])
except ClhinesError as error:
    print(error)
"""


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no /dev/zero")
def test_a_file_without_end_is_refused():
    said = "/dev/zero: cannot be read: is no regular file, expected an SWC file"
    assert run_limited(READING, "/dev/zero") == said + "\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\n" * (2**22 + 1), ": has 4194305 lines, expected at most 4194304"),
        (b"\r" * (2**22 + 1), ": has 4194305 lines, expected at most 4194304"),
        (b"1 " * 2**24, ":1: more than 1000 columns in '1 1 1"),
        (b"1" * 2**25 + b" 1 0 0 0 1 -1", ":1: id is '1111"),
        (b"1 1 0 0 " + b"1" * 2**25 + b" 1 -1", ":1: z is '1111"),
    ],
    ids=["lines", "returns", "columns", "an id", "a coordinate"],  # a variable holds them
)
def test_large_files_are_judged_before_they_are_taken_apart(tmp_path, text, said):
    path = tmp_path / "large.swc"
    path.write_bytes(text)
    result = run_limited(READING, path)
    assert result.startswith(f"{path}{said}")
    assert result.count("\n") == 1


CUT = """
import sys
from clhines.simulator.cells.cable import discretise
from clhines.core.errors import ClhinesError
from clhines.simulator.cells.swc import read_swc
try:
    length = float(sys.argv[2])
    discretise(read_swc(sys.argv[1]), max_length=length or None)
except ClhinesError as error:
    print(error)
"""


@pytest.mark.parametrize("length", [0, 1e-300, 1, 20])
@pytest.mark.parametrize("radius", ["1", "1e9", "1e38", "1e-30"])
@pytest.mark.parametrize("x", ["1e9", "1e30", "3e38"])
def test_huge_cells_are_judged_before_they_are_cut(tmp_path, x, radius, length):
    path = tmp_path / "huge.swc"
    path.write_text(f"1 1 0 0 0 {radius} -1\n2 3 -{x} 0 0 1 1\n3 3 {x} 0 0 {radius} 2\n")
    result = run_limited(CUT, path, length)
    assert result == "" or (result.startswith(str(path)) and result.count("\n") == 1)
    if length in (1e-300, 1, 20):
        assert "segments in a cell, of which" in result or "too long for single precision" in result


@pytest.mark.parametrize("path", [None, 3])
def test_what_is_no_path_is_rejected(path):
    with pytest.raises(InputError, match=f"path is {path}, expected the name of an SWC file"):
        read_swc(path)
