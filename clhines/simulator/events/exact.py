"""Deliver events at exact times in NumPy, by the same rules as ``arena_functions.mako``.

Each source has a ring buffer of event times, and each connection a cursor into its source's ring
buffer. A target receives the events that are due, the earliest first:

    source 7   ring   0.3  0.8  1.1   .    .      count = 3 events were sent
                                 ^    ^
    connection a, delay 1         |    cursor = 2       next due at 1.1 + 1
    connection b, delay 2         cursor = 1            next due at 0.8 + 2

Self events wait in each instance's queue (`Queue`). An instance receives the earlier one of its
next self event and its next event from a connection; at equal times, the one that was sent earlier.
"""

from __future__ import annotations

import numpy as np

from clhines.core.arrays import ranges
from clhines.core.errors import InputError
from clhines.simulator.kinds.event_errors import TOO_LATE, TOO_MANY_EVENTS, WRONG_EVENTS
from clhines.simulator.mechanisms.ir.program import Net
from clhines.simulator.network.times import SPIKE_LATE
from clhines.simulator.state.plays import PlayedValues
from clhines.simulator.state.sources import WATCH_MARGIN, bin_end, detected
from clhines.simulator.state.variables import BlockCall, Queue, Variables

Emitted = list[tuple[np.ndarray, np.ndarray]]  # sources and times


