"""One compartment on the host, advanced by NEURON's fixed step, to compare NMODL with NEURON.

Everything is a NumPy float64; blocks are called by their descriptors alone.
"""

import heapq
import itertools

import numpy as np

R, F = 8.3144626181532395, 96485.3321233100141  # NEURON's constants
NAMES = {"before_initial", "after_initial", "before_breakpoint", "after_solve", "before_step"}


class Instance:
    """One instance of a mechanism: its values and its incoming connections."""

    def __init__(self, mechanism, outputs=(), **params):
        self.m, self.p = mechanism, mechanism.program
        self.outputs = tuple(outputs)
        self.values = {q.name: np.float64(q.default) for q in (*self.p.parameters, *self.p.states)}
        self.values |= {q.name: np.float64(0) for q in self.p.outputs}
        self.public = {q.public or q.name: q.name for q in (*self.p.parameters, *self.p.states)}
        self.public |= {q.public or q.name: q.name for q in self.p.outputs}
        for name, value in params.items():
            self.values[self.public[name]] = np.float64(value)
        self.pointers, self.netcons, self.targets = {}, [], []
        self.streams, self.drawn = {}, dict.fromkeys(self.p.random, np.int64(0))
        self.armed, self.above, self.tables = {}, {}, {}
        self.self_event = None

    def has(self, block):
        return block in self.p.blocks


class NetCon:
    def __init__(self, target, weights, delay=1.0):
        self.target, self.weights, self.delay = target, [np.float64(w) for w in weights], delay


