"""Compare the order of events, self events, plays and WATCH conditions with NEURON's queue."""

from pathlib import Path

import forked
import pytest

pytestmark = pytest.mark.neuron
PROGRAM = Path(__file__).with_name("queue_program.py")
SEEDS = {"moves": 6, "fires": 1, "interval": 6, "gain": 12, "level": 8, "clock": 3}
ENGINES = "steps", "epochs-cpu", "epochs-gpu"
CASES = [(case, seed, "reference", "0") for case, n in SEEDS.items() for seed in range(n)]
CASES += [
    (case, seed, e, "0") for case, n in SEEDS.items() for e in ENGINES for seed in range(n)[:2]
]
# in pieces; NEURON takes each last step itself
CASES += [("fires", 1, "reference", "10,1,0.1,1e"), ("level", 0, "reference", "5,1,0.1,1e")]
CASES += [
    ("clock", 0, "reference", "5,1,0.1"),
    *(("moves", seed, "reference", "n2") for seed in range(6)),
    ("gain", 3, "reference", "1,1e"),
    ("gain", 4, "reference", "1"),
    *(("gain", 32, engine, "n3") for engine in ("reference", "steps", "epochs-cpu")),
]


TWICE = """
sys.path.insert(0, {folder!r})
import queue_program as q
from neuron import h
import clhines
h.load_file("stdrun.hoc")
h.nrn_load_dll(str(q.built()))
at = q.section()
at.sec.insert("ext_twice")
current, = q.recorded(at._ref_ica)
h.finitialize(-65)
h.continuerun(1)
print(json.dumps([current[3] / current[0], [str(r) for r in clhines.neuron.check()]]))
"""


def test_a_current_that_neuron_adds_up_twice_is_not_recorded():
    """Difference ``neuron.vector-record-current-twice``."""
    factor, said = forked.result_of(TWICE.format(folder=str(PROGRAM.parent)))
    assert factor == pytest.approx(2, rel=0.1)
    assert len(said) == 1 and "Vector.record of ica beside ext_twice, which writes" in said[0]


@pytest.mark.parametrize(("case", "seed", "engine", "pieces"), CASES)
def test_vectors_and_events_are_those_of_neuron(case, seed, engine, pieces):
    said = forked.result_of(PROGRAM, case, seed, engine, pieces)
    assert max(said["lengths"]) > 100
    assert said["found"] == {piece: [] for piece in pieces.split(",")}
