"""Ion styles: how concentrations and reversal potentials go, in each segment.

hoc shows the style of a section's first segment; a point process changes that of its own.
"""

from __future__ import annotations

import ctypes

from clhines.neuron.contents import Contents
from clhines.neuron.memory import Memory
from clhines.neuron.objects import POINTER
from clhines.neuron.raw import words_at
from clhines.neuron.session import Hoc


def read_styles(h: Hoc, memory: Memory, contents: Contents) -> None:
    """Set the style of each ion in each segment.

    Raises
    ------
    OSError
        NEURON's memory is not as expected.
    """
    node = memory.symbol("_Z10node_exactP7Sectiond")
    node.argtypes, node.restype = [ctypes.c_void_p, ctypes.c_double], ctypes.c_void_p
    ion_at = memory.symbol("_Z13nrn_mechanismiP4Node")
    ion_at.argtypes, ion_at.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    places = memory.symbol("_Z28_nrn_mechanism_access_dparamP4Prop")
    places.argtypes, places.restype = [ctypes.c_void_p], ctypes.c_void_p
    for name, ion in contents.ions.items():
        style, seen = [], set[Hoc]()
        for segment in ion.instances.things:
            section = words_at(id(segment.sec), 3)[2]
            data = ion_at(ion.instances.entry.number, node(section, segment.x))
            if not data:
                raise OSError(f"{name} of {segment} is not found")
            begin = words_at(places(data), 1)[0]
            style.append(words_at(begin, POINTER + 1)[POINTER] & 0xFFFFFFFF)
            if segment.sec not in seen and style[-1] != int(h.ion_style(name, sec=segment.sec)):
                raise OSError(f"the style of {name} is not as expected")
            seen.add(segment.sec)
        ion.style[:] = style
