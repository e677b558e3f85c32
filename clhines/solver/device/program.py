"""Build kernels once per context and spec, with readable errors; set their arguments by name."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyopencl as cl

from clhines.core.errors import BuildError, DeviceError, InputError
from clhines.core.progress import phase
from clhines.solver.device import caches, declarations, devices
from clhines.solver.device.guard import check_process
from clhines.solver.device.pocl import name_processor, warns_of_vectors
from clhines.solver.plan.kernel_spec import TemplateSpec
from clhines.solver.plan.templates import render

MOST_CONTEXTS = 8  # callers' contexts whose programs are kept: a program keeps its context alive
MOST_PROGRAMS = 256  # programs that are kept per context
# the last used is the last
_BUILT: OrderedDict[cl.Context, OrderedDict[TemplateSpec, cl.Program]] = OrderedDict()
_LOCK = threading.Lock()
_log = logging.getLogger(__name__)
_SCALARS = {"int": np.int32, "long": np.int64, "double": np.float64}  # types of scalar arguments
build_seconds: list[float] = []  # wall time of each build in this process


def build(
    context: cl.Context, spec: TemplateSpec, source: str | None = None, more: str = ""
) -> cl.Program:
    """Build a spec's kernels once per context; if `source` is set, build that in each call.

    The first call appends `more` to the source.
    """
    check_process()
    if source is not None:
        return _compile(context, source, spec)
    with _LOCK:  # several devices may build in threads
        built = _BUILT.setdefault(context, OrderedDict())
        if spec not in built:
            built[spec] = _compile(context, render(spec) + more, spec)
        else:
            _log.debug("kernel %s was built before in this process", spec.template)
            if os.environ.get("CLHINES_DUMP"):
                _dump(render(spec), spec)
        _BUILT.move_to_end(context)
        built.move_to_end(spec)
        foreign = [c for c in _BUILT if not devices.keeps(c)]
        for old in foreign[: max(0, len(foreign) - MOST_CONTEXTS)]:
            del _BUILT[old]
        if len(built) > MOST_PROGRAMS:
            built.popitem(last=False)
        return built[spec]


def kept(context: cl.Context) -> list[cl.Program]:
    """Return the cached programs of a context, the last used one last."""
    with _LOCK:
        return list(_BUILT.get(context, {}).values())


def forget() -> None:
    with _LOCK:
        _BUILT.clear()


class Kernel(cl.Kernel):
    """A kernel that shows its first launch, in which PoCL compiles, as a phase of the program.

    `types` are the types of its arguments, None for buffers: pyopencl sets typed numbers faster.
    """

    def __init__(self, built: cl.Program, name: str, types: Sequence[type | None]) -> None:
        super().__init__(built, name)
        self.set_scalar_arg_dtypes(types)
        self._launched: set[str] = built.__dict__.setdefault("launched", set())
        platform = self.context.devices[0].platform.name
        self.fresh = "Portable Computing" in platform and name not in self._launched

    def launched(self, event: cl.Event) -> None:
        """Note the first launch, of this `event`; to be called only while `fresh` is set."""
        self.fresh = False
        self._launched.add(self.function_name)
        phase("compiling kernels")

    def __call__(self, *args: object, **kwargs: object) -> cl.Event:
        event = super().__call__(*args, **kwargs)
        if self.fresh:
            self.launched(event)
        return event


def kernel_of(context: cl.Context, spec: TemplateSpec, name: str) -> Kernel:
    types = [_SCALARS.get(p.type) for p in spec.parameters(name)]
    return Kernel(build(context, spec), name, types)


class NamedKernel:
    """A kernel whose arguments are set by name; `usual` has those that all launches share."""

    def __init__(
        self, context: cl.Context, spec: TemplateSpec, name: str, usual: Mapping[str, object]
    ) -> None:
        self.built, self._usual = kernel_of(context, spec, name), dict(usual)
        self._names = [p.name for p in spec.parameters(name)]

    def bind(self, arguments: Mapping[str, object]) -> None:
        by_name = {**self._usual, **arguments}
        self.built.set_args(*(by_name[name] for name in self._names))

    def launch(
        self,
        queue: cl.CommandQueue,
        arguments: Mapping[str, object],
        size: tuple[int, ...],
        group: tuple[int, ...],
        waits: Sequence[cl.Event] = (),
    ) -> cl.Event:
        self.bind(arguments)
        event = cl.enqueue_nd_range_kernel(queue, self.built, size, group, wait_for=waits or None)
        if self.built.fresh:
            self.built.launched(event)
        return event


def _dump(source: str, spec: TemplateSpec) -> None:
    folder = os.environ.get("CLHINES_DUMP")
    if not folder:
        return
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{Path(spec.template).name}-{digest}.cl").write_text(source, "utf-8")
    except OSError as error:
        raise InputError(f"CLHINES_DUMP={folder}: cannot be written: {error.strerror}") from error


def _named(spec: TemplateSpec) -> str:
    return str(getattr(spec, "template", "a source"))


def _compile(context: cl.Context, source: str, spec: TemplateSpec) -> cl.Program:
    _dump(source, spec)
    options = list(getattr(spec, "build_options", ()))
    for device in context.devices:
        name = name_processor(device)
        if name is not None:
            _log.info("PoCL does not know this processor; kernels are built for %s", name)
            options.append("-D NAMED")  # not a cached program that ``generic`` has built
        caches.before_build(device)
    if any(warns_of_vectors(device, source) for device in context.devices):
        options.append("-w")  # PoCL prints a warning count on stderr
    _log.debug("building %s", _named(spec))
    phase(f"building kernels, {len(build_seconds)} done")
    begin = time.perf_counter()
    try:
        program = _build(context, source, options)
    except cl.Error as error:
        numbered = "\n".join(f"{k:4d}  {s}" for k, s in enumerate(source.splitlines(), 1))
        raise BuildError(
            f"kernel of {str(spec)[:500]} did not build on {context.devices[0].name.strip()}\n"
            f"{error}\n{numbered}"
        ) from error
    build_seconds.append(time.perf_counter() - begin)
    for device in context.devices:
        said = program.get_build_info(device, cl.program_build_info.LOG).strip()
        if said:
            _log.debug("the compiler says: %s", said)
    _log.info("built kernel %s in %.3f s", _named(spec), build_seconds[-1])
    return program


def _build(context: cl.Context, source: str, options: list[str]) -> cl.Program:
    pocl = "PoCL" in context.devices[0].version
    text, guard = declarations.minimal(context.devices[0], source)
    for turn in range(3):  # other processes use the cache, too
        try:
            with warnings.catch_warnings():  # some drivers warn in every build
                warnings.simplefilter("ignore", cl.CompilerWarning)
                program = cl.Program(context, text).build(options + guard)
        except cl.Error as error:
            if guard and "error:" in str(error):  # it may build with all declarations
                text, guard = source, []
                continue
            if not pocl or turn == 2 or "error:" in str(error):  # the compiler's own error
                raise
            _log.info("PoCL did not build and says no reason; once more: %s", error)
            continue
        if not pocl or program.num_kernels:
            return program
        _log.info("removed a program from PoCL's cache, %s: unreadable", caches.pocl_folder())
        # never release the context: PoCL aborts if one of its programs was unreadable
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(context))
        caches.drop_last()
    raise DeviceError(f"PoCL cannot read its cache, {caches.pocl_folder()}: remove that folder")
