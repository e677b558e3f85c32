"""Loops around ``fadvance``, of Python and hoc, while the switch is on.

The first call since ``finitialize`` imports the model, or goes on with the one that is kept. A
block of steps runs here, each call gives the next one to NEURON's memory, and a block is longer
than the one before as long as the loop's body only reads. What it changes is found by comparison:
then NEURON's memory is brought to where the loop is, and the model is imported again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Set

from clhines.errors import InputError, say_to_caller
from clhines.neuron.entry import RunOptions, begin, check_dt, fix_steps, kept_or_read
from clhines.neuron.kept import KeptModel, keep
from clhines.neuron.memory.objects import Objects
from clhines.neuron.memory.session import Hoc, all_sections, uncollected
from clhines.neuron.read.wiring import on_ranks
from clhines.neuron.stepping.asked import Asking, named
from clhines.neuron.stepping.code import HocCode
from clhines.neuron.stepping.everything import Everything, LackingError, V, lacking, lost_names
from clhines.neuron.stepping.loop_run import LeftError, LoopRun
from clhines.neuron.stepping.taken import Settling, StatementEnd, TakenStep
from clhines.simulate.engines.arena_run import state_follows

_FEW = 32  # steps between two changes: NEURON takes those of a loop that twice has fewer
_MOST_CUT = 2
_ONCE = "once"
_MOST_ALONE = 64  # nodes whose voltages are recorded alone; more are all
_MAKING = "hoc_newobj", "hoc_newobj_arg", "hoc_newobj_ret"  # operations in hoc's code
_POINTERS = ("hoc_argref",)  # that read or set a variable by no name
_UNNAMED = {  # methods that may, or that run other code
    "apply", "submit", "context", "working", "runworker", "val", "assign", "scatter", "out",
    "restore",
}  # fmt: skip
_SEEDING = {  # methods that set where a stream of a mechanism is
    "seed", "noiseFromRandom", "noiseFromRandom123", "set_ids", "set_seq", "Random123_globalindex",
}  # fmt: skip
_PICKING = {  # methods of a Random, from which a mechanism may draw, too
    "repick", "seq", "Random123", "MCellRan4", "ACG", "MLCG", "Isaac64", "uniform", "discunif",
    "normal", "lognormal", "negexp", "poisson", "binomial", "geometric", "hypergeo", "erlang",
    "weibull",
}  # fmt: skip
_READING = {"to_vector", "gather", "val", "in"}  # methods that read variables by no name
_DRAWING = {"plot", "flush", "fastflush", "getline"}  # of what a Graph has been told to draw
_OF_ALL = {"loc", "has_loc", "get_loc", "get_segment"}  # functions of all point processes


class LostError(InputError):
    """NEURON's memory cannot be brought to where a loop is, so that NEURON cannot go on either."""


