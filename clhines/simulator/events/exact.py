"""Events on the host: the same rules as in ``arena_functions.mako``, in NumPy."""

from __future__ import annotations

import numpy as np

from clhines.core.arrays import ranges
from clhines.core.errors import InputError
from clhines.simulator.kinds.event_errors import TOO_LATE, TOO_MANY_EVENTS, WRONG_EVENTS
from clhines.simulator.mechanisms.ir.program import Net
from clhines.simulator.state.sources import (
    SPIKE_LATE,
    WATCH_MARGIN,
    bin_end,
    detected,
)
from clhines.simulator.state.variables import BlockCall, Queue, Variables

Emitted = list[tuple[np.ndarray, np.ndarray]]  # sources and times


class HostEvents:
    """Delivers events to instances; `emitted` are (sources, times) since it was emptied."""

    def __init__(self, variables: Variables) -> None:
        self.variables, self.emitted = variables, Emitted()
        wires = variables.wires
        connection = variables.model.netcons
        self._delay, self._source = connection.delay, connection.source
        self._target = wires.target
        self._layer = np.zeros(wires.num_targets, np.int64)
        for number, targets in enumerate(wires.layers):
            self._layer[targets] = number
        self._armed_again = {k: np.zeros(variables.model.kinds[k].count, bool) for k in wires.kinds}
        self._set_at = np.full(connection.count + 1, -np.inf)  # when others set a weight; of none
        self._early = False  # whether events are sent before thresholds are compared
        self.plays = variables.played_values()
        if variables.model.bins:
            self._rank = variables.model.connection_ranks
            self._detected = detected(variables.model)

    def net(self, k: int) -> Net:
        net = self.variables.model.kinds[k].mechanism.program.net
        assert net is not None
        return net

    # -- sources -------------------------------------------------------------------------------

    def detect(self, t: float, step: int) -> None:
        """Send events of detectors that are above: `held` counts steps down, and at 0 they send."""
        variables, model = self.variables, self.variables.model
        above = model.sources.above(variables.v)
        held = variables.exact.held
        new = above & (held == 0)
        variables.exact.held = np.maximum(held - 1, above).astype(np.int32)
        variables.exact.held[new] = model.detector_hold[new]
        sources = model.sources.detector_source[new]
        self.append(sources, np.full(len(sources), t + SPIKE_LATE))
        if len(sources):
            self.emitted.append((sources, np.full(len(sources), t)))
            if variables.grid is not None and not variables.grid.split:
                variables.grid.send(step, sources)

    def append(self, sources: np.ndarray, times: np.ndarray) -> None:
        """Append an event to each of some different sources."""
        variables, wires = self.variables, self.variables.wires
        at = variables.exact.count[sources] % wires.ring_size[sources]
        variables.exact.ring[wires.ring_first[sources] + at] = times
        variables.exact.count[sources] += 1

    def check(self) -> None:
        """Raise InputError where more events of a source wait than its ring has room for."""
        exact, size = self.variables.exact, self.variables.wires.ring_size
        check_rings(exact.count[self._source] - exact.cursor, size[self._source])

    # -- delivery ------------------------------------------------------------------------------

    def deliver_sums(self, step: int, middle: float) -> None:
        if self.variables.grid is None:
            return
        for k, some, weight in self.variables.grid.take(step):
            none = np.full(len(some), -1)
            call = self._call(k, some, np.full(len(some), middle), np.zeros(len(some)), none)
            call.sums = weight
            self.variables.call(k, "receive", some, call)

    def deliver(self, now: float, until: float) -> None:
        """Deliver what is due up to `now`, check WATCH conditions, deliver up to `until`."""
        binned = self.variables.model.bins
        for layer in range(len(self.variables.wires.layers)):
            self._early = binned
            self._deliver(layer, now)
            self._early = False
            fired = self._fired(layer, now)
            if binned:
                self._bin(layer, now, False)
            self._watch(fired, now)
            self._deliver(layer, until)
            if binned:
                self._bin(layer, now, True)

    def deliver_until(self, until: float) -> None:
        """Deliver what is due, without conditions: at the start."""
        for layer in range(len(self.variables.wires.layers)):
            self._deliver(layer, until)

    def _deliver(self, layer: int, until: float) -> None:
        """Deliver, the earliest event of each target first, until nothing is due."""
        variables, wires = self.variables, self.variables.wires
        while variables.model.bins:
            none = np.zeros(0, np.int64)
            if not any([self._take(k, layer, until, (none, none, none)) for k in wires.kinds]):
                return
        in_layer = self._layer[self._target] == layer
        while True:
            open_ = np.flatnonzero(
                (variables.exact.cursor < variables.exact.count[self._source]) & in_layer
            )
            lag = variables.exact.count[self._source[open_]] - variables.exact.cursor[open_]
            size = wires.ring_size[self._source[open_]]
            check_rings(lag, size)
            sent = variables.exact.ring[
                wires.ring_first[self._source[open_]] + variables.exact.cursor[open_] % size
            ]
            time = sent + self._delay[open_]
            due = time <= until
            order = np.lexsort((open_[due], sent[due], time[due], self._target[open_[due]]))
            connection, time = open_[due][order], time[due][order]
            sent = sent[due][order]
            first = np.ones(len(connection), bool)
            first[1:] = self._target[connection[1:]] != self._target[connection[:-1]]
            of_wire = (connection[first], time[first], sent[first])
            if not any([self._take(k, layer, until, of_wire) for k in wires.kinds]):
                return

    def _bin(self, layer: int, begin: float, every: bool) -> None:
        """Deliver the events in the bin of a step (`every`: all of them), the last sent first."""
        variables, wires = self.variables, self.variables.wires
        connection, number, key, then = self._in_bin(layer, begin, every)
        source, target = self._source[connection], self._target[connection]
        place = np.zeros(self.variables.model.sources.count)  # order of sources
        np.maximum.at(place, self._source, self._rank)
        order = np.lexsort((-self._rank[connection], -number, -place[source], -key, target))
        connection, target = connection[order], target[order]
        # in a second round NEURON's t is that of the last self event
        times = np.maximum(begin, then[order]) if every else np.full(len(order), begin)
        turn = np.arange(len(order)) - np.searchsorted(target, target)
        np.add.at(variables.exact.cursor, connection, 1)
        for some in (np.flatnonzero(turn == r) for r in range(int(turn.max(initial=-1)) + 1)):
            for k in wires.kinds:
                instance = target[some] - wires.first_target[k]
                mine = (instance >= 0) & (instance < variables.model.kinds[k].count)
                if mine.any():
                    t, flag = times[some[mine]], np.zeros(int(mine.sum()))
                    self.receive(k, instance[mine], t, flag, connection[some[mine]])

    def _in_bin(
        self, layer: int, begin: float, every: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return connections of the events of a bin, their numbers, their order, and when sent."""
        variables, wires = self.variables, self.variables.wires
        lag = variables.exact.count[self._source] - variables.exact.cursor
        check_rings(lag, wires.ring_size[self._source])
        here = np.flatnonzero((lag > 0) & (self._layer[self._target] == layer))
        connection = np.repeat(here, lag[here])
        number = variables.exact.cursor[connection] + ranges(
            np.zeros(len(here), np.int64), lag[here]
        )
        source = self._source[connection]
        then = variables.exact.ring[wires.ring_first[source] + number % wires.ring_size[source]]
        in_bin = then + self._delay[connection] < bin_end(then, begin, variables.model.dt)
        key = np.where(self._detected[connection], then, then + SPIKE_LATE)
        if not every:  # others are later ones of short connections
            short = self._delay[connection] < 0.5 * variables.model.dt
            in_bin &= ~short | (key <= begin + SPIKE_LATE)
        # A connection delivers in order: its events up to the first that is not in the bin.
        #   taken  1 1 0 1 | 1    missed  0 0 1 1 | 1    kept  1 1 0 0 | 1
        first = np.searchsorted(connection, connection)
        missed = np.cumsum(~in_bin)
        before = missed - ~in_bin
        in_bin = (missed - before[first]) == 0
        return connection[in_bin], number[in_bin], key[in_bin], then[in_bin]

    def _take(
        self, k: int, layer: int, until: float, of_wire: tuple[np.ndarray, np.ndarray, np.ndarray]
    ) -> bool:
        """Deliver one event to each instance of a kind for which one is due."""
        variables, wires = self.variables, self.variables.wires
        count, queue = variables.model.kinds[k].count, variables.queues[k]
        begin = wires.first_target[k]
        connection, time, sent = of_wire
        here = (self._target[connection] >= begin) & (self._target[connection] < begin + count)
        if not (here.any() or queue.size.any() or self.plays.has(k)):
            return False
        slot, self_time, self_sent = earliest(queue)
        which, due, since = np.full(count, -1), np.full(count, np.inf), np.full(count, np.inf)
        instance = self._target[connection[here]] - begin
        which[instance], due[instance] = connection[here], time[here]
        since[instance] = sent[here]
        of_layer = self._layer[begin : begin + count] == layer
        mine = (self_time < due) | ((self_time == due) & (self_sent < since))
        first = np.where(mine, self_time, due), np.where(mine, self_sent, since)
        self.plays.before(k, of_layer, until, *first)
        mine &= (self_time <= until) & of_layer
        if not (here.any() or mine.any()):
            return False
        flag = np.zeros(count)
        if mine.any():
            due = np.where(mine, self_time, due)
            receivers = np.flatnonzero(mine)
            flag[receivers] = queue.flag[slot[receivers], receivers]
            which[receivers] = queue.connection[slot[receivers], receivers]
            removed(queue, slot, mine)
        from_wire = np.zeros(count, bool)
        from_wire[instance] = True
        from_wire &= ~mine
        variables.exact.cursor[which[from_wire]] += 1
        receivers = np.flatnonzero(from_wire | mine)
        if len(receivers):
            self.receive(k, receivers, due[receivers], flag[receivers], which[receivers])
        return bool(len(receivers))

    def receive(
        self, k: int, some: np.ndarray, t: np.ndarray, flag: np.ndarray, connection: np.ndarray
    ) -> None:
        """Call NET_RECEIVE of instances, and do what it asks for."""
        variables, net = self.variables, self.net(k)
        first = variables.model.netcons.first_weight
        if (t <= self._set_at[connection]).any():
            raise InputError(f"{self._named(k)}: {TOO_LATE}")
        if k in variables.queues:  # what NET_RECEIVE gets with flag 1 moves no more
            variables.queues[k].last[some[flag == 1]] = -1
        at = np.where(connection < 0, -1, first[np.maximum(connection, 0)])
        call = self._call(k, some, t, flag, at)
        for n in range(net.for_netcons):
            self._each_connection(k, f"for_netcons{n}", some, call)
        variables.call(k, "receive", some, call)
        for name in variables.model.kinds[k].mechanism.program.steered:
            self._steer(k, name, some, t, call)
        self.obey(k, some, t, connection, call)

    def _steer(self, k: int, name: str, some: np.ndarray, t: np.ndarray, call: BlockCall) -> None:
        """Set weights of other connections, and note when."""
        model, weight = self.variables.model, self.variables.exact.weight
        to, new = model.steered[k, name], call.results["steer", name]
        place = to.places(model)[some]
        changed = weight[place] != new
        self._set_at[to.connection[some[changed]]] = np.broadcast_to(t, len(some))[changed]
        weight[place] = new

    def _call(
        self, k: int, some: np.ndarray, t: np.ndarray, flag: np.ndarray, at: np.ndarray
    ) -> BlockCall:
        return BlockCall(self.variables.v_of(k, some), {"now": t}, flag, at)

    def _each_connection(self, k: int, block: str, some: np.ndarray, given: BlockCall) -> None:
        """Call a block of FOR_NETCONS for each connection of the instances, one after another."""
        variables, wires = self.variables, self.variables.wires
        assert given.flag is not None and given.weight_at is not None
        target = wires.first_target[k] + some
        counts = np.diff(wires.first)[target]
        for turn in range(int(counts.max(initial=0))):
            there = np.flatnonzero(counts > turn)
            connection = wires.order[wires.first[target[there]] + turn]
            other = variables.model.netcons.first_weight[connection]
            t = np.asarray(given.t["now"])[there]
            call = self._call(k, some[there], t, given.flag[there], given.weight_at[there])
            call.other_at = other
            variables.call(k, block, some[there], call)

    def obey(
        self, k: int, some: np.ndarray, t: np.ndarray, connection: np.ndarray, call: BlockCall
    ) -> None:
        """Send the events and arm the conditions that a block has asked for."""
        variables, net = self.variables, self.net(k)
        names = (name.split(".") for role, name in call.results if role == "send")
        for number in sorted({int(number) for number, _ in names}):
            time = call.results["send", f"{number}.time"]
            if not (time >= t).all():
                raise InputError(f"{self._named(k)}: {WRONG_EVENTS[2]}")
            sent = np.isfinite(time)
            if not sent.any():
                continue
            kind = net.sends[number].kind
            if kind == "event":
                self._emit(k, some[sent], time[sent])
                continue
            flag = call.results.get(("send", f"{number}.flag"), np.zeros(len(some)))
            if kind == "self":
                pushed(
                    self._named(k),
                    variables.queues[k],
                    some[sent],
                    time[sent],
                    flag[sent],
                    t[sent],
                    connection[sent],
                )
            else:
                moved(self._named(k), variables.queues[k], some[sent], time[sent], t[sent])
        self._arm(k, some, t, call)

    def _named(self, k: int) -> str:
        return self.variables.model.kinds[k].mechanism.name

    def _emit(self, k: int, some: np.ndarray, time: np.ndarray) -> None:
        sources = self.variables.model.sources.emitted.get(k)
        if sources is None:
            return
        exact, wires, listened = self.variables.exact, self.variables.wires, sources[some]
        count = exact.count[listened]
        last = wires.ring_first[listened] + (count - 1) % wires.ring_size[listened]
        if ((count > 0) & (time < np.nextafter(exact.ring[last], -np.inf))).any():
            raise InputError(f"{self._named(k)}: {WRONG_EVENTS[3]}")
        self.append(sources[some], np.nextafter(time, -np.inf) if self._early else time)
        self.emitted.append((sources[some], time))

    # -- WATCH ---------------------------------------------------------------------------------

    def _arm(self, k: int, some: np.ndarray, t: np.ndarray, call: BlockCall) -> None:
        watches = self.net(k).watches
        asked = [
            call.results.get(("arm", str(w)), np.zeros(len(some))) != 0 for w in range(watches)
        ]
        armed = np.array(asked, bool).reshape(watches, len(some))
        any_ = armed.any(axis=0)
        if not any_.any():
            return
        queue, there = self.variables.queues[k], some[any_]
        self._armed_again[k][there] = True
        queue.armed[:, there] = armed[:, any_]
        at = np.broadcast_to(t, len(some))[any_]
        queue.above[:, there] = self._conditions(k, there, call.v[any_], at) >= -WATCH_MARGIN

    def _conditions(self, k: int, some: np.ndarray, v: np.ndarray, t: np.ndarray) -> np.ndarray:
        """(watches, r) float64: values of the conditions."""
        zero = np.zeros(len(some))
        call = BlockCall(v, {"now": t}, zero, np.full(len(some), -1))
        self.variables.call(k, "watch", some, call)
        return np.array([call.results["watch", str(w)] for w in range(self.net(k).watches)])

    def _fired(self, layer: int, now: float) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Compare armed conditions; kinds, instances and (watches, r) bool: that have come true."""
        fired = []
        for k in self.variables.wires.kinds:
            net, queue = self.net(k), self.variables.queues[k]
            if not net.watches:
                continue
            begin = self.variables.wires.first_target[k]
            here = self._layer[begin : begin + queue.size.size] == layer
            watching = np.flatnonzero(queue.armed.any(axis=0) & here)
            if not len(watching):
                continue
            v, t = self.variables.v_of(k, watching), np.full(len(watching), now)
            above = self._conditions(k, watching, v, t) > 0
            fire = queue.armed[:, watching] & above & ~queue.above[:, watching]
            armed = queue.armed[:, watching]
            queue.above[:, watching] = np.where(armed, above, queue.above[:, watching])
            fired.append((k, watching, fire))
            self._armed_again[k][watching] = False
        return fired

    def _watch(self, fired: list[tuple[int, np.ndarray, np.ndarray]], now: float) -> None:
        """Send an event to instances whose armed condition came true, until one arms them again."""
        for k, some, fire in fired:
            none = np.full(len(some), -1)
            for w, flag in enumerate(self.net(k).watch_flags):
                at = np.flatnonzero(fire[w] & ~self._armed_again[k][some])
                if len(at):
                    flags = np.full(len(at), flag)
                    self.receive(k, some[at], np.full(len(at), now), flags, none[at])


# -- queues of self events ---------------------------------------------------------------------


def earliest(queue: Queue) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slot, time and time of sending of the first self event of each instance; infinite: none."""
    count = len(queue.size)
    if not queue.size.any():
        never = np.full(count, np.inf)
        return np.zeros(count, np.int64), never, never
    time = np.where(np.arange(len(queue.time))[:, None] < queue.size, queue.time, np.inf)
    slot = time.argmin(axis=0)
    each = np.arange(count)
    return slot, time[slot, each], queue.sent[slot, each]


def removed(queue: Queue, slot: np.ndarray, where: np.ndarray) -> None:
    """Take one event of some instances out of the queue; those after it move up."""
    capacity = len(queue.time)
    for q in range(capacity - 1):
        at = np.flatnonzero(where & (q >= slot))
        for array in (queue.time, queue.flag, queue.sent, queue.connection):
            array[q, at] = array[q + 1, at]
    queue.size[where] -= 1
    last = queue.last
    gone = where & (last == slot)
    queue.last = np.where(gone, -1, np.where(where & (last > slot), last - 1, last))


def check_rings(waiting: np.ndarray, size: np.ndarray) -> None:
    """Raise InputError where more events of a source wait than its ring has room for."""
    if (waiting > size).any():
        raise InputError(TOO_MANY_EVENTS)


def pushed(
    name: str,
    queue: Queue,
    some: np.ndarray,
    time: np.ndarray,
    flag: np.ndarray,
    sent: np.ndarray,
    connection: np.ndarray,
) -> None:
    at = queue.size[some]
    if (at >= len(queue.time)).any():
        raise InputError(
            f"{name}: an instance has more than {len(queue.time)} self events under way"
        )
    queue.time[at, some], queue.flag[at, some] = time, flag
    queue.sent[at, some], queue.connection[at, some] = sent, connection
    queue.size[some] = at + 1
    queue.last[some] = np.where(flag == 1, at, queue.last[some])


def moved(name: str, queue: Queue, some: np.ndarray, time: np.ndarray, sent: np.ndarray) -> None:
    """Move the self event with flag 1 that each of some instances sent last to another time."""
    at = queue.last[some]
    if (at < 0).any():
        raise InputError(f"{name}: {WRONG_EVENTS[1]}")
    queue.time[at, some], queue.sent[at, some] = time, sent
