"""The table of engines: how a network can be advanced, and which networks each engine takes.

`choose` makes them. This module loads nothing else, so that the command line can list the engines
without OpenCL.
"""

from __future__ import annotations

from dataclasses import dataclass

_STEPS = frozenset({"grid_times", "plastic", "noise", "detectors", "trains", "ranks"})
_TIMES = frozenset(
    {
        *("exact_times", "noise", "detectors", "trains", "played", "ions", "random", "nmodl"),
        *("sent_events", "single_events", "self_events", "weights", "begins"),
    }
)
_CELLS = frozenset({"artificial_cells", "pointers", "instant_events", "ion_order", "read_currents"})
ALL = _STEPS | _TIMES | _CELLS | {"bins", "played_artificial", "no_cells", "copies", "solver"}
FAMILY = "epochs"  # a name for its engine that fits the device and the network


@dataclass(frozen=True)
class Engine:
    """A way to advance a network.

    Attributes
    ----------
    name : str
        What users call it, and what `Simulation.engine` is.
    make : str
        ``module:function`` of `clhines.simulate`, which makes its run of an `engines.run.Job`.
    on : str
        Where ``auto`` takes it: ``gpu``, ``cpu``, or nothing for both; ``host``: nowhere.
    takes : frozenset of str
        Needs of networks, see `clhines.model.needs`.
    about : str
    limits : str
        What else a network must be.
    late : bool
        Whether kernels are built when they are first launched; where the device then does not take
        them, `auto` goes on by steps.
    anywhere : bool
        Whether it can be asked for by name on other devices, which have known answers of it too.
    named : frozenset of str
        Needs that it takes too where it is asked for by name.
    """

    name: str
    make: str
    on: str
    takes: frozenset[str]
    about: str
    limits: str = ""
    late: bool = False
    anywhere: bool = False
    named: frozenset[str] = frozenset()

    @property
    def lacks(self) -> frozenset[str]:
        """Needs that another engine takes."""
        return ALL - self.takes - self.named

    def runs_on(self, device: str) -> bool:
        """Whether a device, ``gpu`` or ``cpu``, is one that it can be asked for on."""
        return self.anywhere or self.on in ("", "host", device)


ENGINES = (
    Engine(
        "epochs-gpu",
        "gpu.epochs:make",
        "gpu",
        _STEPS,
        "whole cells stay on the chip for as many steps as the smallest delay allows",
        "a cell fits into a work-group",
    ),
    Engine(
        "epochs-gpu-exact",
        "gpu.exact_epochs:make",
        "gpu",
        _TIMES | {"bins", "plastic"},
        "the same, with events at exact times",
        "a cell fits into a work-group",
        late=True,
        anywhere=True,
        named=frozenset({"grid_times"}),
    ),
    Engine(
        "epochs-cpu",
        "cpu.vectors:make",
        "cpu",
        _STEPS,
        "whole cells side by side in vectors, as many steps as the smallest delay allows",
    ),
    Engine(
        "epochs-cpu-exact",
        "cpu.blocks:make",
        "cpu",
        _TIMES | _CELLS | {"plastic"},
        "blocks of whole cells, each on one core for many steps, with events at exact times",
        "auto: expected to be faster than steps",
        named=frozenset({"grid_times"}),
    ),
    Engine(
        "steps",
        "engines.choose:make_steps",
        "",
        ALL,
        "a few kernels per step, cells of any size, any method of the solver",
    ),
    Engine(
        "reference",
        "engines.choose:make_reference",
        "host",
        ALL,
        "NumPy in float64 on the host, slow, for comparison",
    ),
)
NAMES = tuple(engine.name for engine in ENGINES)
CHOICES = ("auto", FAMILY, *NAMES)
MISSING = {
    "epochs-gpu of cells larger than a work-group": "a step would wait for several work-groups, "
    "and OpenCL has no barrier for them",
    "epochs-gpu-exact with pointers or artificial cells": "both act between work-groups within a "
    "step",
    "epochs-gpu-exact and epochs-cpu-exact on several ranks": "a launch would end where events of "
    "other ranks are due; the exchange is written for steps alone",
    "epochs-gpu-exact and epochs-cpu-exact with copies of one network": "their tables list every "
    "instance; only those of steps are repeated on the device",
    "epochs-gpu and epochs-cpu of everything": "what has ions, exact times or played values takes "
    "other kernels, which keep all instances in lists; on CPUs these take about twice the time",
}
