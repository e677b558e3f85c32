"""Calls with bad arguments for the fuzz: InputError or TypeError in a line, or a right result."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import clhines
from bench.measures.fuzz.common import WrongError, check_refusal, pick
from clhines.core.errors import ClhinesError
from clhines.simulator.network.network import Network
from clhines.simulator.simulation import Simulation
from clhines.solver.device import devices

MESSAGE = 400  # letters: method names are listed in some
ROUNDING = 1e-9  # relative, for solutions of dominant systems of a few rows
_THINGS = {}


@dataclass(frozen=True)
class Case:
    """One call: the arguments in `base`, some replaced by named values."""

    call: str
    replaced: tuple[tuple[str, str], ...]


# -------------------------------------------------------------------------------------- values


def _masked(a, bad):
    mask = np.zeros(np.shape(a), bool)
    if bad and mask.size:
        mask.reshape(-1)[0] = True
    return np.ma.masked_array(a, mask)


class Strange:
    def __repr__(self):
        return "<strange\nobject>"


# name -> (makes the value of the lawful one, whether it can never be right for a number)
VALUES = {
    "None": (lambda a: None, False),
    "text of a number": (lambda a: str(a if np.ndim(a) == 0 else 1), True),
    "text": (lambda a: "abc", True),
    "empty text": (lambda a: "", True),
    "long text": (lambda a: "x\n" * 5000, True),
    "bytes": (lambda a: b"1", True),
    "nan": (lambda a: math.nan, True),
    "inf": (lambda a: math.inf, True),
    "-inf": (lambda a: -math.inf, True),
    "-1": (lambda a: -1, False),
    "0": (lambda a: 0, False),
    "1": (lambda a: 1, False),
    "2**70": (lambda a: 2**70, False),
    "-2**70": (lambda a: -(2**70), False),
    "10**400": (lambda a: 10**400, False),
    "2**62": (lambda a: 2**62, False),
    "2**31": (lambda a: 2**31, False),
    "1e308": (lambda a: 1e308, False),
    "1e-320": (lambda a: 1e-320, False),
    "1.5": (lambda a: 1.5, False),
    "True": (lambda a: True, False),
    "complex": (lambda a: 1j, True),
    "list": (lambda a: np.asarray(a).tolist(), False),
    "ragged": (lambda a: [[1], [2, 3]], True),
    "nested": (lambda a: [[a]], False),
    "empty list": (lambda a: [], False),
    "list of texts": (lambda a: ["1", "x"], True),
    "dict": (lambda a: {"a": 1}, True),
    "set": (lambda a: {1, 2}, True),
    "object": (lambda a: Strange(), True),
    "class": (lambda a: Strange, True),
    "function": (lambda a: len, True),
    "generator": (lambda a: (k for k in range(3)), False),
    "range": (lambda a: range(3), False),
    "0-d": (lambda a: np.array(1.0), False),
    "2-d": (lambda a: np.ones((2, 3)), False),
    "3-d": (lambda a: np.ones((2, 1, 3)), False),
    "empty array": (lambda a: np.zeros(0), False),
    "empty integers": (lambda a: np.zeros(0, int), False),
    "object array": (lambda a: np.array([1, None], object), True),
    "text array": (lambda a: np.full(np.shape(a), "1"), True),
    "structured": (lambda a: np.zeros(3, [("a", int)]), True),
    "dates": (lambda a: np.array(["2020-01-01"], "M8[D]"), True),
    "complex array": (lambda a: np.asarray(a) + 1j * np.ones(np.shape(a)), True),
    "nan array": (lambda a: np.full(np.shape(a), np.nan), True),
    "inf array": (lambda a: np.full(np.shape(a), np.inf), True),
    "negative array": (lambda a: -np.ones(np.shape(a)), False),
    "negative integers": (lambda a: -np.ones(np.shape(a), int), False),
    "huge integers": (lambda a: np.full(np.shape(a), 2**62), False),
    "unsigned": (lambda a: np.full(np.shape(a), 2**63, np.uint64), False),
    "int8": (lambda a: np.ones(np.shape(a), np.int8), False),
    "float16": (lambda a: np.asarray(a).astype(np.float16), False),
    "longdouble": (lambda a: np.asarray(a).astype(np.longdouble), False),
    "swapped bytes": (lambda a: np.asarray(a).astype(np.asarray(a).dtype.newbyteorder()), False),
    "read-only": (lambda a: _read_only(np.array(a)), False),
    "reversed view": (lambda a: np.array(a)[..., ::-1] if np.ndim(a) else a, False),
    "strided": (lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if np.ndim(a) else a, False),
    "one more": (lambda a: np.append(a, np.ravel(a)[:1]), False),
    "one fewer": (lambda a: np.ravel(a)[:-1], False),
    "masked": (lambda a: _masked(a, True), True),
    "masked nowhere": (lambda a: _masked(a, False), False),
    "as it is": (lambda a: a, False),
}


def _read_only(a):
    a.flags.writeable = False
    return a


# --------------------------------------------------------------------------------------- calls


@dataclass(frozen=True)
class Call:
    """A function and its lawful arguments."""

    function: Callable[..., Any]
    base: Callable[[], dict[str, Any]]
    good: Callable[[dict[str, Any], Any], None] | None = None


def _dense(arguments, x):
    a = {k: np.asarray(v, float) for k, v in arguments.items() if k in "dulb" and v is not None}
    parent, n = _THINGS["forest"].parent, len(_THINGS["forest"].parent)
    matrix = np.diag(np.broadcast_to(a["d"], n).astype(float))
    inner = np.flatnonzero(parent >= 0)
    matrix[parent[inner], inner] = a["u"][inner]
    matrix[inner, parent[inner]] = a.get("l", a["u"])[inner]
    _close(x, matrix, a["b"])


def _dense_rows(arguments, x):
    a = {k: np.asarray(arguments[k], float) for k in ("dl", "d", "du", "b")}
    if arguments.get("sizes") is not None or a["d"].ndim != 1:
        return
    n = len(a["d"])
    low, up = (a[k] if a[k].ndim else np.broadcast_to(a[k], n) for k in ("dl", "du"))
    low = low[-(n - 1) :] if n > 1 else low[:0]
    matrix = np.diag(a["d"]) + np.diag(low, -1) + np.diag(up[: n - 1], 1)
    _close(x, matrix, a["b"])


def _close(x, matrix, b):
    x, rounding = np.asarray(x), ROUNDING
    if x.dtype == np.float32 or np.abs(matrix).max() > 1e30 or not np.isfinite(matrix).all():
        return
    residual = np.abs(matrix @ x[..., None] - b[..., None])
    size = np.abs(matrix) @ np.abs(x[..., None]) + np.abs(b[..., None])
    if not (residual <= rounding * size).all():
        raise WrongError(f"a wrong solution: residual {np.nanmax(residual):.3g}")


def _own_array(arguments, forest):
    """Check that a later change of the caller's array has no effect."""
    array = arguments["parent"]
    before = forest.parent.copy()
    if isinstance(array, np.ndarray) and array.flags.writeable:
        array[...] = 0
        if not np.array_equal(before, forest.parent):
            raise WrongError("Forest shares the array of its caller")


