"""NEURON's translator of .mod files, which nrnivmodl calls first."""

import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path

SECONDS = 5
# It may take all there is for a text that is wrong: KiB of memory, seconds, blocks of 512 bytes.
# A shell sets the limits: a function of Python's would make each call copy the tables of its pages.
LIMITED = f'ulimit -v {1 << 20}; ulimit -t {SECONDS}; ulimit -f {1 << 17}; exec "$@"'


def folder():
    """Return NEURON's folder of programs and files, None if NEURON is not installed."""
    spec = importlib.util.find_spec("neuron")
    path = Path(spec.origin).parent / ".data" if spec and spec.origin else None
    return path if path is not None and (path / "bin" / "nocmodl").is_file() else None


def takes(text, name="one", beside=()):
    """Return whether the translator accepts a text; `beside` are files that it may include."""
    data = folder()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"{name}.mod"
        path.write_text(text, "utf-8")
        for other in beside:
            (Path(place) / other.name).write_bytes(other.read_bytes())
        home = {"NRNHOME": str(data), "NMODLHOME": str(data), "NEURONHOME": str(data / "share/nrn")}
        done = subprocess.run(
            ["sh", "-c", LIMITED, "sh", str(data / "bin" / "nocmodl"), str(path), "-o", place],
            cwd=place, check=False, capture_output=True, timeout=20 * SECONDS,
            env={**os.environ, **home, "MODLUNIT": str(data / "share/nrn/lib/nrnunits.lib")},
        )  # fmt: skip
    return done.returncode == 0
