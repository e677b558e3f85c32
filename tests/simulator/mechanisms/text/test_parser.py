"""Expressions of a text: read in time proportional to their length, or refused at once."""

import random
import time

import numpy as np
import pytest
from mechanism_texts import minimal

from clhines.core.errors import InputError
from clhines.simulator.mechanisms.mechanism import Mechanism

pytestmark = pytest.mark.core


def nested(form, times, inner="v"):
    for k in range(times):
        inner = form.format(inner, k=k)
    return inner


def chained(form, times):
    lines = ["parameter g = 1", "parameter e = 2", "a0 = v"]
    lines += [f"a{k + 1} = " + form.format(f"a{k}", k=k) for k in range(times)]
    return "\n".join([*lines, f"current i = a{times}"])


def mixture(lines, seed):
    """Return expressions in all forms, each of which uses earlier ones."""
    rng = random.Random(seed)
    forms = """{a}/(1 + exp(-({b} + {k})/{d})) | {a}*exp(({b} - {k})/{d}) + {c}
        | ({a} + {k})/(1 - exp(-({a} + {k})/{d})) | where({a} < {b}, {c}, {k})
        | max({a}, {b})*0.1 - {c} | sqrt({a}^2 + 1)*tanh({b}/{d})
        | log(1 + {a}^2)/({b}^2 + {c}^2 + 1)""".split("|")
    text, names = ["parameter g = 1"], ["v", "g"]
    for k in range(lines):
        a, b, c = (rng.choice(names[-12:]) for _ in range(3))
        form = rng.choice(forms).strip()
        text.append(f"n{k} = " + form.format(a=a, b=b, c=c, d=k % 17 + 2, k=k))
        names.append(f"n{k}")
    more = [f"current i = {names[-1]}", "state q = 0", f"dq/dt = ({names[-1]} - q)/{lines}"]
    return "\n".join(text + more)


FINISHED = {
    "min in min": "current i = " + nested("min({}, {k} + v)", 14),
    "min of long things": "current i = " + nested("min({}, sin({k}*v))", 60),
    "clamps": chained("min(max({0}, -{k}*{0}), {k}*{0}^2 + g)", 8),
    "many clamps": chained("min(max({0}, -{k}*{0}), {k}*{0}^2 + g)", 100),
    "quotients": chained("({0} + g)/({0} + e)", 12),
    "many quotients": chained("({0} + g)/({0} + e)", 100),
    "300 lines": mixture(300, 1),
    "choices": "current i = " + nested("where({0} < {k}, {0}*g, v + {k})", 6) + "\nparameter g = 1",
    "squares": chained("{0}*{0}*1e-3 + g*{0}", 14),
    "exponentials": chained("{0}*g*1e-3 + exp(v/({k} + 5))", 400),
    "roots": "current i = " + nested("sqrt({})", 60),
    "many names": "".join(f"y{k} = v + {k}\n" for k in range(900)) + "current i = y1",
    "many parameters": "".join(f"parameter b{k} = {k}\n" for k in range(900)) + "current i = v",
    "a comment and empty lines": "current i = v #" + "#" * 40_000 + "\n" * 40_000,
    "a long sum": "current i = " + " + ".join(f"{k}*sin({k}*v)" for k in range(1, 400)),
    "a tower": "current i = 2^(3^(4^(5^v)))",
    "signs": "current i = " + "-" * 20_000 + "v",
    "tangents": "current i = " + " + ".join(f"v/tan({k}*v + 1)" for k in range(1, 40)),
    "many states": "current i = s0\nstate s0 = 0\nds0/dt = v - s0\n"
    + "\n".join(f"state s{k} = 0\nds{k}/dt = s{k - 1} - s{k}" for k in range(1, 100)),
    "a long chain": "current i = s0*v\nmethod sparse\n"
    + "\n".join(
        f"state s{k} = 0\nds{k}/dt = {k}*s{(k - 1) % 40} - s{k} + v*s{(k + 1) % 40}"
        for k in range(40)
    ),
}


@pytest.mark.parametrize("name", FINISHED)
def test_texts_take_time_in_proportion_to_their_length(name):
    """Processor time is below 5 s, usually below 1 s."""
    begin = time.process_time()
    m = Mechanism(minimal(FINISHED[name]))
    source = m.functions("double")
    assert time.process_time() - begin < 5
    assert max(map(len, source.splitlines())) <= 100
    i, g = m.current(np.array([-50.0, 3.0]), 0.0, None, m.initial(np.array([-50.0, 3.0])))
    assert i.shape == g.shape == (2,)


TOO_LARGE = {
    "a tower of powers": ("current i = ((((10^64)^64)^64)^64)*v", "a number is too large"),
    "a power of powers": ("current i = ((v^64)^64)^64", "power 4096 is too large"),
    "digits": ("current i = v*" + "7" * 40_000, "a number has 40000 characters; expected at most"),
    "a text": ("current i = v\n" + "#" * 100_000, "letters; at most 100000"),
    "a power of ten digits": ("current i = v^1000000000", "power 1000000000 is too large"),
    "a large number": ("current i = v*1e100000000", "a number is too large"),
    "a small number": ("current i = v*1e-100000000", "a number is too small"),
    "brackets": ("current i = " + "(" * 9000 + "v" + ")" * 9000, "the expression is too deep"),
    "terms": ("current i = " + "+".join(["v"] * 9000), "more than 1000 terms"),
    "factors": ("current i = " + "*".join(f"(v + {k})" for k in range(900)), "more than 64 fact"),
    "tests": ("current i = " + " and ".join(["v < 1"] * 900), "more than 64 'and'"),
    "a name": (f"parameter {'n' * 90} = 1\ncurrent i = v", "too long; expected at most 60"),
    "a dense system": (
        "\n".join(
            f"state s{k} = 0\nds{k}/dt = " + " + ".join(f"{j + k}*s{j}" for j in range(64))
            for k in range(64)
        )
        + "\ncurrent i = v\nmethod sparse",
        "dependences of 64 states on each other",
    ),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_is_too_large_is_refused_at_once(name):
    text, expected = TOO_LARGE[name]
    begin = time.process_time()
    with pytest.raises(InputError) as caught:
        Mechanism(minimal(text))
    assert time.process_time() - begin < 5
    message = str(caught.value)
    assert expected in message
    assert len(message) <= 300 and "\n" not in message


STRICT = ["exp(v,)", "exp(,v)", "min(v v)", "(exp)(v)", "2(v)", "()", "[v]", "'v'", "0x10*v", "v!"]
STRICT += ["1_000*v", "1j*v", "5//v", "(v, 1)", "max(*v)", "exp(x=v)", "v is 1", "v in v", "None"]
STRICT += ["True*v", "...", "(v := 3)", "v if v else 2", "1if v else 2", "1/(a - a)"]


@pytest.mark.parametrize("source", STRICT)
def test_expressions_are_read_strictly(source):
    said = "(cannot read the expression|cannot use|unknown symbol|unexpected character)"
    with pytest.raises(InputError, match=f"line 2: {said}"):
        Mechanism(f"density few\ncurrent i = {source}")
    assert Mechanism("density few\ncurrent i = 01*v**2").current(3.0, 0.0)[0] == 9