def _network():
    net = Network(_THINGS["cable"], 2)
    net.insert("pas")
    net.add("expsyn", at=net.soma)
    return net


def _with_network(method):
    def call(**arguments):
        net = _network()
        if "target" in arguments and arguments["target"] is _THINGS:
            arguments["target"] = net.groups[-1]
        result = getattr(net, method)(**arguments)
        clhines.model.compile(net)
        return result

    return call


def _threshold(threshold):
    net = _network()
    net.threshold = threshold
    clhines.model.compile(net)


def _simulate(**arguments):
    if "queue" not in arguments and arguments.get("engine") != "reference":
        arguments["queue"] = _THINGS["queue"]
    return Simulation(_network(), **arguments).run(0.1)


def _recorded(**arguments):
    return _THINGS["simulation"].record(**arguments)


def _solver(**arguments):
    return clhines.Solver(_THINGS["forest"], queue=_THINGS["queue"], **arguments)


def _again():
    """Repeat most calls, without a queue: leaks add up."""
    for _ in range(3):
        off = np.ones(5)
        clhines.solve_tridiagonal(off, np.full(6, 4.0), off, np.ones(6))
        clhines.Solver(_THINGS["forest"], method="flat").solve(np.ones(7), np.zeros(7), np.ones(7))
        clhines.Simulation(_network()).run(0.1)


