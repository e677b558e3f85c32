"""Arrays of other libraries: what is shared, and what copies take."""

import json

import pytest

from bench.measures import share


def test_copies_are_timed(measured_on, tmp_path):
    share.main(["--numbers", "1000", "4000", "--out", str(tmp_path)])
    (path,) = tmp_path.glob("share-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [r["numbers"] for r in rows] == [1000, 4000]
    for row in rows:
        assert set(row["seconds"]) == set(share.NAMES)
        assert all(0 < row["seconds"][n] <= row["median_seconds"][n] for n in share.NAMES)
        assert row["shared"]  # PoCL


def test_a_copy_in_place_of_shared_memory_is_not_timed(measured_on, monkeypatch, tmp_path):
    copied = lambda self, **given: self._values.copy().__dlpack__()  # noqa: E731
    monkeypatch.setattr(share.Foreign, "__dlpack__", copied)
    with pytest.raises(SystemExit, match="was copied"):
        share.main(["--numbers", "1000", "--out", str(tmp_path)])
