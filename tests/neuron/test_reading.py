"""`run` refuses exactly the models that `clhines.neuron.check` lists."""

import re
from pathlib import Path

import forked
import pytest

pytestmark = pytest.mark.neuron


CHECKED = """
loaded()
found = {}

def both(name, make):
    soma = make_section("soma", "pas")
    kept = make(soma)
    h.finitialize(-65)
    listed, error = [str(one) for one in clhines.neuron.check()], ""
    try:
        clhines.neuron.run(1, engine="reference")
    except clhines.InputError as refused:
        error = str(refused)
    found[name] = listed, error
    h.CVode().use_fast_imem(0)
    h.delete_section(sec=soma)

def clamped(soma):
    h.CVode().use_fast_imem(1)
    clamp = with_values(h.SEClamp(soma(0.5)), dur1=10)
    return clamp, h.Vector().record(soma(0.5)._ref_i_membrane_)

def pointed(soma):
    soma.insert("nmbegun")
    reads, source = h.ext_reads(soma(0.5)), h.ext_msg(soma(0.5))
    h.setpointer(source._ref_seen, "a", reads)
    h.setpointer(h._ref_shift_nmbegun, "b", reads)
    return reads, source

def drawn(soma):
    asked = with_values(h.nmdraws(soma(0.5)), noise=1)
    return asked, h.nmdraws(soma(0.5))

def itself(soma):
    sources = [h.ext_msg(soma(0.5)) for _ in range(2)]
    reads = h.ext_reads(soma(0.5))
    for pointer in "ab":
        h.setpointer(sources[0]._ref_msg, pointer, reads)
    return sources, reads

both("nothing", lambda soma: None)
both("clamped", clamped)
both("pointed", pointed)
both("drawn", drawn)
both("itself", itself)
print(json.dumps(found))
"""


def test_what_a_run_refuses_is_listed_before():
    """`check` starts a run itself, so it sees records, INITIAL and the present values."""
    result = forked.result_of(CHECKED)
    assert result.pop("nothing") == [[], ""]
    said = {
        "clamped": "i_membrane where SEClamp is, an electrode whose current depends on the voltage",
        "pointed": "ext_reads: POINTER b points to shift_nmbegun; expected a voltage, or a var",
        "drawn": "nmdraws",
        "itself": "a points to msg of ext_msg, and events read and set it",
    }
    assert result.keys() == said.keys()
    for name, (listed, error) in result.items():
        assert any(said[name] in line for line in listed), (name, listed)
        assert all(line in error for line in listed), (name, listed, error)


PROGRAM = Path(__file__).with_name("refused_program.py")
MODELS = re.findall(r'(?m)^@model\("([\w.-]+)"', PROGRAM.read_text("utf-8"))
OF_OPTIONS = {"network.engine-steps-bins"}  # check() has no options of run()


@pytest.mark.parametrize("name", MODELS)
def test_the_smallest_model_that_a_run_refuses_is_listed(name):
    listed, refused = forked.result_of(PROGRAM, name)
    assert name in refused
    assert listed == ([] if name in OF_OPTIONS else refused)
