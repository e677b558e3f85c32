"""Radii that `repair="zero-radius"` interpolates, and radii that it leaves alone."""

import warnings

import numpy as np
import pytest
from real_cells import FOLDER, needs_folder

from clhines import CableError, InputError, RepairWarning, read_swc
from clhines.simulator.cells.cable import discretise
from clhines.simulator.cells.samples import zero_radii

pytestmark = pytest.mark.core


def written(tmp_path, *rows):
    path = tmp_path / "cell.swc"
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return path


def radii(path):
    with pytest.warns(RepairWarning):
        return read_swc(path, repair="zero-radius").radius.tolist()


def test_linear_in_the_distance_along_the_neurite(tmp_path):
    """Interpolate along a corner: 4 µm from 2 µm, then 3 + 5 µm to 1 µm."""
    rows = [(1, 3, 0, 0, 0, 2, -1), (2, 3, 4, 0, 0, 0, 1), (3, 3, 4, 3, 0, 0, 2)]
    path = written(tmp_path, *rows, (4, 3, 4, 8, 0, 1, 3))
    expected = [2, 2 - 4 / 12, 2 - 7 / 12, 1]
    np.testing.assert_allclose(radii(path), expected, rtol=1e-15)


def test_ends_in_a_cone_and_begins_off_the_soma(tmp_path):
    rows = [(1, 1, 0, 0, 0, 9, -1), (2, 3, 9, 0, 0, 0, 1), (3, 3, 12, 0, 0, 1, 2)]
    rows += [(4, 3, 14, 0, 0, 0, 3), (5, 3, 18, 0, 0, 0, 4)]
    path = written(tmp_path, *rows)
    assert radii(path) == [9, 1, 1, 1 - 2 / 6, 0]
    with pytest.warns(RepairWarning) as caught:
        cell = read_swc(path, repair="zero-radius")
    assert [str(w.message) for w in caught] == [
        f"{path}:2: sample 2 has radius 0, repaired to 1 µm",
        f"{path}:4: sample 4 has radius 0, repaired to 0.666667 µm",
    ]
    assert cell.repaired.tolist() == [1, 3]
    assert (discretise(cell).area[1:] > 0).any()


def test_all_at_one_place(tmp_path):
    rows = [(1, 3, 0, 0, 0, 2, -1), (2, 3, 0, 0, 0, 0, 1), (3, 3, 0, 0, 0, 1, 2)]
    assert radii(written(tmp_path, *rows, (4, 3, 9, 0, 0, 1, 3))) == [2, 1.5, 1, 1]


def test_the_nearest_of_several_branches_counts(tmp_path):
    rows = [(1, 3, 0, 0, 0, 2, -1), (2, 3, 3, 0, 0, 0, 1), (3, 3, 9, 0, 0, 1, 2)]
    assert radii(written(tmp_path, *rows, (4, 3, 3, 3, 0, 0.5, 2)))[1] == 2 - 1.5 / 2


@pytest.mark.parametrize(
    ("rows", "sample"),
    [
        ([(1, 1, 0, 0, 0, 0, -1), (2, 3, 9, 0, 0, 1, 1)], 1),  # a soma
        ([(1, 1, 0, 0, 0, 5, -1), (2, 3, 9, 0, 0, 0, 1), (3, 3, 12, 0, 0, 0, 2)], 2),  # no radius
        ([(1, 1, 0, 0, 0, 5, -1), (2, 3, 9, 0, 0, 0, 1)], 2),  # a tip at the soma
    ],
)
def test_what_nothing_is_known_of_is_refused_without_naming_the_repair(tmp_path, rows, sample):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cell = read_swc(written(tmp_path, *rows), repair="zero-radius")
    assert not cell.repaired.size
    with pytest.raises(CableError, match=f"sample {sample} has radius 0, expected") as caught:
        discretise(cell)
    assert "repair" not in str(caught.value)


def test_negative_radii_are_no_zeros(tmp_path):
    rows = [(1, 3, 0, 0, 0, 2, -1), (2, 3, 4, 0, 0, -1, 1), (3, 3, 8, 0, 0, 1, 2)]
    cell = read_swc(written(tmp_path, *rows), repair="zero-radius")
    assert cell.radius.tolist() == [2, -1, 1]


def test_each_root_is_repaired(tmp_path):
    one = [(1, 3, 0, 0, 0, 2, -1), (2, 3, 4, 0, 0, 0, 1), (3, 3, 8, 0, 0, 1, 2)]
    other = [(k + 3, t, x, y, 50, r, p if p < 0 else p + 3) for k, t, x, y, _, r, p in one]
    with pytest.warns(RepairWarning):
        cells = read_swc(written(tmp_path, *one, *other), "split", repair="zero-radius")
    assert [cell.radius.tolist() for cell in cells] == [[2, 1.5, 1]] * 2
    assert [cell.repaired.tolist() for cell in cells] == [[1], [1]]


@pytest.mark.parametrize("repair", ["zero", "", 1, True])
def test_unknown_repair(tmp_path, repair):
    with pytest.raises(InputError, match="repair is .*, expected"):
        read_swc(written(tmp_path, (1, 1, 0, 0, 0, 1, -1)), repair=repair)


@needs_folder
@pytest.mark.parametrize(
    ("name", "sample"), [("zero_radius_inline_comment.swc", 6), ("unsorted_ids.swc", None)]
)
def test_real_files(name, sample):
    cell = read_swc(FOLDER / "bad" / name)
    with pytest.raises(CableError) as caught:
        discretise(cell)
    said = "or an interpolated one, by repair='zero-radius', --repair zero-radius"
    assert (said in str(caught.value)) == (sample is not None)
    if sample is None:  # the sample with radius 0 is in the soma
        assert not zero_radii(cell)[0].size
        return
    with pytest.warns(RepairWarning, match=f":10: sample {sample} has radius 0, repaired to 0.5"):
        assert (discretise(read_swc(FOLDER / "bad" / name, repair="zero-radius")).area > 0).any()


def test_long_neurites_take_time_in_proportion(tmp_path):
    n = 20_000
    rows = [(i, 3, i, 0, 0, 1 if i in (1, n) else 0, i - 1 or -1) for i in range(1, n + 1)]
    cell = read_swc(written(tmp_path, *rows))
    samples, new = zero_radii(cell)
    assert samples.tolist() == list(range(1, n - 1))
    np.testing.assert_allclose(new, 1)
