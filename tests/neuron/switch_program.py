"""A model run by NEURON's own calls, with the switch off and on: ``switch_program.py WHAT``."""

import io
import json
import sys
from contextlib import redirect_stderr

import numpy as np
from kept_program import Net, h, worst
from support.neuron_scripts import make_section

import clhines
from clhines.neuron import disable, enable

pc = h.ParallelContext()
h("objref hoc_pc\nhoc_pc = new ParallelContext()")
h("proc hoc_solve() { hoc_pc.psolve($1) hoc_after = 1 }\nhoc_after = 0")
STOP = 12.0


def by_run():
    h.tstop = STOP
    h.run()


def by_hoc():
    h.tstop = STOP
    h("run()")


def by_continuerun():
    h.finitialize(-65)
    for stop in (3.01, 3.0, 3.02, STOP):  # also of no step
        h.continuerun(stop)


def in_groups():
    """Several steps by one call of step(), as setdt() chooses for few points per ms."""
    h.steps_per_ms = 10
    h.tstop = STOP
    h.run()
    h.steps_per_ms = 40


def by_psolve():
    pc.set_maxstep(10)
    h.finitialize(-65)
    for stop in (3.01, 3.02, 3.09, 3.0901, STOP):
        pc.psolve(stop)


def by_hoc_psolve():
    pc.set_maxstep(10)
    h.finitialize(-65)
    h.hoc_solve(STOP)


def in_turns():
    """A loop continues after a run."""
    h.finitialize(-65)
    h.continuerun(STOP / 2)
    while h.t < STOP - 0.5 * h.dt:
        h.fadvance()


WAYS = [by_run, by_hoc, by_continuerun, in_groups, by_psolve, by_hoc_psolve, in_turns]


def taken(net, way):
    net.stim.ranvar.set_ids(1, 2, 3)
    net.stim.ranvar.set_seq(0)
    way()
    return [*net.taken(), np.array([h.t])]


def ways(engine):
    """Return the steps run here in each way, and the differences of the records from NEURON's."""
    net, results = Net(), {}
    for way in WAYS:
        truth = taken(net, way)
        with enable(engine=engine, strict=True) as on:
            got = taken(net, way)
        again = taken(net, way)
        results[way.__name__] = {
            "steps": on.steps,
            "spikes": len(truth[-3]),
            "worst": max(worst(a, b) for a, b in zip(truth, got, strict=True)),
            "off": max(worst(a, b) for a, b in zip(truth, again, strict=True)),
        }
    return results


def steps_of(on, way):
    before = on.steps
    way()
    return on.steps - before


def nesting(engine):
    """Return the steps run here as the switch turns on and off, also in procedures of hoc."""
    kept, h.tstop = Net(), 1.0  # 40 steps
    originals = h.continuerun, type(h).__call__
    results = []
    outer = enable(engine=engine)
    with enable(engine="reference") as on:
        results.append(steps_of(on, h.run))  # here
        enable(engine=engine)
        disable()
        results.append(steps_of(on, h.run))  # by NEURON
        enable(engine=engine)
        results.append(steps_of(on, h.run))
    results.append(steps_of(outer, h.run))  # as before the block
    try:
        with enable(when="always"):
            raise KeyError("of the user")
    except KeyError:
        results.append(steps_of(outer, h.run))
    disable()
    disable()
    results.append(steps_of(outer, h.run))
    with enable(engine=engine) as on:
        h("proc continuerun() { hoc_after = 7 }")  # defined by the user in a run
        h.run()
        results.append([int(h.hoc_after), on.steps])
    h.run()
    results.append([int(h.hoc_after), on.steps])
    results.append(type(h).__call__ is originals[1])
    del kept
    return results


def refusals(engine):
    """Return errors for a model that is not simulated, and the fallbacks to NEURON."""
    kept, results, h.tstop = Net(), {"options": []}, 1.0
    for options in ({"strict": "no"}, {"engine": "nothing", "strict": True}):
        try:
            with enable(**options):
                h.run()
        except clhines.InputError as error:
            results["options"].append(str(error))
    other = make_section("other", "extracellular")
    other(0.5).xc[0] = -1
    for way in (by_run, by_hoc, by_psolve, by_hoc_psolve):
        h.hoc_after = 0
        with enable(engine=engine, strict=True) as on:
            try:
                way()
            except clhines.InputError as error:
                said = f"{type(error).__name__}: {error}"
            results[way.__name__] = [said, h.t, on.steps, h.hoc_after]
    said = io.StringIO()
    with redirect_stderr(said), enable(when="always") as on:
        truth = taken(kept, by_psolve)
        got = taken(kept, by_run)
        shown = repr(on)
    disable()
    expected = taken(kept, by_run)
    results["default"] = [
        said.getvalue(),
        on.reasons,
        max(worst(a, b) for a, b in zip(truth, expected, strict=True)),
        max(worst(a, b) for a, b in zip(got, expected, strict=True)),
        on.steps,
        shown,
    ]
    with enable(when="always"):
        try:
            h.continuerun("soon")
        except RuntimeError as error:  # NEURON's own
            results["wrong"] = type(error).__name__
        results["solves"] = []
        for arguments in ((), ("soon",), (pc,)):
            try:
                pc.psolve(*arguments)
            except RuntimeError as error:
                results["solves"].append(str(error).split("execerror: ")[1][:23])
        handler = h.FInitializeHandler(lambda: h.CVode().event(0.5, lambda: 1 / 0))
        try:
            h.run()  # by NEURON
        except RuntimeError as error:
            results["raised"] = str(error)
        del handler
    return results


if __name__ == "__main__":
    what, engine = sys.argv[1:]
    print(json.dumps({"ways": ways, "nesting": nesting, "refusals": refusals}[what](engine)))
