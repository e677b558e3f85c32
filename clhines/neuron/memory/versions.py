"""Self-tests of NEURON versions: private memory is read only after the exact version passed.

There are two self-tests. `switch.selftest` takes half a second: it tests the hooks that the switch
needs before it decides who takes a call. `selftest` tests the hooks and everything that is read
from a model. The first use of a version runs a self-test in a separate process, which may crash.
The default device is tested at the same time. Results are kept in clhines' cache folder.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
from collections.abc import Callable

import clhines
from clhines.core import files
from clhines.core.errors import InputError
from clhines.core.progress import phase
from clhines.neuron.memory.session import ANY, Hoc, VersionError, as_flag, interpreter

SWITCH = "CLHINES_NEURON_TRUST"  # 1 skips the self-test
WORD = "clhines-neuron-selftest: "  # begins the line with the result, as JSON
_MODULES = {"neuron": "clhines.neuron.selftest", "hooks": "clhines.neuron.switch.selftest"}
_DEVICE = "clhines.simulator.known_answers"  # tests the device, which a run needs next
_SECONDS = 180.0
_SCHEMA = 1  # file format
_PROGRAM = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).main()"
)
_NOT_INHERITED = "PMI", "PMIX", "OMPI_", "HYDRA", "MPI", "NEURON_", "CLHINES_NEURON"
_log = logging.getLogger(__name__)
_beside: list[object] = []  # process that tests the device
_results: dict[tuple[str, str], str] = {}  # by version and test: the fault, empty if none


def supported(test: str = "neuron") -> Hoc:
    """Return NEURON's interpreter if its version has passed a self-test.

    Parameters
    ----------
    test : {"neuron", "hooks"}
        Everything that reading a model needs, or only the hooks that `enable` puts into NEURON.

    Raises
    ------
    InputError
        NEURON is not installed or too old, or the self-test did not run.
    VersionError
        This version is too new, or has failed.
    """
    h = interpreter()
    if as_flag(SWITCH):
        return h
    version = " ".join(str(h.nrnversion()).split())
    # the self-test "neuron" includes the hooks
    wrong = _results.get((version, "neuron"), _results.get((version, test)))
    if wrong is None:
        wrong = _results[version, test] = _stored_or_tested(_key(h, version), version, test)
    if wrong:
        raise VersionError(
            f"{version} has failed the self-test of clhines ({wrong}); expected "
            f"NEURON 9.0 (pip install 'neuron>=9.0,<9.1')"
        )
    return h


def _stored_or_tested(key: dict[str, object], version: str, test: str) -> str:
    with files.one_process("neuron"):
        wrong = _load(key)
        if wrong is None and test != "neuron":
            wrong = _load(key, test)
        if wrong is None:
            wrong = _tested(version, test)
            files.keep_entry(test, _SCHEMA, key, wrong=wrong)
    return wrong


def _tested(version: str, test: str) -> str:
    """Run a self-test and return the fault, empty if none; InputError if it did not run."""
    import signal  # imported here, as these three take longer than the rest
    import subprocess
    import tempfile

    what = f"the self-test of {version}, once for each version"
    phase(what)
    arguments, environment = child_command(_MODULES[test])
    environment[SWITCH] = "1"
    try:
        if test == "neuron":
            command, variables = child_command(_DEVICE)
            null = subprocess.DEVNULL
            _beside[:] = [
                subprocess.Popen(command, env=variables, stdin=null, stdout=null, stderr=null)
            ]
        # in a separate folder: NEURON loads compiled mechanisms from its start folder
        with tempfile.TemporaryDirectory(prefix="clhines-") as folder:
            done = subprocess.run(
                arguments, env=environment, cwd=folder, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
            )  # fmt: skip
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise InputError(
            f"the self-test of {version} did not run ({' '.join(str(error).split())[:200]}); "
            f"expected a process of {sys.executable} ({SWITCH}=1 leaves it out)"
        ) from None
    said = [line[len(WORD) :] for line in done.stdout.splitlines() if line.startswith(WORD)]
    if said:
        wrong = str(json.loads(said[-1]))
    elif done.returncode < 0:
        wrong = f"a crash, {signal.Signals(-done.returncode).name}"
    else:
        last = " ".join((done.stderr.strip().splitlines() or [""])[-1].split())[:200]
        wrong = f"the process ended with status {done.returncode}: {last}"
    _log.info("%s: %s", what, wrong or "passed")
    return wrong


def child_command(module: str) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of a process, no MPI rank, that calls `main` of a module."""
    path = [os.path.abspath(folder) for folder in sys.path if isinstance(folder, str)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_NOT_INHERITED)}
    environment[ANY] = os.environ.get(ANY, "")
    return [sys.executable, "-c", _PROGRAM, json.dumps(path), module], environment


def _key(h: Hoc, version: str) -> dict[str, object]:
    return {
        "neuron": version,
        "machine": f"{platform.system()} {h.nrnversion(8)}",
        "python": platform.python_version(),
        "clhines": clhines.__version__,
    }


def report(find_wrong: Callable[[], str]) -> None:
    """Print the fault that `find_wrong` returns, in a line that the parent process reads."""
    try:
        wrong = find_wrong()
    except Exception as error:  # any error in a version is a result
        wrong = f"{type(error).__name__}: {error}"
    print(WORD + json.dumps(" ".join(wrong.split())[:500]), flush=True)


def _load(key: dict[str, object], test: str = "neuron") -> str | None:
    wrong = files.kept_entry(test, _SCHEMA, key).get("wrong")
    return wrong if isinstance(wrong, str) else None