def _late(call):
    """Change a network after its simulation was made: this raises, or it has its effect."""
    net = _network()
    sim = Simulation(net, engine="reference")
    acts = {
        "event": lambda: net.add_event(net.groups[-1], time=0.05, weight=0.05),
        "connect": lambda: net.connect(0, net.groups[-1], weight=0.1),
        "threshold": lambda: setattr(net, "threshold", -80.0),
        "insert": lambda: net.insert("hh"),
        "add": lambda: net.add("iclamp", at=net.soma, dur=9.0, amp=1.0),
    }
    try:
        acts[call]()
    except ClhinesError as error:
        check_refusal(error)
        raise
    del sim
    raise WrongError(f"a network is changed after its Simulation without a word: {call}")


def _calls():
    system, cable = _THINGS["cable"].system(0.025), _THINGS["cable"]
    n, nodes, two = _THINGS["forest"].num_nodes, len(system.d), np.array([0, 1])
    row = {"d": np.full(n, 4.0), "u": np.full(n, -1.0), "b": np.arange(n) + 1.0}
    chain = {"dl": np.ones(5), "d": np.full(6, 4.0), "du": np.ones(5), "b": np.arange(6) + 1.0}
    solver, simulation = _THINGS["solver"], _THINGS["simulation"]
    lawful = {
        "Forest": (clhines.Forest, {"parent": np.array([-1, 0, 1, 1, -1, 4]),
                                    "cell_offsets": np.array([0, 4, 6])}),
        "Forest.repeat": (clhines.Forest.repeat, {"parents": [np.array([-1, 0])],
                                                      "num_cells": 3}),
        "Solver": (_solver, {}),
        "Solver.solve": (solver.solve, row | {"l": row["u"]}),
        "Solver.solve of three": (solver.solve, row),
        "Solver.factor": (solver.factor, {"d": row["d"], "u": row["u"]}),
        "Solver.to_device_order": (solver.to_device_order, {"a": row["d"]}),
        "solve_tridiagonal": (clhines.solve_tridiagonal, chain),
        "again": (_again, {}),
        "late": (_late, {"call": "event"}),
        "discretise": (clhines.discretise, {"morphology": _THINGS["cell"], "max_length": 40.0,
                                            "Ra": 100.0, "cm": 1.0, "d_lambda": 0.1}),
        "Cable.system": (cable.system, {"dt": 0.025, "g_pas": np.full(nodes, 1e-4),
                                        "e_pas": -65.0}),
        "System.rhs": (system.rhs, {"v": np.full(nodes, -65.0), "current": 0.1}),
        "STDP": (clhines.STDP, {"a_plus": 0.1, "a_minus": 0.2, "tau_plus": 20.0}),
        "Network": (clhines.Network, {"cables": cable, "num_cells": 2}),
        "Network.insert": (_with_network("insert"), {"mechanism": "hh", "at": "soma",
                                                     "gl": 3e-4}),
        "Network.add": (_with_network("add"), {"mechanism": "iclamp", "at": two,
                                               "amp": np.array([0.1, 0.2])}),
        "Network.connect": (_with_network("connect"), {"source": two, "target": _THINGS,
                            "index": two[::-1], "weight": np.array([0.1, 0.2]), "delay": 1.0}),
        "Network.add_event": (_with_network("add_event"), {"target": _THINGS, "index": 0,
                                                           "time": 1.0, "weight": 0.1}),
        "Network.threshold": (_threshold, {"threshold": np.zeros(2)}),
        "Simulation": (_simulate, {"dt": 0.025, "v_init": -65.0, "seed": 1, "chunk": 64}),
        "Simulation.run": (simulation.run, {"duration": 0.1}),
        "Simulation.record": (_recorded, {"what": "v", "at": two}),
        "read_swc": (clhines.read_swc, {"path": "cell.swc", "roots": "refuse"}),
        "Mechanism": (clhines.Mechanism, {"text": "density d\ncurrent i = v\n"}),
        "make_plan": (clhines.make_plan, {"forest": _THINGS["forest"], "method": "fine"}),
    }  # fmt: skip
    good = {"Forest": _own_array, "solve_tridiagonal": _dense_rows}
    good |= dict.fromkeys(("Solver.solve", "Solver.solve of three"), _dense)
    return {
        name: Call(function, lambda base=base: _copied(base), good.get(name))
        for name, (function, base) in lawful.items()
    }


def _copied(arguments):
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}