class HostEvents:
    """Deliver events at exact times in NumPy; `emitted` collects the events that are sent."""

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
        # when another mechanism last set a connection's weight; the last entry: no connection
        self._set_at = np.full(connection.count + 1, -np.inf)
        self._early = False  # whether events are sent before thresholds are compared
        self.plays = PlayedValues(variables.model, variables.parameters, variables.note)
        if variables.model.bins:
            self._rank = variables.model.connection_ranks
            self._detected = detected(variables.model)

    def net(self, k: int) -> Net:
        net = self.variables.model.kinds[k].mechanism.program.net
        assert net is not None
        return net

    def detect(self, t: float, step: int) -> None:
        """Send events from detectors that are above their threshold at time t, ms.

        `held` counts the steps for which a detector stays silent after an event; at 0 it can send
        again.
        """
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
        variables, wires = self.variables, self.variables.wires
        at = variables.exact.count[sources] % wires.ring_size[sources]
        variables.exact.ring[wires.ring_first[sources] + at] = times
        variables.exact.count[sources] += 1

    def check(self) -> None:
        exact, size = self.variables.exact, self.variables.wires.ring_size
        check_rings(exact.count[self._source] - exact.cursor, size[self._source])

    def deliver_sums(self, step: int, middle: float) -> None:
        """Deliver summed weights, if events come in whole steps, at the `middle` of a step, ms."""
        if self.variables.grid is None:
            return
        for k, instances, weight in self.variables.grid.take(step):
            t, flag, none = (np.full(len(instances), value) for value in (middle, 0.0, -1))
            call = self._call(k, instances, t, flag, none)
            call.sums = weight
            self.variables.call(k, "receive", instances, call)

    def deliver(self, now: float, until: float) -> None:
        """Deliver events due until `now`, check WATCH, then deliver events until `until`, ms."""
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
        for layer in range(len(self.variables.wires.layers)):
            self._deliver(layer, until)

    def _deliver(self, layer: int, until: float) -> None:
        """Deliver due events to all targets in a layer (see `Wires`), the earliest first."""
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
            next_events = (connection[first], time[first], sent[first])
            if not any([self._take(k, layer, until, next_events) for k in wires.kinds]):
                return

    def _bin(self, layer: int, begin: float, every: bool) -> None:
        """Deliver the events in a step's bin (see `Model.bins`), the last sent first.

        With `every`, also deliver events that were sent within the step.
        """
        variables, wires = self.variables, self.variables.wires
        connection, number, key, then = self._in_bin(layer, begin, every)
        source, target = self._source[connection], self._target[connection]
        source_rank = np.zeros(self.variables.model.sources.count)
        np.maximum.at(source_rank, self._source, self._rank)
        order = np.lexsort((-self._rank[connection], -number, -source_rank[source], -key, target))
        connection, target = connection[order], target[order]
        # with `every` NEURON's t is the last self event's time
        times = np.maximum(begin, then[order]) if every else np.full(len(order), begin)
        turn = np.arange(len(order)) - np.searchsorted(target, target)
        np.add.at(variables.exact.cursor, connection, 1)
        for event in (np.flatnonzero(turn == r) for r in range(int(turn.max(initial=-1)) + 1)):
            for k in wires.kinds:
                instance = target[event] - wires.first_target[k]
                of_kind = (instance >= 0) & (instance < variables.model.kinds[k].count)
                if of_kind.any():
                    t, flag = times[event[of_kind]], np.zeros(int(of_kind.sum()))
                    self.receive(k, instance[of_kind], t, flag, connection[event[of_kind]])

    def _in_bin(
        self, layer: int, begin: float, every: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return connection, index in the ring, sort key and time of a layer's events in a bin."""
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
        if not every:  # leave short connections' later events
            short = self._delay[connection] < 0.5 * variables.model.dt
            in_bin &= ~short | (key <= begin + SPIKE_LATE)
        # A connection delivers in order: keep its events up to the first outside the bin.
        #   in bin  1 1 0 1 | 1    missed  0 0 1 1 | 1    kept  1 1 0 0 | 1
        first = np.searchsorted(connection, connection)
        missed = np.cumsum(~in_bin)
        before = missed - ~in_bin
        in_bin = (missed - before[first]) == 0
        return connection[in_bin], number[in_bin], key[in_bin], then[in_bin]

    def _take(
        self,
        k: int,
        layer: int,
        until: float,
        next_events: tuple[np.ndarray, np.ndarray, np.ndarray],
    ) -> bool:
        variables, wires = self.variables, self.variables.wires
        count, queue = variables.model.kinds[k].count, variables.queues[k]
        begin = wires.first_target[k]
        connection, time, sent = next_events
        here = (self._target[connection] >= begin) & (self._target[connection] < begin + count)
        if not (here.any() or queue.size.any() or self.plays.has(k)):
            return False
        slot, self_time, self_sent = earliest(queue)
        if not (here.any() or (self_time <= until).any() or self.plays.has(k)):
            return False
        which, due, due_sent = np.full(count, -1), np.full(count, np.inf), np.full(count, np.inf)
        instance = self._target[connection[here]] - begin
        which[instance], due[instance] = connection[here], time[here]
        due_sent[instance] = sent[here]
        in_layer = self._layer[begin : begin + count] == layer
        from_queue = (self_time < due) | ((self_time == due) & (self_sent < due_sent))
        first = np.where(from_queue, self_time, due), np.where(from_queue, self_sent, due_sent)
        self.plays.before(k, in_layer, until, *first)
        from_queue &= (self_time <= until) & in_layer
        if not (here.any() or from_queue.any()):
            return False
        flag = np.zeros(count)
        if from_queue.any():
            due = np.where(from_queue, self_time, due)
            receivers = np.flatnonzero(from_queue)
            flag[receivers] = queue.flag[slot[receivers], receivers]
            which[receivers] = queue.connection[slot[receivers], receivers]
            remove_events(queue, slot, from_queue)
        from_wire = np.zeros(count, bool)
        from_wire[instance] = True
        from_wire &= ~from_queue
        variables.exact.cursor[which[from_wire]] += 1
        receivers = np.flatnonzero(from_wire | from_queue)
        if len(receivers):
            self.receive(k, receivers, due[receivers], flag[receivers], which[receivers])
        return bool(len(receivers))

    def receive(
        self, k: int, instances: np.ndarray, t: np.ndarray, flag: np.ndarray, connection: np.ndarray
    ) -> None:
        """Call NET_RECEIVE for instances of mechanism k; send events and arm WATCH conditions."""
        variables, net = self.variables, self.net(k)
        first = variables.model.netcons.first_weight
        if (t <= self._set_at[connection]).any():
            raise InputError(f"{self._named(k)}: {TOO_LATE}")
        if k in variables.queues:  # a self event with flag 1 that is delivered cannot move any more
            variables.queues[k].last[instances[flag == 1]] = -1
        at = np.where(connection < 0, -1, first[np.maximum(connection, 0)])
        call = self._call(k, instances, t, flag, at)
        for n in range(net.for_netcons):
            self._call_for_netcons(k, f"for_netcons{n}", instances, call)
        variables.call(k, "receive", instances, call)
        for name in variables.model.kinds[k].mechanism.program.steered:
            self._steer(k, name, instances, t, call)
        self.apply_requests(k, instances, t, connection, call)

    def _steer(
        self, k: int, name: str, instances: np.ndarray, t: np.ndarray, call: BlockCall
    ) -> None:
        model, weight = self.variables.model, self.variables.exact.weight
        to, new = model.steered[k, name], call.results["steer", name]
        place = to.places(model)[instances]
        t, changed = np.broadcast_to(t, len(instances)), weight[place] != new
        self._set_at[to.connection[instances[changed]]] = t[changed]
        weight[place] = new

    def _call(
        self, k: int, instances: np.ndarray, t: np.ndarray, flag: np.ndarray, at: np.ndarray
    ) -> BlockCall:
        return BlockCall(self.variables.v_of(k, instances), {"now": t}, flag, at)

    def _call_for_netcons(
        self, k: int, block: str, instances: np.ndarray, receive_call: BlockCall
    ) -> None:
        variables, wires = self.variables, self.variables.wires
        assert receive_call.flag is not None and receive_call.weight_at is not None
        target = wires.first_target[k] + instances
        counts = np.diff(wires.first)[target]
        for turn in range(int(counts.max(initial=0))):
            there = np.flatnonzero(counts > turn)
            connection = wires.order[wires.first[target[there]] + turn]
            other = variables.model.netcons.first_weight[connection]
            t = np.asarray(receive_call.t["now"])[there]
            call = self._call(
                k, instances[there], t, receive_call.flag[there], receive_call.weight_at[there]
            )
            call.other_at = other
            variables.call(k, block, instances[there], call)

    def apply_requests(
        self, k: int, instances: np.ndarray, t: np.ndarray, connection: np.ndarray, call: BlockCall
    ) -> None:
        """Send the events, and arm the WATCH conditions, that a block's results request."""
        variables, net = self.variables, self.net(k)
        names = (name.split(".") for role, name in call.results if role == "send")
        for number in sorted({int(number) for number, _ in names}):
            time = call.results["send", f"{number}.time"]
            if not (time >= t).all():
                raise InputError(f"{self._named(k)}: {WRONG_EVENTS[2]}")
            sent = np.isfinite(time)
            if not sent.any():
                continue
            kind = net.sends[number]
            if kind == "event":
                self._emit(k, instances[sent], time[sent])
                continue
            flag = call.results.get(("send", f"{number}.flag"), np.zeros(len(instances)))
            if kind == "self":
                values = time[sent], flag[sent], t[sent], connection[sent]
                push_events(self._named(k), variables.queues[k], instances[sent], *values)
            else:
                move_events(
                    self._named(k), variables.queues[k], instances[sent], time[sent], t[sent]
                )
        self._arm(k, instances, t, call)

    def _named(self, k: int) -> str:
        return self.variables.model.kinds[k].mechanism.name

    def _emit(self, k: int, instances: np.ndarray, time: np.ndarray) -> None:
        sources = self.variables.model.sources.emitted.get(k)
        if sources is None:
            return
        exact, wires, listened = self.variables.exact, self.variables.wires, sources[instances]
        count = exact.count[listened]
        last = wires.ring_first[listened] + (count - 1) % wires.ring_size[listened]
        if ((count > 0) & (time < np.nextafter(exact.ring[last], -np.inf))).any():
            raise InputError(f"{self._named(k)}: {WRONG_EVENTS[3]}")
        self.append(sources[instances], np.nextafter(time, -np.inf) if self._early else time)
        self.emitted.append((sources[instances], time))

    def _arm(self, k: int, instances: np.ndarray, t: np.ndarray, call: BlockCall) -> None:
        watches = self.net(k).watches
        results = [
            call.results.get(("arm", str(w)), np.zeros(len(instances))) != 0 for w in range(watches)
        ]
        armed = np.array(results, bool).reshape(watches, len(instances))
        arms_any = armed.any(axis=0)
        if not arms_any.any():
            return
        queue, there = self.variables.queues[k], instances[arms_any]
        self._armed_again[k][there] = True
        queue.armed[:, there] = armed[:, arms_any]
        at = np.broadcast_to(t, len(instances))[arms_any]
        queue.above[:, there] = self._conditions(k, there, call.v[arms_any], at) >= -WATCH_MARGIN

    def _conditions(
        self, k: int, instances: np.ndarray, v: np.ndarray, t: np.ndarray
    ) -> np.ndarray:
        call = BlockCall(v, {"now": t}, np.zeros(len(instances)), np.full(len(instances), -1))
        self.variables.call(k, "watch", instances, call)
        return np.array([call.results["watch", str(w)] for w in range(self.net(k).watches)])

    def _fired(self, layer: int, now: float) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Return the WATCH conditions in a layer that have become true since the last call.

        Each item: mechanism, r instances, which armed conditions are true, (watches, r).
        """
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
        """Deliver the flags of `fired` conditions, except to instances that were armed again."""
        for k, instances, fire in fired:
            none = np.full(len(instances), -1)
            for w, flag in enumerate(self.net(k).watch_flags):
                at = np.flatnonzero(fire[w] & ~self._armed_again[k][instances])
                if len(at):
                    flags = np.full(len(at), flag)
                    self.receive(k, instances[at], np.full(len(at), now), flags, none[at])


def earliest(queue: Queue) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each instance's next self event: its slot in the queue, due time, sending time, ms.

    The due time is infinite if no self event is pending.
    """
    count = len(queue.size)
    if not queue.size.any():
        never = np.full(count, np.inf)
        return np.zeros(count, np.int64), never, never
    time = np.where(np.arange(len(queue.time))[:, None] < queue.size, queue.time, np.inf)
    slot = time.argmin(axis=0)
    each = np.arange(count)
    return slot, time[slot, each], queue.sent[slot, each]


def remove_events(queue: Queue, slot: np.ndarray, where: np.ndarray) -> None:
    """Remove the event at `slot` of each instance in the mask `where`; later events move up."""
    for q in range(len(queue.time) - 1):
        at = np.flatnonzero(where & (q >= slot))
        for array in (queue.time, queue.flag, queue.sent, queue.connection):
            array[q, at] = array[q + 1, at]
    queue.size[where] -= 1
    last = queue.last
    gone = where & (last == slot)
    queue.last = np.where(gone, -1, np.where(where & (last > slot), last - 1, last))


def check_rings(waiting: np.ndarray, size: np.ndarray) -> None:
    """Raise InputError if more events wait for a connection than its source's ring holds."""
    if (waiting > size).any():
        raise InputError(TOO_MANY_EVENTS)


def push_events(
    name: str, queue: Queue, instances: np.ndarray,
    time: np.ndarray, flag: np.ndarray, sent: np.ndarray, connection: np.ndarray,
) -> None:  # fmt: skip
    """Add a self event to each instance's queue; messages call the mechanism `name`."""
    at = queue.size[instances]
    if (at >= len(queue.time)).any():
        raise InputError(
            f"{name}: an instance has more than {len(queue.time)} self events under way"
        )
    queue.time[at, instances], queue.flag[at, instances] = time, flag
    queue.sent[at, instances], queue.connection[at, instances] = sent, connection
    queue.size[instances] = at + 1
    queue.last[instances] = np.where(flag == 1, at, queue.last[instances])


def move_events(
    name: str, queue: Queue, instances: np.ndarray, time: np.ndarray, sent: np.ndarray
) -> None:
    """Move each instance's last self event with flag 1 to `time`."""
    at = queue.last[instances]
    if (at < 0).any():
        raise InputError(f"{name}: {WRONG_EVENTS[1]}")
    queue.time[at, instances], queue.sent[at, instances] = time, sent
