"""Mechanisms that set e_extracellular through a POINTER: refusals."""

from pathlib import Path

import forked
import pytest

pytestmark = pytest.mark.neuron


PROGRAM = Path(__file__).with_name("outside_program.py")


POINTERS = """
loaded()
a, b = h.Section(name="a"), h.Section(name="b")
b.connect(a(1))
for section in (a, b):
    section.insert("extracellular")
    section.insert("pas")
found = {}

def point(name, pointers=("ex", "im"), to=None):
    for section in (a, b):
        section.insert(name)
        at = section(0.5)
        for pointer in pointers:
            what = "e_extracellular" if pointer == "ex" else "i_membrane"
            h.setpointer(getattr(to or at, f"_ref_{what}"), pointer, getattr(at, name))

def look(name):
    h.finitialize(-65)
    found[name] = [str(line) for line in clhines.neuron.check()]

def without(*names):
    for section in (a, b):
        for name in names:
            section.uninsert(name)

point("ext_outside")
look("plain")
seen = h.Vector().record(a(0.5).ext_outside._ref_er)
look("record")
seen.record(a(0.5)._ref_vext[0])
look("record of a potential")
seen.record(a(0.5)._ref_v)
values, times = h.Vector([1, 2]), h.Vector([1, 2])
values.play(b(0.5)._ref_e_extracellular, times, 1)
look("played, too")
values.play_remove()
h.secondorder = 1
look("second")
h.secondorder = 0
point("ext_outside", ("ex",), b(0.5))
look("twice")
h.setpointer(a(0.5)._ref_v, "ex", a(0.5).ext_outside)
look("of several")
h.setpointer(a(0.5)._ref_i_membrane, "ex", a(0.5).ext_outside)
look("of a current")
without("ext_outside")
point("ext_outkept")
look("kept")
without("ext_outkept")
point("ext_outlate", ("ex",))
look("late")
print(json.dumps(found))
"""


def test_what_pointers_to_it_are_rejected_for():
    result = forked.result_of(POINTERS)
    assert result.pop("plain") == []
    words = {
        "record": ["Vector.record of er, which depends on i_membrane"],
        "record of a potential": ["Vector.record of vext"],
        "played, too": ["a POINTER to an e_extracellular that is played"],
        "second": ["e_extracellular other than 0 with secondorder = 1"],
        "twice": ["POINTER ex of several instances points to one e_extracellular"],
        "of several": ["POINTER ex points to e_extracellular of extracellular and to others"],
        "of a current": ["POINTER ex points to i_membrane of extracellular and to others"],
        "kept": [
            "which depends on ex",
            "total keeps its value between steps and depends on i_membrane",
        ],
        "late": ["POINTER ex to e_extracellular"],
    }
    assert result.keys() == words.keys()
    for name, lines in result.items():
        assert len(lines) == len(words[name]), (name, lines)
        for line, word in zip(sorted(lines), words[name], strict=True):
            assert word in line, (name, lines)
