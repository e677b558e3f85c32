"""Texts of mechanisms for the fuzz: sensible random ones, and hostile ones."""

import re

from bench.measures.fuzz.common import pick

NAMES = """g gbar e tau vh k a b q x y z m n h s w alpha beta rate inf_m tau_m gk ca depth shell p r
    u1 u2 left right mid""".split()
# lawful names that generated source or its languages know
TAKEN = """c0 c1 p1 p2 x0 x1 x12 e1 k1_x k2_x k1 k4_s inf nan NAN INFINITY float4 double2 int4 uint
    get_global_id barrier kernel global local half np numpy lambda def class return None True False
    new_x substep part step loop real i j f d h0 result out noise_ v1 v2 t1 dt1 dv dx expm1 exp1 pow
    fabs fmin fmax fma isnan select bernoulli weight1 normal rate_x advance initial current1 state1
    sum len range abs1 M_PI M_E CL_TRUE __x size_t vload4 as_float clamp mix sign min1 E I S N O Q
    pi1 gamma zeta Symbol Integer oo zoo print exec self int double char short long unsigned
    printf volatile inline static const case switch goto do void enum""".split()
TAKEN = [name for name in TAKEN if "__" not in name and not name.endswith("_")]
NUMBERS = "0 1 2 0.5 1e-3 10 40 -65 .25 3. 1.5e2 0.001 18 20 0.1 5 7 1e2 12.75 0.3333".split()
UNITS = ["S/cm2", "mS/cm2", "uS/cm2", "S/m2"], ["uS", "nS", "pS"], ["mV", "V"], ["ms", "s", "us"]


def number(rng):
    text = pick(rng, NUMBERS)
    return text if not text.startswith("-") else text[1:]


def expression(rng, names, depth):
    if depth <= 0 or rng.random() < 0.15:
        return pick(rng, names) if rng.random() < 0.65 else number(rng)

    def inner():
        return expression(rng, names, depth - 1)

    c, s = number(rng), pick(rng, ["5", "10", "18", "25.5"])
    forms = [
        lambda: f"({inner()} + {inner()})",
        lambda: f"({inner()} - {inner()})",
        lambda: f"{inner()}*{inner()}",
        lambda: f"{inner()}/(1 + ({inner()})^2)",
        lambda: f"({inner()})/({inner()})",
        lambda: f"exp(-({inner()} + {c})/{s})",
        lambda: f"1/(1 + exp(-(v + {c})/{s}))",
        lambda: f"{c}*(v + 40)/(1 - exp(-(v + 40)/{s}))",
        lambda: f"(v - {c})/tanh((v - {c})/{s})",
        lambda: f"min({inner()}, {inner()})",
        lambda: f"max({inner()}, {inner()})",
        lambda: f"max({c}, min({inner()}, 100))",
        lambda: f"where({condition(rng, names, depth - 1)}, {inner()}, {inner()})",
        lambda: f"({inner()})^{pick(rng, ['2', '3', '4', '-1', '0.5', '1.7', '-2', '8'])}",
        lambda: f"abs({inner()})^{pick(rng, ['0.5', '1.3', '2'])}",
        lambda: f"{pick(rng, ['2', '3', '0.5', '10', '2.3'])}^(({inner()} - 6.3)/10)",
        lambda: f"sqrt(1 + ({inner()})^2)",
        lambda: f"log(1 + abs({inner()}))",
        lambda: f"{pick(rng, ['sin', 'cos', 'tanh'])}({inner()})",
        lambda: f"-{inner()}",
        lambda: f"tan(0.1*tanh({inner()})) + sinh(tanh({inner()}))*cosh(0.1)",
    ]
    return pick(rng, forms)()


def condition(rng, names, depth):
    a, b = expression(rng, names, depth), expression(rng, names, depth)
    simple = f"{a} {pick(rng, ['<', '<=', '>', '>='])} {b}"
    if rng.random() < 0.3:
        join = pick(rng, [" and ", " or ", " and not "])
        return f"({simple}){join}({pick(rng, names)} < {number(rng)})"
    return f"{number(rng)} < {pick(rng, names)} <= {b}" if rng.random() < 0.1 else simple


def smooth(rng):
    """Return a mechanism whose rates are 0/0 at a tested voltage."""
    place, s, c = pick(rng, ["v + 40", "v", "v + 65", "40 + v"]), number(rng), number(rng)
    s = "7" if float(s) == 0 else s
    quotient = pick(
        rng,
        [
            f"{c}*({place})/(1 - exp(-({place})/{s}))",
            f"{c}*({place})/(exp(({place})/{s}) - 1)",
            f"-{c}*({place})/(exp(-({place})/{s}) - 1)",
            f"({place})/tanh(({place})/{s})",
            f"({place})/{s}/sinh(({place})/{s})",
            f"(1 - exp(-({place})/{s}))/({place})",
        ],
    )
    return f"density smooth\na = {quotient}\ncurrent i = a*(1 + 0.01*v)\n"


