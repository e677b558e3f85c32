"""`clhines.neuron.run` beside NEURON itself, which is the oracle."""

from pathlib import Path

import forked
import pytest

pytest.importorskip("neuron", reason="NEURON is not installed")
pytestmark = pytest.mark.neuron
SUPPORT = Path(__file__).parents[1] / "support"
# NEURON divides differences of currents by 0.001 mV for conductances, also of ohmic ones: 1e-13 of
# 1 mA/cm² for 0.02 S/cm², 5e-12 relative, which a spike's upstroke (about e^5) amplifies.
TOLERANCE = 1e-9


def result_of(case, engine, program="neuron_program.py"):
    program = str(SUPPORT / program)
    start = (
        f"import runpy, sys; sys.path.insert(0, {str(SUPPORT.parent)!r});"
        f"sys.argv[1:] = [{case!r}, {engine!r}];"
        f"runpy.run_path({program!r}, run_name='__main__')"
    )
    return forked.result_of(start)


CASES = [
    (case, "reference")
    for case in (
        "joined",
        "recorders",
        "events",
        "named",
        "played",
        "gaps",
        "streams",
        "watched",
        "crossing",
        "trains",
        "clamped",
        "patterns",
        "second",
        "late",
        "half",
        "lone",
    )
]


STEPS = [
    *CASES,
    *(
        (case, "steps")
        for case in ("recorders", "events", "played", "streams", "watched", "common", "clamped")
    ),
    *((case, "epochs-gpu") for case in ("recorders", "crossing", "played")),  # of whole cells
]


@pytest.mark.parametrize(("case", "engine"), STEPS)
def test_vectors_are_those_of_neuron(case, engine):
    found = result_of(case, engine)
    for way, got in found.items():
        assert got["t"] == 0, way
        assert all(a == b for a, b in got["lengths"]), (way, got["lengths"])
        assert any(a > 2 for a, _ in got["lengths"])
        for difference, scale in zip(got["differences"], got["scales"], strict=True):
            assert difference <= TOLERANCE * max(scale, 1e-6), (way, got)


@pytest.mark.parametrize(
    ("engine", "dt"), [("reference", 0.025), ("steps", 0.1), ("epochs-gpu", 0.025)]
)
def test_bins_of_events_are_those_of_neuron(engine, dt):
    found = result_of(engine, str(dt), "bins_program.py")
    assert found["events"] > 6
    assert found["plain"] is None or found["plain"] > 0.01  # bins matter here
    assert found["whole"] is not None and found["whole"] <= TOLERANCE, found
    assert found["turns"] is not None and found["turns"] <= TOLERANCE, found
