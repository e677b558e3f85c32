"""Adapters for frameworks whose Python code runs in each step.

`bmtk`: BMTK's modules; `potentials`: LFPy's probes and NetPyNE's LFP, and the table of replaced
functions; `fibers`: PyFibers' runs.
"""

from typing import Any


def private(thing: Any, name: str) -> Any:
    """Return the attribute ``_NAME`` of a framework's object."""
    return getattr(thing, f"_{name}")
