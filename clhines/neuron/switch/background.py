"""Compile kernels for later calls in a child process, while NEURON takes the present call.

A model's first call on the device compiles kernels, and the first use of a NEURON version runs its
self-test. If later calls would profit, a child process does both and leaves the results in the
caches. The child gets the network in a file and never sees the script's NEURON. When the script
ends, it kills the child; if it cannot, the child ends itself at the end of its standard input.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clhines.core import files
from clhines.core.errors import InputError
from clhines.neuron.calls import RunOptions
from clhines.neuron.memory.versions import child_command, supported

if TYPE_CHECKING:
    import subprocess

_STEPS = 3  # the child's steps, enough to launch each kernel
_NICE = 19  # lowest priority


class BackgroundWork:
    """A script's child process, which tests NEURON or compiles kernels; at most one at a time."""

    def __init__(self) -> None:
        self._owner = os.getpid()  # a forked process starts no child
        self._process: subprocess.Popen[bytes] | None = None
        self._file: Path | None = None
        self._finish: Callable[[], object] = bool
        self._is_tested = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and os.getpid() == self._owner

    @property
    def can_start(self) -> bool:
        return self._process is None and os.getpid() == self._owner

    def check(self) -> None:
        """Call the child's `finish` function if the child has ended without an error."""
        if self._process is None or not self.is_running or self._process.poll() is None:
            return
        done = self._process.returncode == 0
        self.end()
        if done:
            self._finish()

    def test_neuron(self) -> None:
        """Start a child that runs the self-test of this NEURON version, once per script."""
        if not self._is_tested:
            self._is_tested = True
            self._start([], bool)

    def compile(
        self, save: Callable[[Path], object], request: RunOptions, finish: Callable[[], object]
    ) -> None:
        """Compile in a child the network that `save` writes; then call `finish` on success."""
        if not isinstance(request.device, str | None):
            return
        path = files.cache_folder() / f"network-{os.getpid()}.npz"
        try:
            save(path)
        except InputError:  # the model is refused or cannot be saved, or the folder cannot
            return
        self._file = path
        options = {"device": request.device, "dtype": request.dtype, "engine": request.engine}
        self._start([str(path), json.dumps(options)], finish)

    def _start(self, arguments: list[str], finish: Callable[[], object]) -> None:
        import subprocess  # most scripts do not need it

        command, environment = child_command(__name__)
        with suppress(OSError):
            self._process = subprocess.Popen(
                [*command, *arguments], env=environment, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            self._finish = finish
            atexit.register(self.end)

    def end(self) -> None:
        """Kill the child, if it still runs, and remove its file."""
        if self._process is not None and self.is_running:
            atexit.unregister(self.end)
            with suppress(OSError):  # already ended
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None
            if self._file is not None:
                self._file.unlink(missing_ok=True)


def main() -> None:
    """Do the child's work: compile kernels if there are arguments, otherwise test NEURON."""
    threading.Thread(target=_end_with_script, daemon=True).start()
    os.nice(_NICE)
    _, _, *arguments = sys.argv[1:]
    if arguments:
        _compile(arguments[0], **json.loads(arguments[1]))
    else:
        supported()


def _end_with_script() -> None:
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


def _compile(path: str, device: str | None, dtype: str, engine: str) -> None:
    from clhines.simulator.importing import state_follows
    from clhines.simulator.network import Network
    from clhines.simulator.simulation import Simulation

    network = Network.load(path)
    dt, options = network.settings["dt"], dict[str, Any](device=device, engine=engine)
    options |= {name: network.settings[name] for name in ("v_init", "secondorder")}
    with state_follows():
        sim = Simulation(network, dt, dtype, **options)
    sim.reset()
    sim.run(_STEPS * dt)
