"""The engine table: how each engine advances a network, and which needs it supports.

`choose` makes them. This module imports no OpenCL, so that the command line can list engines.
"""

from __future__ import annotations

from dataclasses import dataclass

FAMILY = "epochs"  # the device's epoch engine
# functions that make epoch kernels, by column of `_EPOCHS`
_MAKERS = ("gpu.epochs:make", "cpu.blocks:make")
# x: supported; o: not supported. `steps` and `reference` support all.
_EPOCHS = """
                          GPUs   CPUs
grid_times                  x      x
exact_times                 x      x
plastic                     x      x
noise                       x      x
detectors                   x      x
trains                      x      x
played                      x      x
ions                        x      x
random                      x      x
nmodl                       x      x
sent_events                 x      x
single_events               x      x
self_events                 x      x
set_voltages                x      x
weights                     x      x
begins                      x      x
bins                        x      x
artificial_cells            x      x
pointers                    x      x
pointers_in_states          x      x
written_pointers            x      x
instant_events              x      x
instant_between_cells       o      x
read_pointers               x      x
read_elsewhere              o      o
instant_artificial          x      x
ion_order                   x      x
read_currents               x      x
last_instances              x      x
steered_weights             o      o
played_artificial           x      x
ranks                       x      x
ranked_pointers             o      o
diffusion                   x      x
layers                      x      o
solver                      o      o
"""


_MARKS = {word: marks for word, *marks in map(str.split, _EPOCHS.strip().splitlines()[1:])}


@dataclass(frozen=True)
class Engine:
    """An engine's row in the table; `make` names the function that makes its run from a `Job`."""

    name: str
    on: str  # device on which ``auto`` uses it: ``gpu``, ``cpu``, both if empty, ``host``: none
    about: str
    make: str
    limits: str = ""  # further conditions on a network
    anywhere: bool = False  # other devices support it by name

    @property
    def lacks(self) -> frozenset[str]:
        if self.make not in _MAKERS:
            return frozenset()
        column = _MAKERS.index(self.make)
        return frozenset(word for word, marks in _MARKS.items() if marks[column] == "o")

    def supports(self, needs: frozenset[str]) -> bool:
        return needs <= _MARKS.keys() - self.lacks

    def runs_on(self, device: str) -> bool:
        """Whether the engine, chosen by name, runs on a `device`, ``gpu`` or ``cpu``."""
        return self.anywhere or self.on in ("", "host", device)


ALL = frozenset(_MARKS)
ENGINES = (
    Engine(
        "epochs-gpu",
        "gpu",
        "whole cells stay on the chip for as many steps as the smallest delay allows",
        "gpu.epochs:make",
        "a cell fits into a work-group",
        anywhere=True,
    ),
    Engine(
        "epochs-cpu",
        "cpu",
        "whole cells stay in the cache of a core for as many steps as the smallest delay allows",
        "cpu.blocks:make",
    ),
    Engine(
        "steps",
        "",
        "a few kernels per step, cells of any size, any method of the solver",
        "choose:make_steps",
        "no LONGITUDINAL_DIFFUSION",
    ),
    Engine(
        "reference",
        "host",
        "NumPy in float64 on the host, slow, for comparison",
        "choose:make_reference",
    ),
)
NAMES = tuple(engine.name for engine in ENGINES)
CHOICES = ("auto", FAMILY, *NAMES)
