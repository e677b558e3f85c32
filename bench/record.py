"""The record of a run (command, device, versions, seed, commit) and the files of its results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import clhines
from bench import table
from clhines.solver.device import devices

RESULTS = Path(__file__).parent / "results"
SEED = 2018

Draw = Callable[[dict[str, Any], Path], None]


def parser(name: str, doc: str, device: bool = True) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(f"python -m bench {name}", description=doc.splitlines()[0])
    if device:
        made.add_argument("--device", help="index, or part of the name; see `clhines devices`")
    made.add_argument("--out", default=str(RESULTS), metavar="FOLDER", help="of the results")
    return made


def queue(
    device: str | None, dtypes: Sequence[str] = (), timestamps: bool = True
) -> cl.CommandQueue:
    needed = np.float64 if "float64" in dtypes else np.float32
    return devices.make_queue(devices.choose(device, needed), timestamps)


def record(queue: cl.CommandQueue | None, name: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Return everything needed to read a result, and the command that produces it.

    Parameters
    ----------
    queue : pyopencl.CommandQueue or None
        None if the measure uses no device.
    name : str
        Name of the measure.
    arguments : sequence of str
        Its command line. ``--out`` is dropped, and absolute paths, which differ between machines,
        are cut to their last part.
    """
    words = list(arguments)
    if "--out" in words:
        k = words.index("--out")
        del words[k : k + 2]
    words = [Path(word).name if os.path.isabs(word) else word for word in words]
    entries = {"command": f"python -m bench {shlex.join([name, *words])}"}
    if queue is not None:
        device = queue.device
        entries |= {
            "device": device.name.strip(),
            "platform": device.platform.name.strip(),
            "driver": device.driver_version,
            "opencl": device.version.strip(),
            "compute_units": device.max_compute_units,
        }
    return {
        **entries,
        "host_cores": os.cpu_count(),
        "clhines": clhines.__version__,
        "pyopencl": cl.VERSION_TEXT,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "seed": SEED,
        "commit": os.environ.get("CLHINES_COMMIT") or _commit(),
    }


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    folder = Path(__file__).parent
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def slug(device: cl.Device) -> str:
    """Return a file name's part that stands for a device."""
    name = re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-")
    platform_name = device.platform.name.lower()
    if "portable" in platform_name:
        name = "pocl-" + name.removeprefix("pthread-").removeprefix("cpu-")
    elif "intel" in platform_name and "intel" not in name:  # its runtime on another's processor
        name = "intel-" + name
    return name


def write(
    name: str,
    queue: cl.CommandQueue | None,
    arguments: Sequence[str],
    result: dict[str, Any],
    text: Callable[[dict[str, Any]], str],
    out: str,
    draw: Draw | None = None,
) -> None:
    """Write the JSON, the text and the picture of a result under `out`, and print the text.

    Parameters
    ----------
    name : str
        Name of the measure, perhaps with further words after a hyphen.
    queue : pyopencl.CommandQueue or None
        Its device names the files and heads the text.
    result : dict
        Its ``record``, if any, is added to the record of the run.
    draw : callable, optional
        ``draw(result, path)`` writes a picture, if matplotlib is installed.
    """
    result = {"record": {}, **result}
    result["record"] = record(queue, name.partition("-")[0], arguments) | result["record"]
    head = f"commit {result['record']['commit']}"
    if queue is not None:
        name, head = f"{name}-{slug(queue.device)}", f"{devices.label(queue.device)}, {head}"
    head = "\n".join(table.wrapped([head]))
    files(Path(out) / f"{name}.json", result, f"{head}\n\n{text(result)}\n", draw)


def files(path: Path, result: dict[str, Any], text: str, draw: Draw | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(lines(result), "utf-8")
    path.with_suffix(".txt").write_text(text, "utf-8")
    print(text, flush=True)
    picture(path, result, draw)


def lines(result: dict[str, Any]) -> str:
    """Return a result as JSON with a line for each row, and for each entry of its record."""
    parts = []
    for name, value in result.items():
        if isinstance(value, dict) and value:
            each = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            text = "{\n" + ",\n".join(each) + "\n }"
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in value) + "\n ]"
        else:
            text = json.dumps(value)
        parts.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def picture(path: Path, result: dict[str, Any], draw: Draw | None) -> None:
    try:
        if draw is not None:
            draw(result, path.with_suffix(".svg"))
    except ImportError as error:
        print(f"no picture: {error}")
