"""Adjoints: blocks that pull derivatives back, against differences of the blocks."""

import numpy as np
import pytest

from clhines.simulator.mechanisms.emit.functions import numpy_function
from clhines.simulator.mechanisms.ir.adjoints import adjoint_of, label
from clhines.simulator.mechanisms.mechanism import Mechanism, mechanism

pytestmark = pytest.mark.core
PAIR = """density pair
parameter a = 0.4
parameter b = 0.3
state p = 0.2
state q = 0.1
dp/dt = a*(1 - p - q) - b*p^2
dq/dt = b*p^2 - a*q*(v + 90)/30
current i = p*q*v
method derivimplicit all
"""
IMPLICIT = """NEURON { SUFFIX implicitpair RANGE a, b NONSPECIFIC_CURRENT i }
PARAMETER { a = 0.4 b = 0.3 }
STATE { p q }
ASSIGNED { v (mV) i (mA/cm2) }
INITIAL { p = 0.2 q = 0.1 }
BREAKPOINT { SOLVE states METHOD %s i = p*q*v }
"""
RATES = "DERIVATIVE states { p' = a*(1 - p - q) - b*p^2 q' = b*p^2 - a*q*(v + 90)/30 }\n"
KINETIC = """KINETIC states {
    LOCAL r
    r = 1 - p - q
    ~ p + p <-> q (a, b*exp(v/50))
    ~ p <-> q (a*q, b)
}
"""
SAMPLES = {
    "text": lambda: Mechanism(PAIR),
    "derivimplicit": lambda: Mechanism.from_nmodl(IMPLICIT % "derivimplicit" + RATES),
    "sparse": lambda: Mechanism.from_nmodl(IMPLICIT % "sparse" + KINETIC),
    "hh": lambda: mechanism("hh"),
    "exp2syn": lambda: mechanism("exp2syn"),
}


def inputs(m, block, rng, n=5):
    values = []
    for a in m.calls(block):
        if a.direction == "out":
            continue
        value = {"v": rng.uniform(-80, 20, n), "t": np.full(n, 3.0), "dt": np.float64(0.025)}
        if a.role == "parameter":
            value[a.role] = np.full(n, m.defaults[a.name]) * rng.uniform(0.9, 1.1, n)
        values.append(value[a.role] if a.role in value else rng.uniform(0.1, 0.4, n))
    return values


@pytest.mark.parametrize("name", SAMPLES)
def test_blocks_beside_differences(name):
    m, rng, compared = SAMPLES[name](), np.random.default_rng(0), 0
    for block in m.program.blocks:
        adjoint = adjoint_of(m.compiled, block)
        if adjoint is None:
            continue
        values = inputs(m, block, rng)
        weights = {label(a): rng.normal(size=5) for a in adjoint.seeded}
        outs = [label(a) for a in m.calls(block) if a.direction != "in"]

        def loss(values, block=block, weights=weights, outs=outs):
            results = dict(zip(outs, m.twin(block)(*values)))
            return sum(w * results[k] for k, w in weights.items())

        with np.errstate(all="ignore"):
            slopes = numpy_function(adjoint.compiled, adjoint.name)(*values, *weights.values())
        for a, slope in zip(adjoint.by, slopes):
            k = adjoint.inputs.index(a)
            h = np.maximum(np.abs(values[k]), 1e-3) * 1e-3

            def at(step, k=k, h=h, values=values, loss=loss):
                return loss([x + step * h if j == k else x for j, x in enumerate(values)])

            expected = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
            np.testing.assert_allclose(slope * np.ones(5), expected, rtol=1e-6, atol=1e-9)
            compared += 1
    assert compared > 4
