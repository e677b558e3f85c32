"""Loops around ``fadvance``, of Python and hoc, while the switch is on.

The first call since ``finitialize`` imports the model, or goes on with the one that is kept. A
block of steps runs here, each call gives the next one to NEURON's memory, and a block is longer
than the one before as long as the loop's body only reads. What it changes is found by comparison:
then NEURON's memory is brought to where the loop is, and the model is imported again.
"""

from __future__ import annotations

from collections.abc import Callable

from clhines.errors import InputError, say_to_caller
from clhines.neuron.entry import RunOptions, begin, check_dt, fix_steps, kept_or_read
from clhines.neuron.kept import KeptModel, keep
from clhines.neuron.memory.objects import Objects
from clhines.neuron.memory.session import Hoc, all_sections, uncollected
from clhines.neuron.read.wiring import on_ranks
from clhines.neuron.stepping.asked import Asking
from clhines.neuron.stepping.code import HocCode
from clhines.neuron.stepping.everything import Everything, LackingError, lacking, lost_globals
from clhines.neuron.stepping.loop_run import LoopRun
from clhines.neuron.stepping.taken import Settling, TakenStep
from clhines.simulate.engines.arena_run import state_follows

_FEW = 32  # steps between two changes: NEURON takes those of a loop that twice has fewer
_MOST_CUT = 2
_POINTING = "Pointer", "PtrVector"  # classes whose objects read by addresses


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
        self._run: LoopRun | None = None
        self._kept: KeptModel | None = None
        self._cut = 0  # changes after few steps
        self._names = set[str]()  # of variables that Python reads in loops
        self._asked: Asking | None = None
        self.calling: object = None  # function of hoc that Python calls
        self.points = False  # with pointers to variables
        self.steps = 0
        self.taken: TakenStep | None = None
        self._handler: Hoc | None = None

    def begin(self, step: Callable[[], None]) -> None:
        """Let `step`, which calls `advance` and raises nothing, be hoc's ``fadvance``."""
        self.taken = TakenStep(self._library, step, self.settle)
        self.taken.begin()
        self._asked = Asking(self._h, self._read, self._act)
        self._handler = self._h.FInitializeHandler(3, self._restart)

    def end(self) -> None:
        """Let NEURON take all steps again; what has run ahead of a model that is gone is left."""
        try:
            if self.taken is not None:
                self.taken.end()
        except InputError as error:
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
            self.leave(why)
            return
        assert self._run is not None
        self._step(self._run)

    def _step(self, run: LoopRun) -> None:
        stop = float(self._h.tstop) if self._h.name_declared("tstop") else 0.0
        run.step(stop)
        self.steps += 1
        assert self._asked is not None
        self._asked.on = True

    def called(self, function: Hoc) -> None:
        """Before a call of a function of hoc by Python."""
        if self._asked is not None:
            self._asked.called(function)

    def _act(self) -> None:
        """Before Python does what may change the model, or read what is not recorded."""
        assert self.taken is not None
        if self._run is not None:
            with self.taken.off():
                self.settle()

    def _read(self, name: str) -> None:
        """Before Python reads a variable that steps change; from now on it is recorded."""
        assert self.taken is not None and self._asked is not None
        if name in self._names:
            return
        self._names.add(name)
        if self._run is not None:
            cut = self._cut
            with self.taken.off():
                self.settle()
            self._cut = cut
            self._asked.begin()  # what else is read after this step

    def _reason(self) -> str | None:
        """Begin to run ahead; return why NEURON is to take the steps, empty where that is plain."""
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
            what = lacking(kept.model)
            if what:
                keep(kept)
                return f"{what} is not given to loops around fadvance()"
            try:
                self._begin(kept, str(self.calling) != "fadvance()")
            except (LackingError, OSError) as error:
                kept.sim = None
                return f"{error}, in loops around fadvance()"
        return None

    def _begin(self, kept: KeptModel, whole: bool) -> None:
        """Run ahead, for a loop of Python's alone, or of hoc's, whose code is searched."""
        if kept.sim is None:
            begin(kept)
        assert kept.sim is not None and kept.imported is not None and self._asked is not None
        every = kept.everything
        with state_follows():
            every = kept.everything = every or Everything(kept.sim, kept.imported)
            asked, names = self._asked, every.names
            asked.names = frozenset(n for n in names if not n.startswith("."))
            asked.of_points = frozenset(n[1:] for n in names if n.startswith("."))
            asked.globals_ = lost_globals(kept.model)
            if whole:
                pointing = [kind for kind in _POINTING if self._h.List(kind).count()]
                if pointing or self.points:
                    by = pointing[0] if pointing else "pointer that is an argument"
                    raise LackingError(f"hoc may read variables by a {by}")
                wanted = asked.names | asked.of_points | asked.globals_
                found = HocCode(self._h, kept.model.memory, ()).names(wanted)
                lost = sorted(found & asked.globals_)
                if lost:
                    raise LackingError(f"hoc reads {lost[0]}, which each step sets")
                self._names |= {n for n in names if n.removeprefix(".") in found}
            every.record(self._names & names)
        self._run, self._kept = LoopRun(kept, whole), kept
        self._settling.begin()
        asked.begin()
        asked.on = False

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
        if run is None or kept is None or not run.given:
            return
        self._cut = self._cut + 1 if run.given < _FEW else 0
        if not run.settle():
            raise LostError(
                f"sections, mechanisms, NetCons or Vectors have been made or removed in a loop "
                f"around fadvance(), at {self._h.t:g} ms; expected this before h.finitialize()"
            )
        keep(kept)

    def _restart(self) -> None:
        """Before ``finitialize``: what has run ahead ends."""
        taken = self.taken
        if taken is None:
            return
        with taken.off():
            try:
                self.settle()
            except InputError:
                pass  # what has run ahead is of a model that is no more
        taken.is_on, self._cut = True, 0