class Cell:
    """A single compartment with instances, ions and events."""

    def __init__(
        self, instances, dt, v=-65.0, area=100.0, cm=1.0, diam=500.0, celsius=6.3, ions=()
    ):
        self.instances, self.dt, self.v0 = instances, np.float64(dt), v
        self.area, self.cm, self.diam, self.celsius = area, cm, diam, celsius
        self.ions = {name: dict(values) for name, values in ions}
        self.queue, self.serial = [], itertools.count()
        self.v, self.t = np.float64(v), np.float64(0)
        for one in instances:
            for name, value in (("area", area), ("diam", diam), ("celsius", celsius)):
                if name in one.values:
                    one.values[name] = np.float64(value)

    # ------------------------------------------------------------------------------- calls

    def call(self, one, block, t, v=None, weights=None, flag=0.0, other=None, x=None):
        """Call the twin of a block; return the other results by (role, name)."""
        arguments = one.m.calls(block, one.outputs)
        names = one.p.net.weights if one.p.net else ()
        given = []
        for a in arguments:
            if a.direction == "out":
                continue
            given.append(
                self.value(one, a, t, self.v if v is None else v, weights, flag, other, x, names)
            )
        with np.errstate(all="ignore"):
            results = one.m.twin(block, one.outputs)(*given)
        outputs = {}
        out = [a for a in arguments if a.direction != "in"]
        for a, value in zip(out, results, strict=True):
            if a.role in ("state", "output"):
                one.values[a.name] = np.float64(value)
            elif a.role == "drawn":
                one.drawn[a.name] = np.int64(value)
            elif a.role == "ion" and (block != "current" or not self.is_current(one, a.name)):
                self.ions[self.ion_of(one, a.name)][a.name] = np.float64(value)
            elif a.role in ("weight", "other_weight"):
                (weights if a.role == "weight" else other)[names.index(a.name)] = np.float64(value)
            else:
                outputs[a.role, a.name] = np.float64(value)
        return outputs

    def ion_of(self, one, name):
        return next(i.name for i in one.p.ions if name in (*i.reads, *i.writes))

    def is_current(self, one, name):
        return name == "i" + self.ion_of(one, name)

    def value(self, one, a, t, v, weights, flag, other, x, names):
        if a.role in ("parameter", "state"):
            return one.values[a.name]
        if a.role == "ion":
            return np.float64(self.ions[self.ion_of(one, a.name)][a.name])
        if a.role == "table":
            return self.table(one, a.name)
        if a.role in ("stream", "drawn"):
            return (one.streams if a.role == "stream" else one.drawn)[a.name]
        if a.role == "pointer":
            return np.float64(one.pointers[a.name](self))
        if a.role in ("weight", "other_weight"):
            return (weights if a.role == "weight" else other)[names.index(a.name)]
        return np.float64({"v": v, "t": t, "dt": self.dt, "flag": flag, "x": x}[a.role])

    def table(self, one, name):
        """Fill a table as NEURON does, by adding steps to x."""
        if name not in one.tables:
            table = next(table for table in one.p.tables if table.name == name)
            grid = self.call(one, f"grid_{name}", 0.0)
            x, high = grid["grid", "low"], grid["grid", "high"]
            step, rows = (high - x) / table.n, []
            for _ in range(table.n + 1):
                row = self.call(one, f"table_{name}", 0.0, x=x)
                rows.append([row["column", str(k)] for k in range(len(table.columns))])
                x = x + step
            one.tables[name] = np.array(rows)
        return one.tables[name]

    # ------------------------------------------------------------------------------ events

    def sent(self, one, found, weights):
        for k, kind in enumerate(one.p.net.sends if one.p.net else ()):
            time = found.get(("send", f"{k}.time"), np.inf)
            if not np.isfinite(time):
                continue
            if kind == "event":
                for netcon in one.targets:
                    self.push(time + netcon.delay, netcon.target, netcon, 0.0)
            elif kind == "move":
                entry = one.self_event
                entry[3] = None
                one.self_event = self.push(time, one, entry[4], entry[5])
            else:
                one.self_event = self.push(time, one, weights, found["send", f"{k}.flag"])

    def push(self, time, target, weights, flag):
        entry = [time, next(self.serial), 0, target, weights, flag]
        heapq.heappush(self.queue, entry)
        return entry

    def deliver(self, until):
        while self.queue and self.queue[0][0] <= until:
            time, _, _, one, netcon, flag = heapq.heappop(self.queue)
            if one is None:
                continue
            if flag == 1.0:
                one.self_event = None
            weights = netcon.weights if netcon is not None else [np.float64(0)] * 9
            own = list(weights)
            for k in range(one.p.net.for_netcons):
                for each in one.netcons:
                    self.call(
                        one, f"for_netcons{k}", time, weights=own, flag=flag, other=each.weights
                    )
            own = list(weights)
            result = self.call(one, "receive", time, weights=own, flag=flag)
            for a in one.m.calls("receive", one.outputs):
                if a.role == "weight" and a.direction != "in":
                    at = one.p.net.weights.index(a.name)
                    weights[at] = own[at]
            self.sent(one, result, netcon)
            arms = {k for (role, k), value in result.items() if role == "arm" and value}
            if arms:
                one.armed = dict.fromkeys(arms)
                values = self.call(one, "watch", time)
                one.above = {k: values["watch", k] > 0 for k in arms}

    def watch(self, t):
        for one in self.instances:
            if not one.armed:
                continue
            values = self.call(one, "watch", t)
            for k in sorted(one.armed):
                above = values["watch", k] > 0
                if above and not one.above[k]:
                    self.push(t, one, None, one.p.net.watch_flags[int(k)])
                one.above[k] = above

    # ------------------------------------------------------------------------------- steps

    def nernst(self, name, when):
        """Compute an ion's reversal potential if the ion's style requires it at this point."""
        ion = self.ions[name]
        if ion.get(when):
            factor = 1e3 * R * (self.celsius + 273.15) / F / ion["valence"]
            ion[f"e{name}"] = factor * np.log(ion[f"{name}o"] / ion[f"{name}i"])

    def begin(self):
        self.v, self.t = np.float64(self.v0), np.float64(0)
        self.when("before_initial")
        for name in self.ions:
            self.nernst(name, "einit")
        for one in self.instances:
            result = self.call(one, "initial", 0.0)
            for netcon in one.netcons:
                if one.has("net_initial"):
                    self.call(one, "net_initial", 0.0, weights=netcon.weights)
            self.sent(one, result, None)
            self.wrote(one)
        self.when("after_initial")
        self.deliver(self.dt * 1e-9)
        self.when("before_breakpoint")
        self.currents()
        self.when("before_step")

    def when(self, block):
        for one in self.instances:
            if one.has(block):
                self.call(one, block, self.t)

    def wrote(self, one):
        """Update the reversal potential of an ion whose concentration was written."""
        for ion in one.p.ions:
            if any(name != f"i{ion.name}" and not name.startswith("e") for name in ion.writes):
                self.nernst(ion.name, "einit")

    def currents(self):
        """Return i and g of all instances, per area; add ionic currents to the ions."""
        for name, ion in self.ions.items():
            ion[f"i{name}"] = np.float64(0)
            self.nernst(name, "eadvance")
        total = slope = np.float64(0)
        for one in self.instances:
            if not one.has("current"):
                continue
            result = self.call(one, "current", self.t)
            per = 1e2 / self.area if one.p.kind == "point" else 1.0
            total += result.get(("i", "i"), 0.0) * per
            slope += result.get(("g", "g"), 0.0) * per
            for (role, name), value in result.items():
                if role == "ion":
                    self.ions[self.ion_of(one, name)][name] += value * per
        return total, slope

    def step(self):
        dt = self.dt
        self.watch(self.t)
        self.deliver(self.t + dt / 2)
        self.t = self.t + dt / 2
        self.when("before_breakpoint")
        i, g = self.currents()
        self.v = self.v - i / (g + 1e-3 * self.cm / dt)
        self.t = self.t + dt / 2
        self.when("advance")
        self.when("after_solve")
        self.when("before_step")
        self.deliver(self.t)
