"""The SWC reader: accepted and rejected forms, and messages."""

import numpy as np
import pytest
from real_cells import FOLDER, needs_folder
from swc_files import is_tree, parent_ids, refusal, swc, zero_edges

import clhines
from clhines.core.errors import ClhinesError, InputError, MorphologyError
from clhines.simulator.cells.swc import read_swc

pytestmark = pytest.mark.core


@needs_folder
@pytest.mark.parametrize(
    ("file", "sizes"),
    [
        ("multiple_somata.swc", [9, 1]),
        ("disconnected_neurite.swc", [9, 1]),
        ("hemibrain_754538881_two_roots.swc", None),
        ("dIN_5_roots_crlf.swc", None),
        ("autotrace_207_roots.swc", None),
    ],
)
def test_several_roots_split_into_cells(file, sizes):
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
    if sizes:
        assert [cell.parent.size for cell in cells] == sizes


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