def prepare(folder):
    Path("cell.swc").write_text("1 1 0 0 0 8 -1\n2 3 10 0 0 1 1\n3 3 90 0 0 1 2\n")
    _THINGS["cell"] = clhines.read_swc("cell.swc")
    _THINGS["cable"] = clhines.discretise(_THINGS["cell"], max_length=40.0)
    _THINGS["forest"] = clhines.Forest(np.array([-1, 0, 1, 1, -1, 4, 5]), np.array([0, 4, 7]))
    _THINGS["queue"] = devices.make_queue(devices.choose())
    _THINGS["solver"] = clhines.Solver(_THINGS["forest"], queue=_THINGS["queue"])
    _THINGS["simulation"] = clhines.Simulation(_network(), queue=_THINGS["queue"])
    calls = _calls()
    _THINGS["calls"] = calls
    for name, call in calls.items():
        if name != "late":
            call.function(**call.base())


# -------------------------------------------------------------------------------------- checks

# arguments that are numbers, and others, of the functions of `_calls`
NAMES = {
    "Forest": ("parent cell_offsets", ""),
    "Forest.repeat": ("parents num_cells", ""),
    "Solver": ("", "method dtype tune"),
    "Solver.solve": ("d u b l", "out"),
    "Solver.solve of three": ("d u b", ""),
    "Solver.factor": ("d u", "l"),
    "Solver.to_device_order": ("a", "of other"),
    "solve_tridiagonal": ("dl d du b", "sizes dtype method"),
    "again": ("", ""),
    "late": ("", "call"),
    "discretise": ("Ra cm max_length", "morphology nseg"),
    "Cable.system": ("dt g_pas e_pas", ""),
    "System.rhs": ("v current", ""),
    "STDP": ("a_plus a_minus tau_plus w_max", ""),
    "Network": ("num_cells cables", ""),
    "Network.insert": ("gl", "at mechanism"),
    "Network.add": ("at amp", "mechanism"),
    "Network.connect": ("source index weight delay", "target rule"),
    "Network.add_event": ("index time weight", "target"),
    "Network.threshold": ("threshold", ""),
    "Simulation": ("dt v_init seed chunk max_spikes", "engine dtype method"),
    "Simulation.run": ("duration", ""),
    "Simulation.record": ("at", "what index"),
    "read_swc": ("", "path roots"),
    "Mechanism": ("", "text"),
    "make_plan": ("", "forest method dtype"),
}
# the solve refuses values that are not finite
LATER = "Solver.to_device_order", "System.rhs"
LATE = ["event", "connect", "threshold", "insert", "add"]
WORDS = ["None", "text", "empty text", "long text", "bytes", "nan", "-1", "0", "2**70", "1.5"]
WORDS += "True list dict set object class function generator complex".split()


def generate(rng):
    call = pick(rng, list(NAMES))
    numbers, words = (names.split() for names in NAMES[call])
    arguments = numbers + words
    if not arguments:
        return Case(call, ())
    if call == "late":
        return Case(call, (("call", pick(rng, LATE)),))
    count = min(int(pick(rng, [1, 1, 1, 2])), len(arguments))
    chosen = [arguments[int(k)] for k in rng.permutation(len(arguments))[:count]]
    values = list(VALUES)
    if call == "Simulation":  # these run: each value that is lawful takes a while
        values = [name for name in values if name not in ("2**31", "2**62")]
    return Case(
        call, tuple((name, pick(rng, values if name in numbers else WORDS)) for name in chosen)
    )


def check(case):
    call = _THINGS["calls"][case.call]
    arguments = call.base()
    odd = []
    for name, value in case.replaced:
        lawful = arguments.get(name, 1)
        if case.call == "late":
            arguments[name] = value
            continue
        try:
            with np.errstate(all="ignore"):
                arguments[name] = VALUES[value][0](lawful)
            odd += [(name, value)] if VALUES[value][1] else []
        except (TypeError, ValueError):
            arguments[name] = lawful
    copied = _copied(arguments)
    try:
        with np.errstate(all="ignore"):
            result = call.function(**arguments)
    except ClhinesError as error:
        check_refusal(error, most=MESSAGE)
        return "refused"
    except TypeError as error:
        check_refusal(error, most=MESSAGE)
        return "refused"
    if any("empty" in value for _, value in case.replaced):
        odd = []  # broadcast with nothing it is nothing
    for name, value in odd:
        later = case.call in LATER and value.split()[0] in ("nan", "inf", "-inf")
        later |= case.call in ("Network.insert", "Network.add") and value == "function"  # by place
        if name in NAMES[case.call][0].split() and not later:
            raise WrongError(f"{case.call} accepted for a number: '{name}' = {value}")
    if call.good is not None:
        call.good(arguments if call.good is _own_array else copied, result)
    return "accepted"
