"""Pictures for cells and results: line positions, labels, and refusals."""

import numpy as np
import pytest

import clhines

pytest.importorskip("matplotlib")
pytest.importorskip("clhines.simulator", reason="draws cells and results")
import results

from clhines.simulator.analysis import draw


@pytest.fixture
def cable():
    return clhines.discretise(clhines.sample_cells()[0])


def strokes(figure, panel=0):
    return figure.axes[panel].collections[0]


def test_each_stroke_has_the_value_of_its_segment(cable):
    """A segment's strokes, coloured by value, have its length, computed from area and diameters."""
    figure = draw.plot_morphology(cable, np.arange(cable.num_nodes))
    drawn = strokes(figure)
    node, ends, diameters = draw._frusta(cable)
    assert np.array_equal(np.sort(drawn.get_array()), np.sort(node))
    # strokes are the slant sides of frusta
    length = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    slant = np.hypot(length, np.diff(diameters, axis=1)[:, 0] / 2)
    area = np.bincount(node, np.pi * slant * diameters.mean(axis=1), cable.num_nodes)
    assert set(node) == set(np.flatnonzero(cable.area > 0))
    used = cable.area > 0
    np.testing.assert_allclose(area[used], cable.area[used], rtol=1e-6)


def test_outlines_have_the_diameters_of_both_ends():
    ends = np.array([[[0.0, 0.0], [0.0, 10.0]], [[0.0, 0.0], [3.0, 4.0]]])
    corners = draw._outlines(ends, np.array([[2.0, 4.0], [1.0, 1.0]]))
    assert corners[0].tolist() == [[1, 0], [2, 10], [-2, 10], [-1, 0]]
    np.testing.assert_allclose(corners[1].mean(axis=0), [1.5, 2.0])
    np.testing.assert_allclose(np.linalg.norm(corners[1, 0] - corners[1, 3]), 1.0)


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
    spikes = [1.0, 2.0], [0, 3]
    raster = draw.plot_raster(results.drawn(400, spikes, np.zeros((3, 1)))).axes[0]
    assert raster.get_title(loc="right") == "cells 10 to 399, without spikes, are not shown"
    assert raster.get_ylim() == (-0.5, 9.5)
    raster = draw.plot_result(results.drawn(4, spikes, np.zeros((3, 1)))).axes[0]
    assert raster.get_title(loc="right") == ""


def test_a_raster_is_of_cells_alone():
    raster = draw.plot_raster(results.drawn(2, ([0.5, 1.0, 1.5], [0, 2, 1]), np.zeros((3, 1))))
    assert raster.axes[0].collections[0].get_offsets().tolist() == [[0.5, 0], [1.5, 1]]


@pytest.mark.parametrize("num_cells", [1, 2, 40])
def test_cells_of_a_raster_are_whole_numbers(num_cells):
    result = results.drawn(num_cells, ([1.0], [0]), np.zeros((3, 1)))
    raster, below = draw.plot_result(result, names=["tip"]).axes
    bottom, top = raster.get_ylim()
    ticks = [tick for tick in raster.get_yticks() if bottom <= tick <= top]
    assert ticks and all(tick == round(tick) for tick in ticks)
    assert below.get_ylabel() == "voltage [mV]"  # the unit labels the axis, whatever the names


def test_lines_differ_in_grey_too():
    """Traces in one picture have different line styles, not only colours."""
    lines = draw.plot_traces(results.drawn(6, ([], []), np.zeros((3, 6)))).axes[0].get_lines()
    assert len({(line.get_linestyle(), line._unscaled_dash_pattern[1] is None
                 or tuple(line._unscaled_dash_pattern[1])) for line in lines}) == 6  # fmt: skip


def test_pictures_go_into_axes_that_are_given(cable, tmp_path):
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots(3)
    result = results.drawn(2, ([0.5], [1]), [[-65.0, 0.0], [-64.0, 1.0]])
    assert draw.plot_raster(result, ax=axes[0]) is figure
    assert draw.plot_traces(result, ax=axes[1], path=tmp_path / "all.png") is figure
    assert draw.plot_morphology(cable, np.arange(cable.num_nodes), ax=axes[2]) is figure
    assert [line.get_ydata().tolist() for line in axes[1].get_lines()] == [[-65, -64], [0, 1]]
    assert (tmp_path / "all.png").exists() and axes[0].collections and axes[2].collections
    with pytest.raises(clhines.InputError, match="ax is str; expected matplotlib's Axes"):
        draw.plot_raster(result, ax="left")


