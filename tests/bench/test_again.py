"""Tables and pictures of results that are there already."""

import importlib.util
import json
import shutil

import pytest

from bench import MissingError, again, record

KEPT = (
    "accuracy-pocl", "cells-peers-nvidia", "checks", "devices-nvidia", "methods-pocl",
    "options-pocl", "reach-nvidia", "ring-pocl", "scale-pocl", "solve-pocl", "spikes-nvidia",
    "tune-nvidia",
)  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_tables_in_results_are_those_of_their_numbers(name, tmp_path):
    """The head stays; so does the table, which the same code wrote."""
    source = sorted(record.RESULTS.glob(f"{name}*.json"))[0]
    path = tmp_path / source.name
    shutil.copy(source, path)
    shutil.copy(source.with_suffix(".txt"), tmp_path)
    again.main([str(path)])
    before = source.with_suffix(".txt").read_text("utf-8")
    after = path.with_suffix(".txt").read_text("utf-8")
    timed_now = "a cell: "  # of `scale`: decoding is timed when the table is written
    assert after.partition(timed_now)[0] == before.partition(timed_now)[0]
    if importlib.util.find_spec("matplotlib") and source.with_suffix(".svg").is_file():
        assert path.with_suffix(".svg").stat().st_size > 10_000


def test_a_figure_of_the_papers(tmp_path):
    source = record.RESULTS / "papers-pocl-amd-epyc" / "report-7.1.json"
    path = tmp_path / "any.json"
    shutil.copy(source, path)
    again.main([str(path)])
    body = source.with_suffix(".txt").read_text("utf-8").partition("\n\n")[2]
    assert path.with_suffix(".txt").read_text("utf-8").partition("\n\n")[2] == body


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.json", None, "none.json: No such file"),
        ("ring.json", "[]", "ring.json: expected the JSON of a result"),
        ("ring.json", "not JSON", "ring.json: expected the JSON of a result"),
        ("peers.json", json.dumps({"record": {}}), "peers.json: expected the JSON of a result"),
        ("plot-x.json", "{}", "plot-x.json: no measure 'plot' writes such a file"),
    ],
)
def test_files_that_are_no_results(name, content, said, tmp_path):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(MissingError, match=said):
        again.main([str(tmp_path / name)])
