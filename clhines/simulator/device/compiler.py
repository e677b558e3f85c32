"""Load PoCL's compiler while a model is read."""

from __future__ import annotations

import threading
from contextlib import suppress

import pyopencl as cl

from clhines.core.errors import ClhinesError
from clhines.solver.device import caches, declarations, devices
from clhines.solver.device.pocl import name_processor
from clhines.solver.device.program import build_seconds

_SMALL = "__kernel void of_{}(__global float *x) {{ x[0] = exp(x[0]); }}"


def load_compiler(device: object, name: str) -> threading.Thread | None:
    """Load PoCL's compiler in a thread, before the first program is built.

    A process's first program takes about 0.4 s of a core longer, because PoCL loads its compiler.
    The thread builds a small program whose kernel contains the model's `name`. If PoCL has this
    program in its cache, it mostly has the model's programs, too, and needs no compiler. The result
    is None for other platforms, and if the process has already built a program.
    """
    if build_seconds or not (device is None or isinstance(device, str | cl.Device)):
        return None
    with suppress(ClhinesError, cl.Error):  # reported again when the device is used
        chosen = devices.choose(device)
        if devices.is_cpu(chosen) and "Portable Computing" in chosen.platform.name:
            context = devices.context_of(chosen)
            name_processor(chosen)
            caches.before_build(chosen)
            thread = threading.Thread(target=_build_small, args=(context, _SMALL.format(name)))
            thread.start()
            return thread
    return None


def _build_small(context: cl.Context, source: str) -> None:
    text, options = declarations.minimal(context.devices[0], source)
    with suppress(cl.Error):
        cl.Program(context, text).build(options)
