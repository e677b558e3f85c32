"""Ways to deliver spikes."""

from bench.papers import spikes


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
