"""Building kernels: one build per context and spec, readable errors, optional dumps."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from clhines.errors import BuildError, InputError
from clhines.pocl import name_processor
from clhines.render import render

_BUILT: WeakKeyDictionary[cl.Context, dict[Any, cl.Program]] = WeakKeyDictionary()
_LOCK = threading.Lock()
_SCALARS = {"i": np.int32, "l": np.int64, "u": np.uint64, "f": np.float32, "d": np.float64}
build_seconds: list[float] = []  # wall time of each build of this process, in order


def build(context: cl.Context, spec: Any, source: str | None = None) -> cl.Program:
    """Build the kernels of a spec, once per context.

    Parameters
    ----------
    context : pyopencl.Context
    spec : frozen dataclass
        Rendered by `render.render`; the cache key.
    source : str, optional
        Use this text instead of rendering the spec (nothing is cached then).

    Raises
    ------
    BuildError
        With the compiler's log and the numbered generated source.
    """
    if source is not None:
        return _compile(context, source, spec)
    with _LOCK:  # several devices may ask from threads of their own
        built = _BUILT.setdefault(context, {})
        if spec not in built:
            built[spec] = _compile(context, render(spec), spec)
        return built[spec]


def typed_kernel(built: cl.Program, name: str, types: str) -> cl.Kernel:
    """Return a kernel that knows the types of its arguments, for what is launched often.

    pyopencl sets a number of unknown type only after trying it as an array: ten times slower.

    Parameters
    ----------
    built : pyopencl.Program
    name : str
    types : str
        A letter an argument: ``b`` buffer, ``i`` int, ``l`` long, ``u`` ulong, ``f`` float,
        ``d`` double.
        Arguments after the last letter are buffers.
    """
    kernel = cl.Kernel(built, name)
    types = types.ljust(kernel.num_args, "b")
    kernel.set_scalar_arg_dtypes([_SCALARS.get(letter) for letter in types])
    return kernel


class BoundKernel:
    """A kernel and all its arguments, of which a few change from launch to launch.

    Parameters
    ----------
    built : pyopencl.Program
    name : str
    arguments : sequence of pyopencl arrays and NumPy scalars
        Of the types that the kernel has; they are kept, which a kernel does not do.
    """

    def __init__(self, built: cl.Program, name: str, arguments: Sequence[Any]) -> None:
        letters = {scalar: letter for letter, scalar in _SCALARS.items()}
        types = "".join(letters.get(type(a), "b") for a in arguments)
        self._kernel = typed_kernel(built, name, types)
        self._arguments = list(arguments)

    def __setitem__(self, place: int, argument: Any) -> None:
        self._arguments[place] = argument

    def launch(
        self,
        queue: cl.CommandQueue,
        items: int,
        work_group: int,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event:
        """Enqueue the kernel with its arguments as they are now, after some events."""
        given = [a.data if isinstance(a, cla.Array) else a for a in self._arguments]
        self._kernel.set_args(*given)
        return cl.enqueue_nd_range_kernel(
            queue, self._kernel, (items,), (work_group,), wait_for=wait_for
        )


def _compile(context: cl.Context, source: str, spec: Any) -> cl.Program:
    dump = os.environ.get("CLHINES_DUMP")
    if dump:
        digest = hashlib.sha256(source.encode()).hexdigest()[:12]
        try:
            Path(dump).mkdir(parents=True, exist_ok=True)
            (Path(dump) / f"{spec.template}-{digest}.cl").write_text(source, "utf-8")
        except OSError as error:
            raise InputError(f"CLHINES_DUMP={dump}: cannot be written: {error.strerror}") from error
    for device in context.devices:
        name_processor(device)
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():  # drivers chat even when all is well
            warnings.simplefilter("ignore", cl.CompilerWarning)
            program = cl.Program(context, source).build(list(getattr(spec, "build_options", ())))
    except cl.Error as error:
        numbered = "\n".join(f"{k:4d}  {s}" for k, s in enumerate(source.splitlines(), 1))
        raise BuildError(
            f"kernel of {spec} did not build on {context.devices[0].name.strip()}\n"
            f"{error}\n{numbered}"
        ) from error
    build_seconds.append(time.perf_counter() - begin)
    return program
