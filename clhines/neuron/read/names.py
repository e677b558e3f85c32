"""Names of variables by place: what a message calls a variable that is not simulated."""

from __future__ import annotations

from clhines.neuron.memory.memory import Memory
from clhines.neuron.memory.raw import Place, ref
from clhines.neuron.memory.session import Hoc

_SCALAR = 5  # of hoc's name_declared
_OF_NETCON = "delay", "threshold"


def name_of(h: Hoc, memory: Memory, place: Place) -> str:
    """Return what users call a variable, as ``i_cap``, ``NetCon[0].weight[1]`` or ``celsius``."""
    owner, name = memory.named(place)
    if name:
        is_structure = owner in ("morphology", "capacitance", "Node") or owner.endswith("_ion")
        return name if is_structure or name.startswith("_") else f"{owner}.{name}"
    for netcon in h.List("NetCon"):
        first = memory.weight_address(netcon) if netcon.wcnt() else 0
        number, rest = divmod(place.column - first, 8)
        if first and not rest and 0 <= number < netcon.wcnt():
            return f"{netcon}.weight[{number}]"
        for variable in _OF_NETCON:
            if memory.place(ref(netcon, variable)).column == place.column:
                return f"{netcon}.{variable}"
    for variable in dir(h):
        if h.name_declared(variable) == _SCALAR and not variable.startswith("_"):
            try:
                if memory.place(ref(h, variable)).column == place.column:
                    return variable
            except (AttributeError, RuntimeError, TypeError, LookupError):
                continue  # of a section, or a number of Python's
    return "a variable without a name in NEURON"
