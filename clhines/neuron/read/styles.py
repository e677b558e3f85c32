"""Ion styles: how concentrations and reversal potentials go, in each segment.

hoc shows the style of the segment of a section that is next to its parent; a point process changes
that of its own segment.
"""

from __future__ import annotations

import ctypes

from clhines.neuron.memory.memory import Memory
from clhines.neuron.memory.objects import POINTER
from clhines.neuron.memory.raw import words_at
from clhines.neuron.memory.session import Hoc
from clhines.neuron.read.contents import Contents


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
        of_section: dict[Hoc, list[int]] = {}
        for segment in ion.instances.things:
            section = words_at(id(segment.sec), 3)[2]
            data = ion_at(ion.instances.entry.number, node(section, segment.x))
            if not data:
                raise OSError(f"{name} of {segment} is not found")
            begin = words_at(places(data), 1)[0]
            style = words_at(begin, POINTER + 1)[POINTER] & 0xFFFFFFFF
            of_section.setdefault(segment.sec, []).append(style)
        for sec, styles in of_section.items():  # hoc's is of the segment next to the parent
            near = styles[-1] if h.section_orientation(sec=sec) else styles[0]
            if near != int(h.ion_style(name, sec=sec)):
                raise OSError(f"the style of {name} in {sec} is not as expected")
        ion.style[:] = [style for styles in of_section.values() for style in styles]
