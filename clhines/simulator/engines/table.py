"""The table of engines: how a network can be advanced, and which needs each kernel supports.

`choose` makes them. This module loads nothing else, so that the command line can list the engines
without OpenCL.
"""

from __future__ import annotations

from dataclasses import dataclass

FAMILY = "epochs"  # a name for its engine that fits the device and the network
# Functions that make the kernels of epochs, by column of `_EPOCHS`: on GPUs, of events in whole
# steps and at exact times, and on CPUs, of both
_MAKERS = ("gpu.epochs:make", "gpu.arena_epochs:make", "cpu.blocks:make")
# x: supported; o: not supported; -: a network with such events does not have this need.
# `steps` and `reference` support all.
_EPOCHS = """
                       GPUs, steps   GPUs, times   CPUs
grid_times                  x             -          x
exact_times                 -             x          x
plastic                     x             x          x
noise                       x             x          x
detectors                   x             x          x
trains                      x             x          x
played                      -             x          x
ions                        -             x          x
random                      -             x          x
nmodl                       -             x          x
sent_events                 -             x          x
single_events               -             x          x
self_events                 -             x          x
set_voltages                -             x          x
weights                     -             x          x
begins                      -             x          x
bins                        -             x          x
artificial_cells            -             x          x
pointers                    -             x          x
pointers_in_states          -             x          x
written_pointers            -             x          x
instant_events              -             x          x
instant_between_cells       -             o          x
read_pointers               -             x          x
read_elsewhere              -             o          o
instant_artificial          -             x          x
ion_order                   -             x          x
read_currents               -             x          x
last_instances              -             x          x
steered_weights             -             o          o
played_artificial           -             x          x
ranks                       x             x          x
ranked_pointers             -             o          o
diffusion                   -             x          x
layers                      o             o          o
copies                      -             x          x
solver                      o             o          o
"""


def _columns() -> dict[str, list[str]]:
    """Return the marks of `_EPOCHS` by need."""
    rows = (line.split() for line in _EPOCHS.strip().splitlines()[1:])
    return {word: marks for word, *marks in rows}


_MARKS = _columns()
ALL = frozenset(_MARKS)


@dataclass(frozen=True)
class Kernels:
    """Kernels of an engine: the function ``module:function`` that makes them of a `Job`."""

    make: str
    supported: frozenset[str] = ALL  # needs
    lacks: frozenset[str] = frozenset()  # needs of networks with such events, not supported

    @classmethod
    def of_epochs(cls, make: str) -> Kernels:
        """Return the kernels of a column of `_EPOCHS`."""
        marks = {word: row[_MAKERS.index(make)] for word, row in _MARKS.items()}
        having = {mark: frozenset(w for w, m in marks.items() if m == mark) for mark in "xo"}
        return cls(make, having["x"], having["o"])


@dataclass(frozen=True)
class Engine:
    """A way to advance a network, by the first of its `kernels` that support it."""

    name: str
    on: str  # where ``auto`` takes it: a ``gpu``, a ``cpu``, both if empty, or nowhere: ``host``
    about: str
    kernels: tuple[Kernels, ...]
    limits: str = ""  # what else a network must be
    anywhere: bool = False  # it can be asked for by name on other devices

    def kernels_for(self, needs: frozenset[str]) -> Kernels | None:
        """Return the kernels for a network; None if none support it."""
        return next((kernels for kernels in self.kernels if needs <= kernels.supported), None)

    def lacks(self, needs: frozenset[str]) -> frozenset[str]:
        """Return which needs keep it from a network: the fewest of its kernels."""
        return min((needs - kernels.supported for kernels in self.kernels), key=len)

    def runs_on(self, device: str) -> bool:
        """Whether a device, ``gpu`` or ``cpu``, is one that it can be asked for on."""
        return self.anywhere or self.on in ("", "host", device)


_OF_GPUS, _OF_CPUS = (
    tuple(Kernels.of_epochs(make) for make in _MAKERS if make.startswith(folder))
    for folder in ("gpu", "cpu")
)
ENGINES = (
    Engine(
        "epochs-gpu",
        "gpu",
        "whole cells stay on the chip for as many steps as the smallest delay allows",
        _OF_GPUS,
        "a cell fits into a work-group",
        anywhere=True,
    ),
    Engine(
        "epochs-cpu",
        "cpu",
        "whole cells stay in the cache of a core for as many steps as the smallest delay allows",
        _OF_CPUS,
    ),
    Engine(
        "steps",
        "",
        "a few kernels per step, cells of any size, any method of the solver",
        (Kernels("choose:make_steps"),),
    ),
    Engine(
        "reference",
        "host",
        "NumPy in float64 on the host, slow, for comparison",
        (Kernels("choose:make_reference"),),
    ),
)
NAMES = tuple(engine.name for engine in ENGINES)
CHOICES = ("auto", FAMILY, *NAMES)
