"""Export a plan to files: kernels, tables and a manifest, for programs without Python.

`manifest.json` has its keys in a fixed order, so that a program can read it word by word: first the
properties of plan and device, then `buffers`, `kernels`, and `launches` in the order in which they
are enqueued. An argument of a launch is a number, an int of 32 bits, or the name of a buffer. A
buffer without a file starts with zeros. The buffers `d`, `u`, `l`, `b` and `x` are in device order:
``packed[i] = natural[gather[i]]``, or 0 if ``gather[i]`` is -1. `status` has 0 for each cell whose
pivots are good.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import clhines
from clhines.core.checks import as_switch
from clhines.core.errors import InputError, shown
from clhines.core.files import PathLike, path_text, whole, write_text
from clhines.solver.plan.kernel_spec import KernelSpec, TemplateSpec
from clhines.solver.plan.templates import render

FORMAT = 1  # manifest version
METHODS = ("flat", "interleaved", "fine", "contraction")
_REDUCED = ("rest_d", "rest_u", "rest_l", "rest_b", "rest_x")  # arrays for a reduced system


def write_plan(
    plan: Any,  # a `Plan`, whose module imports this one
    folder: PathLike,
    symmetric: bool = True,
    device: tuple[str, str] = ("", ""),
    binary: Callable[[TemplateSpec], bytes] | None = None,
) -> None:
    """Write the files of a plan into a folder; see `Plan.export`.

    `device` is the device's name and the version of its driver; `binary` compiles a spec for it.
    """
    if plan.method not in METHODS:
        raise InputError(
            f"a plan of method {shown(plan.method)} cannot be exported; expected "
            f"{', '.join(METHODS)}"
        )
    symmetric, place = as_switch("symmetric", symmetric), _made(folder)
    specs = [part.solve_spec(symmetric, 1) for part in plan.parts]
    kinds = list(dict.fromkeys(specs))
    buffers = [
        _written(place, name, values) if isinstance(values, np.ndarray) else _empty(name, values)
        for name, values in _buffers(plan, specs, symmetric)
    ]
    kernels = []
    for k, spec in enumerate(kinds):
        source, compiled = f"kernel{k}.cl", f"kernel{k}.bin" if binary else ""
        write_text(place / source, render(spec))
        if binary:
            _write(place / compiled, binary(spec))
        kernels.append({"source": source, "binary": compiled, "function": "solve"})
    manifest = {
        "format": FORMAT,
        "clhines": clhines.__version__,
        "method": plan.method,
        "device": device[0],
        "driver": device[1],
        "real": plan.parts[0].spec.real,
        "cells": plan.forest.num_cells,
        "nodes": plan.forest.num_nodes,
        "values": len(plan.gather),
        "buffers": buffers,
        "kernels": kernels,
        "launches": list(_launches(plan, specs, [kinds.index(spec) for spec in specs])),
    }
    write_text(place / "manifest.json", json.dumps(manifest, indent=1) + "\n")


def _made(folder: PathLike) -> Path:
    try:
        place = Path(os.fsdecode(folder))
        place.mkdir(parents=True, exist_ok=True)
    except TypeError as error:
        raise InputError(f"folder is {shown(folder)}; expected a path") from error
    except (OSError, ValueError) as error:  # a null character
        raise InputError(f"folder {path_text(folder)} cannot be made: {error}") from error
    return place


def _write(path: Path, data: bytes) -> None:
    with whole(path) as file:
        file.write(data)


def _written(place: Path, name: str, values: np.ndarray) -> dict[str, object]:
    file = name.replace("/", "-") + ".int32"
    values = values if values.size else np.zeros(1)
    _write(place / file, values.astype("<i4").tobytes())
    return {"name": name, "bytes": 4 * values.size, "file": file}


def _empty(name: str, size: int) -> dict[str, object]:
    return {"name": name, "bytes": size, "file": ""}


def _buffers(
    plan: Any, specs: Sequence[KernelSpec], symmetric: bool
) -> Iterator[tuple[str, np.ndarray | int]]:
    """Yield the name of each buffer with its values (tables) or its size in bytes (arrays)."""
    yield "parent", plan.forest.parent
    yield "gather", plan.gather
    for k, part in enumerate(plan.parts):
        for name in specs[k].roles():
            yield f"{k}/{name}", part.tables[name]
    itemsize = 8 if specs[0].real == "double" else 4
    names = [name for name in "dulbx" if name != "l" or not symmetric]
    for name in names:
        yield name, itemsize * len(plan.gather)
    if any(spec.needs_factor for spec in specs):
        yield "factor", itemsize * len(plan.gather)
    yield "status", 4 * plan.forest.num_cells
    for k, size in enumerate(plan.scratch, 1):
        for name in names:
            yield f"reduced{k}/{name}", itemsize * max(size, 1)


def _launches(
    plan: Any, specs: Sequence[KernelSpec], kernels: Sequence[int]
) -> Iterator[dict[str, object]]:
    for k, (part, spec) in enumerate(zip(plan.parts, specs, strict=True)):
        here = f"reduced{part.source}/" if part.source else ""
        arrays = [
            f"reduced{part.target}/{name[-1]}" if name in _REDUCED
            else name if name in ("factor", "status")
            else here + name
            for name in spec.arrays()
        ]  # fmt: skip
        tables = [f"{k}/{name}" for name in spec.roles()]
        for argument, groups in part.launches:
            numbers = argument, len(plan.gather), 0
            yield {
                "kernel": kernels[k],
                "items": groups * spec.work_group,
                "group": spec.work_group,
                "arguments": [*map(int, numbers), *tables, *arrays],
            }
