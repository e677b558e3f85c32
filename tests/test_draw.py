"""Pictures of cells and of activity: what is drawn where, and what is said."""

import numpy as np
import pytest

import clhines

pytest.importorskip("matplotlib")
from clhines import draw


@pytest.fixture
def cable():
    return clhines.discretise(clhines.sample_cells()[0])


def strokes(figure, panel=0):
    return figure.axes[panel].collections[0]


def test_each_stroke_has_the_value_of_its_segment(cable):
    """Lengths of strokes by value are the lengths of segments, from areas and diameters."""
    figure = draw.plot_morphology(cable, np.arange(cable.num_nodes))
    drawn = strokes(figure)
    node, ends, diameter = draw._strokes(cable)
    assert np.array_equal(np.sort(drawn.get_array()), np.sort(node))
    # a cylinder of this length and mean diameter: less than the slant side of the frusta
    length = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    area = np.bincount(node, np.pi * length * diameter, cable.num_nodes)
    assert set(node) == set(np.flatnonzero(cable.area > 0))
    used = cable.area > 0
    assert np.all(area[used] <= cable.area[used] * (1 + 1e-6))
    np.testing.assert_allclose(area[used], cable.area[used], rtol=0.02)


def test_panels_share_a_scale_and_name_their_times(cable, tmp_path):
    rows = np.linspace(-70, 20, 3)[:, None] + np.zeros(cable.num_nodes)
    path = tmp_path / "cell.png"
    titles = ["1 ms", "2 ms", "3 ms"]
    figure = draw.plot_morphology(cable, rows, "voltage [mV]", titles, path=path)
    panels = figure.axes[:3]
    assert [axes.get_title() for axes in panels] == titles
    assert {axes.collections[0].get_clim() for axes in panels} == {(-70.0, 20.0)}
    assert figure.axes[-1].get_ylabel() == "voltage [mV]"
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_values_that_are_not_finite_are_left_grey(cable):
    values = np.zeros(cable.num_nodes)
    values[cable.soma] = np.nan
    drawn = strokes(draw.plot_morphology(cable, values))
    assert np.ma.getmaskarray(drawn.get_array()).any()


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 1, 3)])
def test_other_shapes_are_refused(cable, shape):
    with pytest.raises(clhines.InputError, match="a value for each node"):
        draw.plot_morphology(cable, np.zeros(shape))


def test_other_numbers_of_titles_are_refused(cable):
    with pytest.raises(clhines.InputError, match="got 1 titles for 2 rows"):
        draw.plot_morphology(cable, np.zeros((2, cable.num_nodes)), titles=["a"])


def test_a_raster_says_what_it_leaves_out():
    spikes = np.array([1.0, 2.0]), np.array([0, 3])
    traces = np.arange(3.0), np.zeros((3, 1)), ["cell 0"]
    raster = draw.activity(spikes, 400, traces, "a ring").axes[0]
    assert raster.get_title(loc="right") == "cells 10 to 399: no spikes, not shown"
    assert raster.get_ylim() == (-0.5, 9.5)
    raster = draw.activity(spikes, 4, traces, "a ring").axes[0]
    assert raster.get_title(loc="right") == ""


@pytest.mark.parametrize("num_cells", [1, 2, 40])
def test_cells_of_a_raster_are_whole_numbers(num_cells):
    spikes = np.array([1.0]), np.array([0])
    traces = np.arange(3.0), np.zeros((3, 1)), ["tip"]
    raster, below = draw.activity(spikes, num_cells, traces, "few cells").axes
    bottom, top = raster.get_ylim()
    ticks = [tick for tick in raster.get_yticks() if bottom <= tick <= top]
    assert ticks and all(tick == round(tick) for tick in ticks)
    assert below.get_ylabel() == "voltage [mV]"  # of whatever the names say


def test_lines_differ_in_grey_too():
    """Traces of one picture have styles of their own, not only colours."""
    traces = np.arange(3.0), np.zeros((3, 6)), [f"cell {k}" for k in range(6)]
    none = np.zeros(0), np.zeros(0, int)
    lines = draw.activity(none, 6, traces, "six").axes[1].get_lines()
    assert len({(line.get_linestyle(), line._unscaled_dash_pattern[1] is None
                 or tuple(line._unscaled_dash_pattern[1])) for line in lines}) == 6  # fmt: skip


def test_the_style_ends_with_its_block():
    import matplotlib

    before = dict(matplotlib.rcParams)
    with draw.style():
        assert matplotlib.rcParams["image.cmap"] == "cividis"
    assert dict(matplotlib.rcParams) == before


def test_activity_takes_lists_and_needs_a_name_for_each_voltage():
    v = [[-65.0, 0.0], [-64.0, 1.0]]
    figure = draw.activity(([0.5], [0]), 1, ([0.0, 1.0], v, ["soma", "tip"]), "a list")
    assert [line.get_ydata().tolist() for line in figure.axes[1].get_lines()] == [
        [-65.0, -64.0],
        [0.0, 1.0],
    ]
    with pytest.raises(clhines.InputError, match=r"shape \(2, 2\) for 2 times and 1 names"):
        draw.activity(([0.5], [0]), 1, ([0.0, 1.0], v, ["soma"]), "one name")


def test_a_path_is_no_cable():
    with pytest.raises(clhines.InputError, match="cable is str; expected a Cable"):
        draw.plot_morphology("cell.swc", np.zeros(3))
