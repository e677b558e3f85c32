"""Building kernels: one build per context and spec, readable errors, optional dumps."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyopencl as cl

from clhines.errors import BuildError, InputError
from clhines.pocl import name_processor
from clhines.render import render

_BUILT: WeakKeyDictionary[cl.Context, dict[Any, cl.Program]] = WeakKeyDictionary()
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
        A letter an argument: ``b`` buffer, ``i`` int, ``l`` long, ``f`` float, ``d`` double.
        Arguments after the last letter are buffers.
    """
    kernel = cl.Kernel(built, name)
    codes = {"i": np.int32, "l": np.int64, "f": np.float32, "d": np.float64}
    types = types.ljust(kernel.num_args, "b")
    kernel.set_scalar_arg_dtypes([codes.get(letter) for letter in types])
    return kernel


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