def lines_of(axes):
    return [(line.get_label(), line.get_xdata().tolist()) for line in axes.get_lines()]


@pytest.mark.parametrize("drawing", ["plot_traces", "plot_result"])
def test_records_of_other_times_are_drawn(drawing):
    """Draw records with `every`, alone and beside records of all steps."""
    one = ([1.0], [0])
    of_steps, coarse = ("v", "v", "mV", 1), ("slow", "v", "mV", 2)
    below = getattr(draw, drawing)(results.recorded(one, [coarse])).axes[-1]
    assert lines_of(below) == [("soma", [0.0, 2.0, 4.0])]
    assert below.get_ylabel() == "voltage [mV]" and below.get_title(loc="right") == ""
    below = getattr(draw, drawing)(results.recorded(one, [of_steps, coarse])).axes[-1]
    assert lines_of(below) == [("v", [0.0, 1.0, 2.0, 3.0, 4.0]), ("slow", [0.0, 2.0, 4.0])]


def test_pictures_name_the_records_that_they_leave_out():
    one, gate, other = ([], []), ("hh.m", "hh.m", "", 2), ("hh.h", "hh.h", "", 1)
    voltage, most, current = ("v", "v", "mV", 1), ("most", "v", "mV", 0), ("i", "i", "nA", 1)
    below = draw.plot_result(results.recorded(one, [gate, voltage, most])).axes[1]
    assert [name for name, _ in lines_of(below)] == ["soma"]
    assert below.get_title(loc="right") == "not drawn: hh.m, most"
    below = draw.plot_result(results.recorded(one, [gate, current, other])).axes[1]
    assert [name for name, _ in lines_of(below)] == ["hh.m", "hh.h"]
    assert below.get_ylabel() == "hh.m, hh.h" and below.get_title(loc="right") == "not drawn: i"
    below = draw.plot_result(results.recorded(one, [most])).axes[1]
    assert [text.get_text() for text in below.texts] == ["no record with rows"]
    assert below.get_title(loc="right") == "not drawn: most"
    below = draw.plot_result(results.recorded(one, [])).axes[1]
    assert [text.get_text() for text in below.texts] == ["nothing recorded"]


def test_each_line_needs_a_name():
    result = results.drawn(2, ([0.5], [0]), np.zeros((2, 2)))
    with pytest.raises(clhines.InputError, match="got 1 names for 2 lines"):
        draw.plot_traces(result, names=["soma"])


def test_the_style_ends_with_its_block():
    import matplotlib

    before = dict(matplotlib.rcParams)
    with draw.style():
        assert matplotlib.rcParams["image.cmap"] == "cividis"
    assert dict(matplotlib.rcParams) == before


def test_labels_of_low_pictures_are_whole(tmp_path):
    """The label of the scale bar stays whole if a cell is much wider than high."""
    soma = np.array([[0, 0, 0, 8.0]])
    line = np.stack((40.0 * np.arange(1, 30), np.zeros(29), np.zeros(29), np.full(29, 1.5)), 1)
    rows = [f"{k + 1} {3 - 2 * (not k)} {x} {y} {z} {r} {k or -1}"
            for k, (x, y, z, r) in enumerate(np.concatenate((soma, line)).tolist())]  # fmt: skip
    (tmp_path / "wide.swc").write_text("\n".join(rows) + "\n", "utf-8")
    cell = clhines.read_swc(tmp_path / "wide.swc")
    figure = clhines.discretise(cell, max_length=20).plot()
    figure.savefig(tmp_path / "wide.png")  # computes the layout
    bar = figure.axes[-1]
    label = (bar.xaxis.label if bar.get_xlabel() else bar.yaxis.label).get_window_extent()
    assert label.width <= figure.bbox.width and label.height <= figure.bbox.height
    assert min(label.x0, label.y0) >= 0 and label.y1 <= figure.bbox.height


def test_a_path_is_no_cable():
    with pytest.raises(clhines.InputError, match="cable is str; expected a Cable"):
        draw.plot_morphology("cell.swc", np.zeros(3))
