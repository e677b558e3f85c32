"""Ways to deliver spikes."""

import importlib.util
import json

import numpy as np

from bench.measures import spikes


def test_a_line_has_a_hundred_columns():
    """Also with a GPU's algorithms, among them two `vsn` and two `vssn` widths."""
    names = "vpo", "vsn 256", "vssn 256", "vsn 2048", "vssn 2048"
    seconds = {name: 1e-6 * 9.0**k for k, name in enumerate(names)}
    row = {"probability": 0.001, "spikes": 45, "found": 100.0, "seconds": seconds, "best": "vpo"}
    row["good"] = True
    lines = spikes.text({"rows": [row]}).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[3].split() == [name.split()[0] for name in names]
    assert lines[4].split()[:6] == ["pairs", "spikes", "256", "256", "2048", "2048"]
    assert lines[6].split()[2:7] == ["1.0*", "9.0", "81.0", "729.0", "6561.0"]


def test_spikes(measured_on, monkeypatch, tmp_path, capsys):
    arguments = "--targets 500 --probability 0.1 0.5 --spikes 2 10 --max-delay 2 --out".split()
    arguments = [*arguments, str(tmp_path)]
    assert spikes.main(arguments) == 0
    (path,) = tmp_path.glob("spikes-*.json")
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [(r["probability"], r["spikes"]) for r in rows] == [
        (0.1, 2),
        (0.1, 10),
        (0.5, 2),
        (0.5, 10),
    ]
    for r in rows:
        assert r["good"] and r["found"] > 0
        assert list(r["seconds"]) == ["vpo", "vsn 2048", "vssn 2048"]
        assert min(r["seconds"], key=r["seconds"].get) == r["best"]
        assert all(0 < t < np.inf for t in r["seconds"].values())
    printed = capsys.readouterr().out
    assert all(len(line) <= 100 for line in printed.splitlines())
    assert printed.count(" is best in ") >= 1 and printed.count(" yes") == len(rows)
    if importlib.util.find_spec("matplotlib"):
        assert path.with_suffix(".svg").stat().st_size > 10_000
    monkeypatch.setattr(spikes, "same_bits", lambda *_: False)
    assert spikes.main(arguments) == 1
