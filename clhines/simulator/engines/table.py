"""The table of engines: how a network can be advanced, and which networks each engine takes.

`choose` makes them. This module loads nothing else, so that the command line can list the engines
without OpenCL.
"""

from __future__ import annotations

from dataclasses import dataclass

_STEPS = frozenset({"grid_times", "plastic", "noise", "detectors", "trains", "ranks"})
_TIMES = frozenset(
    {
        *("exact_times", "plastic", "noise", "detectors", "trains", "played", "ions", "random"),
        *("nmodl", "sent_events", "single_events", "self_events", "weights", "begins"),
        "set_voltages",
    }
)
_LOOSE = frozenset(
    {
        *("artificial_cells", "instant_artificial", "ion_order", "pointers", "pointers_in_states"),
        *("instant_events", "read_currents", "written_pointers"),
    }
)
_CELLS = _LOOSE | {"instant_between_cells"}
# which epochs do not take
_BY_STEPS = frozenset(
    {"ranked_pointers", "last_instances", "diffusion", "read_pointers", "steered_weights"}
)
_OF_TIMES = _BY_STEPS | {"ranks", "bins", "played_artificial", "copies"}
ALL = _STEPS | _TIMES | _CELLS | _OF_TIMES | {"solver", "layers"}
FAMILY = "epochs"  # a name for its engine that fits the device and the network


@dataclass(frozen=True)
class Kernels:
    """Kernels of an engine, made of a `Job` by ``module:function``, and needs that they take."""

    make: str
    takes: frozenset[str]

    @property
    def lacks(self) -> frozenset[str]:
        """Needs that other engines take of networks whose events are delivered like that."""
        exact = "exact_times" in self.takes
        return ALL - self.takes - ({"grid_times"} if exact else _TIMES | _CELLS | _OF_TIMES)


@dataclass(frozen=True)
class Engine:
    """A way to advance a network, by the first of its `kernels` that take it."""

    name: str
    on: str  # where ``auto`` takes it: a ``gpu``, a ``cpu``, both if empty, or nowhere: ``host``
    about: str
    kernels: tuple[Kernels, ...]
    limits: str = ""  # what else a network must be
    anywhere: bool = False  # it can be asked for by name on other devices

    def kernels_for(self, needs: frozenset[str]) -> Kernels | None:
        """Return the kernels for a network; None where none take it."""
        return next((kernels for kernels in self.kernels if needs <= kernels.takes), None)

    def lacks(self, needs: frozenset[str]) -> frozenset[str]:
        """Return which needs keep it from a network: the fewest of its kernels."""
        return min((needs - kernels.takes for kernels in self.kernels), key=len)

    def runs_on(self, device: str) -> bool:
        """Whether a device, ``gpu`` or ``cpu``, is one that it can be asked for on."""
        return self.anywhere or self.on in ("", "host", device)


ENGINES = (
    Engine(
        "epochs-gpu",
        "gpu",
        "whole cells stay on the chip for as many steps as the smallest delay allows",
        (
            Kernels("gpu.epochs:make", _STEPS),
            Kernels("gpu.arena_epochs:make", _TIMES | _LOOSE | _OF_TIMES - _BY_STEPS),
        ),
        "a cell fits into a work-group",
        anywhere=True,
    ),
    Engine(
        "epochs-cpu",
        "cpu",
        "whole cells stay in the cache of a core for as many steps as the smallest delay allows",
        (
            Kernels("cpu.vectors:make", _STEPS),
            Kernels("cpu.blocks:make", _TIMES | _CELLS | _OF_TIMES - _BY_STEPS),
        ),
    ),
    Engine(
        "steps",
        "",
        "a few kernels per step, cells of any size, any method of the solver",
        (Kernels("choose:make_steps", ALL),),
    ),
    Engine(
        "reference",
        "host",
        "NumPy in float64 on the host, slow, for comparison",
        (Kernels("choose:make_reference", ALL),),
    ),
)
NAMES = tuple(engine.name for engine in ENGINES)
CHOICES = ("auto", FAMILY, *NAMES)
