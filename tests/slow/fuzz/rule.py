"""Rules of plasticity for the fuzz: an accepted rule changes weights as its description says."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any

import mpmath as mp
import numpy as np

from bench.measures.fuzz import language, mechanism
from bench.measures.fuzz.common import WrongError, check_refusal, pick, shortened
from bench.measures.fuzz.language import UnclearError, UnreadError
from bench.measures.fuzz.texts import MUTATIONS, NAMES, TAKEN, expression, number
from clhines import Rule
from clhines.core.errors import ClhinesError
from clhines.simulator.events.grid import Delivery
from clhines.simulator.events.plasticity import Plasticity
from clhines.simulator.model.connections import GridConnections
from clhines.simulator.state.host_grid import HostGrid, settled
from clhines.solver.device import devices

MESSAGE, DEVICE_SHARE, STEPS, DT = 500, 0.15, 12, 0.5
TOLERANCE = 1e-9  # for sums and products of a dozen numbers; starts differ by less
START, MARGIN = 0.4, 1e-13
REASONS = re.compile(r"not a finite|too (large|deep|long)|power |no real value|no finite number")
_SIDES = {"pre": ("pre", "synapse"), "post": ("post", "synapse"), "reward": ("synapse",)}
_QUEUE = None


@dataclass(frozen=True)
class Case:
    """A text, whether it is lawful, and the seed of its spikes."""

    text: str
    lawful: bool
    seed: int
    device: bool


def generate(rng):
    lawful = rng.random() < 0.6
    text = sensible(rng)
    if not lawful:
        for _ in range(int(rng.integers(1, 4))):
            text = pick(rng, MUTATIONS)(rng, text)
    return Case(text, lawful, int(rng.integers(1 << 30)), rng.random() < DEVICE_SHARE)


def sensible(rng):
    pool = [str(x) for x in rng.permutation(list(dict.fromkeys(NAMES + TAKEN)))]
    pool = [name for name in pool if name not in ("w", "reward", "pi")]
    lines = [f"rule {pick(rng, ['r', 'stdp', 'mine'])}"]
    parameters = [pool.pop() for _ in range(int(rng.integers(1, 4)))]
    lines += [f"parameter {name} = {float(number(rng)) + 0.1:g}" for name in parameters]
    traces = {"pre": [], "post": [], "synapse": []}
    for side, names in traces.items():
        for _ in range(int(rng.integers(0, 3))):
            names.append(pool.pop())
            lines.append(f"{side} trace {names[-1]}")
            tau = pick(rng, [pick(rng, parameters), "5", "(2 + 3)", f"(1 + {parameters[0]}^2)"])
            form = pick(rng, ["-{0}/{1}", "-0.1*{0}", "-{0}*2/{1}"])
            lines.append(f"d{names[-1]}/dt = {form.format(names[-1], tau)}")
    if traces["synapse"] and rng.random() < 0.4:
        some = [pick(rng, traces["synapse"]) for _ in range(int(rng.integers(1, 3)))]
        lines.append(f"dw/dt = {'*'.join(['0.01', *some])}")
    for event, sides in _SIDES.items():
        if event != "reward" or rng.random() < 0.4:
            lines.append(
                f"on {event}: {'; '.join(_actions(rng, event, sides, traces, parameters))}"
            )
    lines.append(f"bounds: {pick(rng, ['0', '-1'])} <= w <= {pick(rng, ['1', '0.5', '3'])}")
    return "\n".join(lines) + "\n"


def _actions(
    rng: np.random.Generator, event: str, sides: tuple[str, ...], traces: dict[str, list[str]],
    parameters: list[str],
) -> Iterator[str]:  # fmt: skip
    """Yield the changes by an event of the weight and of writable traces."""
    every = [*parameters, *traces["synapse"], "w"]
    every += ["reward"] if event == "reward" else [*traces["pre"], *traces["post"]]
    changed = ["w", *(name for side in sides for name in traces[side])]
    for name in rng.permutation(changed):
        alone = next((side for side in ("pre", "post") if name in traces[side]), None)
        names = every if alone is None else [*parameters, *traces[alone]]
        if rng.random() < 0.4:
            yield f"{name} += 1" if alone else f"{name} += 0.1*{pick(rng, names)}"
        else:
            value = re.sub(r"\bv\b", pick(rng, names), expression(rng, names, 2))
            yield f"{name} {pick(rng, ['+=', '-=', '=', '*='])} {value}"


def prepare(folder):
    global _QUEUE
    _QUEUE = devices.make_queue(devices.choose())
    _found(Rule("dopamine"), *_events(1), device=True)
    _found(Rule("dopamine"), *_events(1), device=False)


def check(case):
    try:
        rule = Rule(case.text)
        trains, rewards = _events(case.seed)
        trace = _found(rule, trains, rewards, case.device)
    except ClhinesError as error:
        message = check_refusal(error, most=MESSAGE)
        if case.lawful and not REASONS.search(message):
            raise WrongError(f"lawful rule refused: {shortened(message)}") from None
        return "refused"
    if not np.isfinite(trace).all() or not ((rule.w_min <= trace) & (trace <= rule.w_max)).all():
        raise WrongError(f"weights beyond {rule.w_min} to {rule.w_max}: {trace.tolist()}")
    try:
        expected = _expected(case.text, trains, rewards, START)
        beside = _expected(case.text, trains, rewards, START * (1 + MARGIN))
    except (UnclearError, UnreadError, ZeroDivisionError, RecursionError):
        return "accepted"
    near = np.abs(beside - expected)
    if (near > 1e-6).any():  # at a jump
        return "accepted"
    off = np.abs(trace - expected)
    if not (off <= TOLERANCE + 1e3 * near).all():
        k = int(np.argmax(off))
        raise WrongError(f"weight after step {k}: got {trace[k]!r}, expected {expected[k]!r}")
    return "accepted"


# ------------------------------------------------------------------------------------ the package


def _events(seed):
    """Return spikes of two cells, (steps, 2) bool, and rewards after steps."""
    rng = np.random.default_rng(seed)
    return rng.random((STEPS, 2)) < 0.4, {4: 0.5, 9: -0.25}


def _found(rule, trains, rewards, device):
    """Return weights after each step, of one connection from cell 0 to cell 1."""
    start = float(np.clip(START, rule.w_min, rule.w_max))
    connections = GridConnections([0], [0], start, 1, 2, 1, True, rule)
    model = SimpleNamespace(
        connections=connections, dt=DT, num_targets=1, cell_of_target=lambda: np.array([1])
    )
    if device:
        return _on_device(rule, connections, model, trains, rewards)
    scale = connections.scale(largest=connections.largest)
    network = SimpleNamespace(connections=connections)
    grid = HostGrid(model, SimpleNamespace(slots=8, scale=scale, split=False, network=network))
    rows = []
    for step, spikes in enumerate(trains):
        grid.send(step, np.flatnonzero(spikes))
        saved = {"plastic_weight": grid.weight.copy()}
        saved |= {f"plastic_trace_{k}": a.copy() for k, a in grid._trace.items()}
        saved |= {f"plastic_step_{k}": a.copy() for k, a in grid._last.items()}
        rows.append(settled(model, saved, step)["plastic_weight"][0])
        if step in rewards and "reward" in rule.about.actions:
            grid.reward(rewards[step], step)
    return np.array(rows)


def _on_device(rule, given, model, trains, rewards):
    import pyopencl.array as cla

    scale = given.scale(largest=given.largest)
    delivery = Delivery(_QUEUE, given, 1, 8, 2 * STEPS, "pull", scale=scale)
    ran = Plasticity(delivery, rule, DT, np.array([1]))
    step, cell = (np.append(a, np.zeros(2 * STEPS - len(a), int)) for a in np.nonzero(trains))
    lists = [cla.to_device(_QUEUE, a.astype(np.int32)) for a in (cell, step)]
    incoming, rows = cla.to_device(_QUEUE, np.zeros(8, np.int64)), []
    for k, count in enumerate(np.cumsum(trains.sum(axis=1))):
        held = cla.to_device(_QUEUE, np.array([count], np.int32))
        ran.enqueue((*lists, held), incoming, k)
        rows.append(settled(model, ran.state(), k)["plastic_weight"][0])
        if k in rewards and "reward" in rule.about.actions:
            ran.reward(rewards[k], k)
    ran.check()
    return np.array(rows)


# ------------------------------------------------------------------------------------ the oracle


@dataclass
class Described:
    parameters: dict[str, Any] = field(default_factory=dict)
    sides: dict[str, str] = field(default_factory=dict)
    rates: dict[str, Any] = field(default_factory=dict)
    actions: dict[str, list[tuple[str, str, Any]]] = field(default_factory=dict)
    bounds: tuple[Any, ...] = ()


def _read(text):
    description, name = Described(), language.NAME
    for line in language.statements(text)[1:]:
        if match := re.fullmatch(rf"parameter\s+({name})\s*=\s*(\S+)", line):
            description.parameters[match[1]] = mp.mpf(match[2])
        elif match := re.fullmatch(rf"(pre|post|synapse)\s+trace\s+({name})", line):
            description.sides[match[2]] = match[1]
        elif match := re.fullmatch(rf"d({name})\s*/\s*dt\s*=(.*)", line):
            description.rates[match[1]] = language.tree_of(match[2])
        elif match := re.fullmatch(r"bounds\s*:(.*)<=\s*w\s*<=(.*)", line):
            description.bounds = language.tree_of(match[1]), language.tree_of(match[2])
        elif match := re.fullmatch(r"on\s+(pre|post|reward)\s*:(.*)", line):
            for action in match[2].split(";"):
                part = re.fullmatch(rf"\s*({name})\s*([-+*/]?)=(?!=)(.*)", action)
                if not part:
                    raise UnreadError(action)
                statement = part[1], part[2], language.tree_of(part[3])
                description.actions.setdefault(match[1], []).append(statement)
        else:
            raise UnreadError(line)
    if not description.bounds:
        raise UnreadError("no bounds")
    return description


class _Connection:
    """One connection by its description, advanced step by step."""

    def __init__(self, text, start):
        self.about = about = _read(text)
        self.values = {**about.parameters, **dict.fromkeys(about.sides, mp.mpf(0))}
        self.low, self.high = (self.value(tree) for tree in about.bounds)
        self.values["w"] = min(max(mp.mpf(start), self.low), self.high)
        self.slopes = {n: self.value(about.rates[n], {n: mp.mpf(1)}) for n in about.sides}

    def value(self, tree, given=MappingProxyType({})):
        return language.evaluate(language.Text(), tree, {**self.values, **given}).v

    def bound(self):
        self.values["w"] = min(max(self.values["w"], self.low), self.high)

    def rest(self):
        if "w" in self.about.rates:

            def rate(t):
                now = {n: self.values[n] * mp.exp(s * t) for n, s in self.slopes.items()}
                return self.value(self.about.rates["w"], now)

            self.values["w"] += mp.quad(rate, [0, DT])
            self.bound()
        for name, slope in self.slopes.items():
            self.values[name] *= mp.exp(slope * mp.mpf(DT))

    def event(self, event, given=MappingProxyType({})):
        """Apply an event to the connection, then to the cell's own traces."""
        before = dict(self.values)
        for alone in (False, True):
            kept, self.values = self.values, dict(before)
            for name, sign, tree in self.about.actions.get(event, []):
                old, value = self.values[name], self.value(tree, given)
                self.values[name] = mechanism.SIGNS[sign](old, value)
                if name == "w":
                    self.bound()
            mine = {n for n, side in self.about.sides.items() if (side == event) is alone}
            mine = mine if alone else mine | {"w"}
            self.values = kept | {n: self.values[n] for n in mine}


def _expected(text, trains, rewards, start):
    with mp.workdps(30):
        connection, rows = _Connection(text, start), []
        for step, (pre, post) in enumerate(trains):
            if step:
                connection.rest()
            for event, is_there in (("pre", pre), ("post", post)):
                if is_there:
                    connection.event(event)
            rows.append(float(connection.values["w"]))
            if step in rewards:
                connection.event("reward", {"reward": mp.mpf(rewards[step])})
    return np.array(rows)


# ------------------------------------------------------------------------------------ smaller
