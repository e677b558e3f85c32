"""Tables and pictures of existing results."""

import importlib.util
import json
import shutil

import pytest

from bench import MissingError, again, record


@pytest.mark.parametrize(
    "source", sorted(record.RESULTS.glob("*.json")), ids=lambda path: path.stem
)
def test_results_are_printed_from_their_numbers(source, tmp_path):
    """They equal the site's tables; a script of the tests makes `runtimes`."""
    if source.stem == "runtimes":
        return
    path = tmp_path / source.name
    shutil.copy(source, path)
    json_ = json.loads(path.read_text("utf-8"))
    json_.setdefault("record", {}).setdefault("commit", "unknown")
    path.write_text(json.dumps(json_))
    again.main([str(path)])
    lines = path.with_suffix(".txt").read_text("utf-8").splitlines()
    assert len(lines) > 3 and max(map(len, lines)) <= 210
    if importlib.util.find_spec("matplotlib") and source.with_suffix(".svg").is_file():
        assert path.with_suffix(".svg").stat().st_size > 10_000


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