def sensible(rng):
    """Return a mechanism that a user may write; lawful by the description of the language."""
    if rng.random() < 0.05:
        return smooth(rng)
    kind = pick(rng, ["density", "density", "point"])
    pool = [str(x) for x in rng.permutation(NAMES)]
    if rng.random() < 0.25:
        pool = [str(x) for x in rng.permutation(list(dict.fromkeys(TAKEN + NAMES)))]
        pool = [name for name in pool if name not in ("i", "current1")]
    lines = [f"{kind} {pick(rng, ['mech', 'x', 'km', 'Ca_T', 'hh2', 'pump'])}"]
    names = ["v"]
    for _ in range(int(rng.integers(0, 4))):
        names.append(pool.pop())
        unit = ""
        if rng.random() < 0.4:
            conductance = UNITS[0] if kind == "density" else UNITS[1]
            unit = " " + pick(rng, pick(rng, [conductance, *UNITS[2:]]))
        lines.append(f"parameter {names[-1]} = {number(rng)}{unit}")
    for _ in range(int(rng.integers(0, 4))):
        new = pool.pop()
        lines.append(f"{new} = {expression(rng, names, int(rng.integers(1, 4)))}")
        names.append(new)
    states, more, method = _states(rng, pool, names)
    lines += more
    allowed = [*names, *states]
    if states and rng.random() < 0.5:
        allowed += states
    if rng.random() < 0.1:
        allowed.append("t")
    lines.append(f"current i = {expression(rng, allowed, 3)}*(v - {number(rng)})")
    if rng.random() < 0.2:
        lines.append(f"current i2 = {expression(rng, allowed, 2)}")
    if kind == "point" and states and rng.random() < 0.7:
        sign = pick(rng, ["+=", "-=", "*=", "="])
        usable = [n for n in names if n != "v"]
        lines.append(
            f"on event: {pick(rng, states)} {sign} weight"
            + (f"*{pick(rng, [n for n in usable if n in lines[1:2]] or ['2'])}")
        )
    if kind == "point" and rng.random() < 0.3:
        lines += _spike(rng, states)
    lines += [method] if method else []
    return "\n".join(lines) + "\n"


def _spike(rng, states):
    reset = f"reset: v = {pick(rng, ['-70', '-65 mV', '-0.06 V'])}"
    if states and rng.random() < 0.7:
        reset += f"; {pick(rng, states)} {pick(rng, ['+=', '-=', '*=', '='])} {number(rng)}"
    lines = [f"spike: v > {pick(rng, ['-50', '-20 mV', '0', '0.03 V', '-64.9'])}", reset]
    return lines + [f"refractory: {pick(rng, ['1 ms', '0.05', '0', '2000 us'])}"] * int(
        rng.integers(2)
    )


def _states(rng, pool, names):
    states = []
    lines = []
    method = ""
    for _ in range(int(pick(rng, [0, 1, 1, 2, 2, 3]))):
        s, tau = pool.pop(), f"(1 + abs({expression(rng, names, 1)}))"
        inf = f"1/(1 + exp(-(v + {number(rng)})/{pick(rng, ['5', '9'])}))"
        forms = [
            f"({inf} - {s})/{tau}",
            f"{inf}*(1 - {s}) - {number(rng)}*{s}",
            f"-{s}/{tau}",
            f"({expression(rng, names, 2)} - {s})/{tau}",
        ]
        if states:
            forms += [f"({states[-1]} - {s})/{tau}", f"{states[-1]}*{inf} - {s}/{tau}"]
        if rng.random() < 0.12:
            forms = [f"{inf}*(1 - {s}^2) - {s}/{tau}", f"-{s}^3 + {inf}"]
            method = pick(rng, ["method euler", "method rk2", "method rk4", "method rk4 all"])
        start = pick(rng, ["0", "1", "0.5", inf, f"min(1, {inf})"])
        lines += [f"state {s} = {start}", f"d{s}/dt = {pick(rng, forms)}"]
        states.append(s)
    if len(states) > 1 and rng.random() < 0.15:  # the first depends on the last: a circle
        a, b = states[0], states[-1]
        lines[1] = f"d{a}/dt = {b}*0.7 - {a}*1.3"
        lines[-1] = f"d{b}/dt = 1.3*{a} - 0.7*{b}"
        method = pick(rng, ["", "", "method sparse", "method derivimplicit", "method rk4 all"])
    return states, lines, method


# ------------------------------------------------------------------------------------ hostile

SPELLINGS = "parametr paramter parameters stat statte curent currrent metod densty".split()
SPELLINGS += "spikes rest refactory".split()
ODD = ["\0", "\ud800", "'", '"', "\\", "\\n", "##", "<%", "${v}"]
ODD += list("\t\r\x0b\x0c\u2028\u202e\ufeffé²µ−＝ｖ{}[]$%;:日")


def hostile(rng):
    text = sensible(rng)
    for _ in range(int(rng.integers(1, 4))):
        text = pick(rng, MUTATIONS)(rng, text)
    return text


def _token(rng, text):
    tokens = re.findall(r"\w+|\s+|.", text) or [""]
    k = int(rng.integers(len(tokens)))
    tokens[k] = pick(
        rng, [*ODD, *TAKEN, *NAMES, "", "(", ")", "exp(", "^", "=", "1e999", tokens[0]]
    )
    return "".join(tokens)


def _respelt(rng, text):
    word = pick(rng, ["parameter", "state", "current", "density", "method", "spike", "reset"])
    return text.replace(word, pick(rng, SPELLINGS), 1)


def _relined(rng, text):
    lines = text.splitlines() or [""]
    k, j = (int(x) for x in rng.integers(len(lines), size=2))
    new = pick(rng, [lines[j], "", lines[k] + lines[j], lines[k].upper(), lines[k][::-1], "  "])
    return "\n".join([*lines[:k], new, *lines[k + 1 :]]) + "\n"


def _spliced(rng, text):
    k = int(rng.integers(len(text) + 1))
    return text[:k] + pick(rng, [*ODD, *ODD, text[k:], " " * 5000, "(" * 300]) + text[k:]


MUTATIONS = [
    _token, _token, _token, _respelt, _relined, _spliced,
    lambda rng, text: text[: int(rng.integers(len(text) + 1))],
    lambda rng, text: text.replace(pick(rng, [" ", "=", "v", "*", "\n", "1"]), pick(rng, ODD)),
]  # fmt: skip