class Loops:
    """Takes the steps of loops, until NEURON is to take them itself, up to ``finitialize``."""

    def __init__(
        self,
        h: Hoc,
        library: Objects,
        options: Callable[[], tuple[RunOptions, float | None]],
        say: Callable[[str], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._h, self._library, self._options, self._say = h, library, options, say
        self._settling = Settling(h, library, failed)
        self._failed, self._end = failed, StatementEnd(library, self._ends)
        self._run: LoopRun | None = None
        self._kept: KeptModel | None = None
        self._cut = 0  # changes after few steps
        self._names = set[str]()  # of variables that Python reads in loops
        self._rows = set[int]()  # where NEURON has rows of nodes whose voltages are read alone
        self._numbers = set[int]()  # of these nodes, as long as the model is the same
        self._callers = set[tuple[str, str]]()  # functions of hoc that Python calls in loops
        self._called = set[tuple[str, str]]()  # those of hoc's own, whose code is known
        self._asked: Asking | None = None
        self.calling = list[Hoc]()  # functions of hoc that Python calls now
        self.steps = 0
        self.taken: TakenStep | None = None
        self._handler: Hoc | None = None

    def begin(self, step: Callable[[], None]) -> None:
        """Let `step`, which calls `advance` and raises nothing, be hoc's ``fadvance``."""
        self.taken = TakenStep(self._library, step, self.settle)
        self.taken.begin()
        self._cut = 0
        self._asked = Asking(self._h, self._read, self._act, self._call)
        self._handler = self._h.FInitializeHandler(3, self._restart)

    def end(self) -> None:
        """Let NEURON take all steps again; what has run ahead of a model that is gone is left."""
        try:
            if self.taken is not None:
                self.taken.end()
        except (InputError, LeftError) as error:
            if next(iter(all_sections()), None) is not None:
                text = str(error).partition(";")[0]
                say_to_caller(f"{text}: call h.finitialize() before NEURON's next step")
        self.taken = self._handler = None

    def advance(self) -> None:
        """Take a step in place of ``fadvance``; an `InputError`: the model is refused."""
        run, taken = self._run, self.taken
        assert taken is not None and self._asked is not None
        self._asked.on = False
        if run is not None and run.is_same():
            self._step(run)
            return
        with taken.off():
            if run is not None:
                self.settle()
            if self._h.t < 0:
                self._h.fadvance()
                return
            why = self._reason()
            if why is not None:
                self._h.fadvance()
        if why is not None:
            if why != _ONCE:
                self.leave(why)
            return
        assert self._run is not None
        self._step(self._run)

    def _step(self, run: LoopRun) -> None:
        run.step()
        self.steps += 1
        assert self._asked is not None
        self._asked.on = True

    def called(self, function: Hoc) -> None:
        """Before a call of a function of hoc by Python."""
        if self._asked is not None:
            self._asked.called(function)

    def _act(self) -> None:
        """Before Python does what may change the model, or read what is not recorded."""
        if self._run is not None and self.taken is not None:
            with self.taken.off():
                self.settle()

    def _ends(self) -> None:
        """At the end of a statement of hoc's, behind which comes what has not been read."""
        try:
            self._act()
        except BaseException as error:
            self._failed(error)

    def _read(self, name: str, segment: Hoc | None) -> None:
        """Before Python reads a variable that steps change; from now on it is recorded."""
        if name in self._names:
            return
        if name != V or segment is None or not self._is_alone(segment):
            self._names.add(name)
            self._learn()

    def _is_alone(self, segment: Hoc) -> bool:
        """Whether the voltage of this segment is recorded without all others; it is from now on."""
        number = segment.node_index()
        if number in self._numbers:
            return True
        place, run = self._library.known_place(segment, V), self._run
        if place is None or len(self._rows) > _MOST_ALONE:
            return False
        if run is not None and not run.everything.has(place.row):
            return False
        self._numbers.add(number)
        if place.row not in self._rows:
            self._rows.add(place.row)
            self._learn()
        return True

    def _call(self, function: tuple[str, str]) -> None:
        """Before Python calls a function of hoc; what is hoc's own is known from now on."""
        assert self._asked is not None
        if function in self._called and self._run is not None and self._run.whole:
            return
        if function in self._callers:
            self._act()
            return
        self._callers.add(function)
        self._learn()

    def _learn(self) -> None:
        """Begin anew with what is known of the body now, where a run has begun."""
        assert self.taken is not None and self._asked is not None
        if self._run is not None:
            cut = self._cut
            with self.taken.off():
                self.settle()
            self._cut = cut
            self._asked.begin()  # what else is read after this step

    def _reason(self) -> str | None:
        """Begin to run ahead; return why NEURON is to take the steps, empty where that is plain.

        `_ONCE`: it is to take this one.
        """
        h, (request, fixed) = self._h, self._options()
        if on_ranks(h):
            return ""
        if self._cut >= _MOST_CUT:
            return "a loop around fadvance() changes it after few steps"
        fix_steps(h, fixed)
        check_dt(h)
        with uncollected():
            kept = kept_or_read(h, request, None, None, None, stepped=True)
            kept.is_called = True
            model = kept.model
            late = model.memory.transfers and model.waits_for_transfer()
            if late or kept.waits():
                keep(kept)
                return _ONCE  # a run would begin with the voltages of now
            what = lacking(kept.model)
            if what:
                keep(kept)
                return f"{what} is not given to loops around fadvance()"
            try:
                self._begin(kept)
            except (LackingError, OSError) as error:
                kept.sim = None
                return f"{error}, in loops around fadvance()"
        return None

    def _begin(self, kept: KeptModel) -> None:
        """Run ahead, for a loop of Python's alone, or of hoc's, whose code is searched."""
        if kept.sim is None:
            begin(kept)
        assert kept.sim is not None and kept.imported is not None and self._asked is not None
        every, used, whole = kept.everything, None, False
        with state_follows():
            every = kept.everything = every or Everything(kept.sim, kept.imported)
            asked, names = self._asked, every.names
            asked.names = frozenset(n for n in names if not n.startswith("."))
            asked.of_points = frozenset(n[1:] for n in names if n.startswith("."))
            asked.lost = lost_names(kept.model)
            callers = self._callers | {named(f) for f in self.calling if str(f) != "fadvance()"}
            if callers:
                whole, used = self._used(kept, every, callers)
            every.record(self._names & names)
            every.record_voltages(self._rows)
        self._numbers.clear()
        self._rows = {row for row in self._rows if every.has(row)}
        self._names |= every.recorded & {V}
        asked.unread = asked.names - self._names
        self._run, self._kept = LoopRun(kept, whole, used), kept
        if whole:
            self._end.ask()
        self._settling.begin()
        asked.begin()
        asked.on = False

    def _used(
        self, kept: KeptModel, every: Everything, callers: Set[tuple[str, str]]
    ) -> tuple[bool, frozenset[str] | None]:
        """Whether hoc's code may run; names in it, None where it may change others, too.

        What it may read is recorded.
        """
        code = HocCode(self._h, kept.model.memory, (*_POINTERS, *_MAKING))
        reached = code.reached({name for _, name in callers})
        self._called = {*callers & reached.procedures}
        if not self._called and all(str(f) == "fadvance()" for f in self.calling):
            return False, None
        used, contents = reached.names, kept.model.contents
        for name, mechanism in kept.model.mechanisms.items():
            drawn = mechanism.program.random, mechanism.program.picked
            for streams, methods in zip(drawn, (_SEEDING, _PICKING), strict=True):
                if streams and (called := sorted(used & methods)):
                    raise LackingError(f"hoc calls {called[0]}(), and {name} draws numbers")
        by_pointer = not used.isdisjoint(_POINTERS)
        reads = by_pointer or not used.isdisjoint(_READING)
        reads |= not used.isdisjoint(_DRAWING) and self._draws()
        lost = sorted(n for n in lost_names(kept.model) if reads or n in used)
        if lost:
            how = "may read, by no name," if reads else "reads"
            raise LackingError(f"hoc {how} {lost[0]}, which steps or their events set")
        self._names |= {n for n in every.names if reads or n.removeprefix(".") in used}
        ends = tuple(f"_{name}" for name in contents.density)
        of_mechanisms = any(
            name.endswith(ends) if not owner else owner in contents.points and name not in _OF_ALL
            for owner, name in reached.functions
        )
        acts = by_pointer or of_mechanisms or not used.isdisjoint(_UNNAMED)
        return True, None if acts else used

    def _draws(self) -> bool:
        """Whether there are Graphs that draw: without windows they evaluate nothing."""
        windows = self._library.integer("hoc_usegui") or "neuron.gui2" in sys.modules
        return bool(windows) and len(self._h.List("Graph")) > 0

    def leave(self, why: str) -> None:
        """Let NEURON take the steps that follow, until ``finitialize``."""
        assert self._asked is not None
        self._asked.end()
        if why:
            self._say(why)
        if self.taken is not None:
            self.taken.is_on = False

    def settle(self) -> None:
        """Bring NEURON's memory to where a loop is."""
        self._settling.end()
        if self._asked is not None:
            self._asked.end()
        run, self._run = self._run, None
        kept, self._kept = self._kept, None
        if run is None or kept is None:
            return
        try:
            if not run.given:
                return
            self._cut = self._cut + 1 if run.given < _FEW else 0
            if not run.settle():
                raise LostError(
                    f"sections, mechanisms, NetCons or Vectors have been made or removed in a loop "
                    f"around fadvance(), at {self._h.t:g} ms; expected this before h.finitialize()"
                )
        finally:
            run.held.let_go()
        keep(kept)

    def _restart(self) -> None:
        """Before ``finitialize``: what has run ahead ends."""
        taken = self.taken
        if taken is None:
            return
        with taken.off():
            try:
                self.settle()
            except (InputError, LeftError):
                pass  # what has run ahead is of a model that is no more
        taken.is_on, self._cut = True, 0
