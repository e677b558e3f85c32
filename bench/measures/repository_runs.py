"""One script of a public repository in this process, by NEURON or with the switch on.

    python -m bench measures.repository_runs SCRIPT WAY OUT --stop MS [--library FILE]
        [--press COMMAND ...]

WAY is of `WAYS`. The folder is the script's; OUT is a .npz file of what each run of the script has
left: voltages of each step, and states and other variables at its end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from bench import nrn
from clhines.neuron.memory.memory import NeuronMemory
from clhines.neuron.read.hooks import standard
from clhines.neuron.stepping.replay import stepping_by

WAYS = ("neuron", "clhines", "fixed", "fixed_clhines", "nudged", "fixed_nudged")
FIXED_STEP = 0.025  # ms
MOST_RUNS = 2  # that are compared; the script ends with the next one
MOST_SECTIONS, MOST_SEGMENTS = 150, 3000  # with voltages of each step; at the end
MOST_BUTTONS, MOST_LOADED = 4, 3  # files that load files
_ASSIGNED, _STATE = 2, 3  # of MechanismStandard
_OWN = "bench_continuerun"  # stdrun.hoc's
_LOADED = re.compile(r'(?:load_file|xopen)\(\s*(?:1,\s*)?"([^"]+)"')
_BUTTON = re.compile(r'x(?:radio)?button\(\s*"[^"]*"\s*,\s*"((?:[^"\\]|\\.)*)"')


class Runs:
    """What is recorded of each run, begun with NEURON's ``finitialize``.

    Parameters
    ----------
    h : hoc
    way : str
    stop : float, ms
        The longest ``tstop``.
    finish : callable
        Ends the process.
    """

    def __init__(self, h: Any, way: str, stop: float, finish: Callable[[], object]) -> None:
        self.h, self.way, self.stop, self._finish = h, way, stop, finish
        self.cvode = h.CVode()
        self.said: list[dict[str, Any]] = []
        self.arrays: dict[str, np.ndarray] = {}
        self._now: tuple[Any, list[Any]] | None = None
        self._loops = ExitStack()
        self._kept = [h.FInitializeHandler(3, self._begin), h.FInitializeHandler(1, self._nudge)]
        if way in ("fixed", "fixed_nudged"):
            h(standard(h, "continuerun").replace("proc continuerun", f"proc {_OWN}", 1))
            h("objref bench_runs")
            h.bench_runs = self
            h(f"proc continuerun() {{ bench_runs.fix() {_OWN}($1) }}")
            self._kept.append(h.FInitializeHandler(2, self._fix_loops))

    def _begin(self) -> None:
        h = self.h
        self.end()
        if len(self.said) >= MOST_RUNS:
            self._finish()
        h.tstop = min(h.tstop, self.stop)
        sections = list(h.allsec())
        if sections or any(len(h.List(name)) for name in nrn.mechanism_names(h, True)):
            some = sections[:: max(1, len(sections) // MOST_SECTIONS)]
            time_ = h.Vector().record(h._ref_t)
            self._now = time_, [h.Vector().record(s(0.5)._ref_v) for s in some]

    def _fix_loops(self) -> None:
        """Let ``fadvance`` turn them off, too, until `continuerun` does; loops call it alone."""
        self._loops.close()
        if self.cvode.active() and next(iter(self.h.allsec()), None) is not None:
            self._loops.enter_context(stepping_by(self.h, NeuronMemory(self.h), self._step))

    def _step(self) -> None:
        self._turn_off()
        self.h.fadvance()

    def fix(self) -> None:
        """Turn variable steps off before the first step, as ``fixed_step=`` does."""
        self._loops.close()
        self._turn_off()

    def _turn_off(self) -> None:
        h = self.h
        if self.cvode.active():
            self.cvode.active(0)
            h.dt = FIXED_STEP
            h.using_cvode_, h.steps_per_ms, h.nstep_steprun = 0, 1 / FIXED_STEP, 1
            h.frecord_init()

    def _nudge(self) -> None:
        if self.way.endswith("nudged"):
            self.cvode.use_mxb(1)
            for section in self.h.allsec():
                section(0.5).v = np.nextafter(section(0.5).v, 0.0)

    def end(self) -> None:
        """Keep what the run of now has recorded, if it took steps."""
        if self._now is None:
            return
        (times, vectors), self._now = self._now, None
        count = min([len(times), *map(len, vectors)])
        if count <= 2 and not self.h.t > 0:  # with local steps NEURON records none
            return
        at = len(self.said)
        self.said.append(
            {"steps": count - 1, "t": float(self.h.t), "variable": bool(self.cvode.active())}
        )
        self.arrays[f"v{at}"] = np.array([np.array(v)[:count] for v in vectors])
        for name, values in self._variables():
            self.arrays[f"{name}{at}"] = values

    def _names(self, mechanism: str, kind: int) -> list[tuple[str, int]]:
        try:
            standard = self.h.MechanismStandard(mechanism, kind)
        except RuntimeError:
            return []
        name, found = self.h.ref(""), []
        for k in range(int(standard.count())):
            size = int(standard.name(name, k))
            found.append((name[0], size))
        return found

    def _variables(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield voltages and states of segments, and variables of point processes."""
        h = self.h
        segments = [seg for sec in h.allsec() for seg in sec]
        segments = segments[:: max(1, len(segments) // MOST_SEGMENTS)]
        yield "end v ", np.array([seg.v for seg in segments])
        for mechanism in sorted({m.name() for seg in segments for m in seg}):
            if mechanism.endswith("_ion"):
                continue
            there = [seg for seg in segments if seg.sec.has_membrane(mechanism)]
            for name, size in self._names(mechanism, _STATE):
                if size == 1:
                    yield f"end {name} ", np.array([getattr(seg, name) for seg in there])
        for mechanism in nrn.mechanism_names(h, True):
            objects = list(h.List(mechanism))[:MOST_SEGMENTS]
            for kind in (_ASSIGNED, _STATE) if objects else ():
                for name, size in self._names(mechanism, kind):
                    if size == 1:
                        values = [float(getattr(one, name)) for one in objects]
                        yield f"end {mechanism}.{name} ", np.array(values)


def buttons_of(path: Path, depth: int) -> list[str]:
    """Return the commands of the buttons of a file of hoc, or of the first that it loads."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return []
    found = [m[1].replace('\\"', '"') for m in _BUTTON.finditer(text)]
    found = [b for b in found if "quit" not in b]
    for loaded in _LOADED.findall(text) if depth else ():
        found = found or buttons_of(Path(loaded), depth - 1)
    return found


def shorten_netpyne(stop: float) -> None:
    """Let NetPyNE's runs end at `stop`, in ms, as they do not look at ``tstop``."""
    from netpyne import sim

    begin = sim.initialize

    def shorter(*args: Any, **words: Any) -> None:
        begin(*args, **words)
        sim.cfg.duration = min(sim.cfg.duration, stop)

    sim.initialize = shorter


def driven(h: Any, script: str, runs: Runs, press: Sequence[str]) -> str:
    """Load a script, as nrngui does; where it runs nothing, do what a user would.

    That is: one of its buttons after the other, each with *Init & Run* after it where it has made
    a model and runs none itself. Returns what was pressed, empty for nothing.
    """
    if script.endswith(".py"):
        sys.argv = [script]
        sys.path.insert(0, os.getcwd())
        text = Path(script).read_text("utf-8", "replace")
        if "netpyne" in text:
            shorten_netpyne(runs.stop)
        exec(compile(text, script, "exec"), {"__name__": "__main__", "__file__": script})
        runs.end()
        return ""
    h.load_file("nrngui.hoc")
    found = buttons_of(Path(script), MOST_LOADED)
    h.load_file(script)
    runs.end()
    buttons = press or found
    pressed = ""
    for button in ["", *buttons[:MOST_BUTTONS]]:
        if runs.said:
            break
        pressed = button
        if button:
            h(button)
            runs.end()
        if not runs.said and list(h.allsec()) and (button or not press):
            pressed = f"{button}; run()" if button else "run()"
            h.run()
            runs.end()
    return pressed


def main(arguments: Sequence[str]) -> int:
    """Run a script and write what is found of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("script")
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("out")
    parser.add_argument("--stop", type=float, required=True, metavar="MS")
    parser.add_argument("--library", default="", metavar="FILE")
    parser.add_argument("--press", nargs="*", default=[], metavar="COMMAND")
    args = parser.parse_args(arguments)
    from neuron import h

    if args.library:
        h.nrn_load_dll(args.library)
    h.load_file("stdrun.hoc")
    on, pressed, begin = None, "", time.perf_counter()
    if args.way.endswith("clhines"):
        import clhines

        on = clhines.neuron.enable(fixed_step=FIXED_STEP if args.way.startswith("fixed") else None)
    ended = ""

    def finish() -> None:
        said = {
            "runs": runs.said, "ended": ended, "pressed": pressed, "here": on.steps if on else 0,
            "seconds": time.perf_counter() - begin, "sections": len(list(h.allsec())),
        }  # fmt: skip
        part = f"{args.out}.part"
        with open(part, "wb") as file:
            np.savez(file, said=json.dumps(said), **runs.arrays)
        os.replace(part, args.out)  # whole, also where this process is killed
        sys.stdout.flush()
        os._exit(0)  # as windows and threads may stay

    runs = Runs(h, args.way, args.stop, finish)
    try:
        pressed = driven(h, args.script, runs, args.press)
    except BaseException as error:
        traceback.print_exc()
        where = re.compile(r"/\S*/site-packages/")  # of no model
        ended = where.sub("", f"{type(error).__name__}: {error}")
    runs.end()
    finish()
    return 0
