"""`clhines simulate FILE.py`: run a NEURON script, or check the model that it builds."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import clhines
from clhines.cli.arguments import Commands, add_command, add_engine, positive_number
from clhines.cli.report import doing
from clhines.core.errors import InputError, tell

SUFFIXES = (".py", ".hoc")

SIMULATE = """\
Run a NEURON script. Its h.run(), h.continuerun() and pc.psolve() run on the
device if that is expected to end sooner; NEURON takes the other runs."""
EXAMPLES = """\
  clhines simulate script.py                 results, files and plots as before
  clhines simulate script.py --check         only list what is not supported
  clhines simulate script.py --when always -- --seed 3"""


def with_script_last(argv: Sequence[str]) -> list[str]:
    """Move the script of ``simulate``, and the script's own arguments, to the end of `argv`.

    The script's arguments follow a ``--``. After options, argparse would not find them.
    """
    arguments = list(argv)
    at = next((k for k, word in enumerate(arguments) if not word.startswith("-")), 0)  # after -v
    if arguments[at : at + 1] == ["simulate"] and "--" in arguments[at + 2 :]:
        script = arguments[at + 1]
        if script.lower().endswith(SUFFIXES):
            end = arguments.index("--", at + 2)
            before = [*arguments[: at + 1], *arguments[at + 2 : end]]
            return [*before, "--", script, *arguments[end + 1 :]]
    return arguments


def add_simulate(commands: Commands) -> None:
    simulate = add_command(commands, "simulate", "run a NEURON script", SIMULATE, EXAMPLES)
    add = simulate.add_argument
    add("script", metavar="FILE", help="the script")
    # fmt: off
    add("words", nargs="*", metavar="WORD",
        help="arguments of the script; after a -- they may begin with -")
    add("--strict", action="store_true",
        help="end with an error if NEURON has to take a run")
    add("--when", choices=("faster", "always", "never"),
        help="when the device takes a run (default: faster; with --device, "
        "--engine or --strict: always)")
    add("--check", action="store_true",
        help="end the script at its first run, and list what is not supported")
    add("--fixed-step", type=positive_number, metavar="MS",
        help="use this step instead of CVode's variable steps [ms]")
    add("--progress", action="store_true",
        help="print phases and a progress bar (always, on a terminal)")
    add("--mechanisms", metavar="FILE",
        help="library that nrnivmodl compiled; default: in the working folder")
    # fmt: on
    add_engine(simulate)
    add("--json", action="store_true", help="print steps and seconds as JSON")
    simulate.set_defaults(run=run_simulate)


def run_simulate(arguments: argparse.Namespace) -> int:
    script = Path(arguments.script)
    if not script.is_file():
        raise InputError(f"cannot read {str(script)!r}; expected a script, .py or .hoc")
    return _print_unsupported(arguments) if arguments.check else _run_script(arguments)


def _print_unsupported(arguments: argparse.Namespace) -> int:
    for option in ("strict", "fixed_step", "progress", "when", "json"):
        if getattr(arguments, option):
            raise InputError(f"--{option.replace('_', '-')} is for runs; expected no --check")
    with doing("building the model"):
        _build(arguments)
    with doing("reading the model"):
        rejected = clhines.neuron.check()
    from clhines.neuron.switch.hooks import ScriptEnd

    lines = [str(one) for one in rejected]
    if isinstance(arguments.kept, ScriptEnd) and str(arguments.kept):
        lines.append(f"{arguments.kept}: stepped by NEURON")
    print("\n".join(lines) or "the device can run the whole model")
    return int(bool(lines))


def _build(arguments: argparse.Namespace) -> None:
    """Execute the script up to its first run, then initialise its model."""
    from clhines.neuron.switch.enabled import skipping

    with skipping(ends=True):
        code = _execute(arguments)
        if code:
            raise InputError(f"{arguments.script} has ended with status {code}; expected a model")
        h = clhines.neuron.interpreter()
        h.finitialize(h.v_init)


def _run_script(arguments: argparse.Namespace) -> int:
    begin = time.perf_counter()
    names = "device", "dtype", "engine", "strict", "fixed_step", "when"
    options = {n: getattr(arguments, n) for n in names}
    options["progress"] = arguments.progress or sys.stderr.isatty()
    with clhines.neuron.enable(**options) as enabled:
        code = _execute(arguments)
    report = {
        "steps": enabled.steps,
        "t_ms": float(clhines.neuron.interpreter().t),
        "script_s": time.perf_counter() - begin,
    }
    if arguments.json:
        print(json.dumps(report, indent=1))
    return code


class ScriptError(clhines.ClhinesError):
    """The script ended with an exception; the exit status is Python's."""

    status = 1


def _execute(arguments: argparse.Namespace) -> int:
    from clhines.neuron.switch.hooks import ScriptEnd

    script = Path(arguments.script)
    h = clhines.neuron.interpreter()
    if arguments.mechanisms is not None:
        try:
            loaded = h.nrn_load_dll(arguments.mechanisms)  # 0: it cannot be opened
        except RuntimeError as error:
            text = f"--mechanisms {arguments.mechanisms}: {error}"
            if "already exists" in text:
                text += "; NEURON has loaded the working folder's, so leave --mechanisms out"
            raise InputError(text) from None
        if not loaded:
            raise InputError(
                f"--mechanisms {arguments.mechanisms}: NEURON cannot load it; expected the "
                "library that nrnivmodl has made, such as x86_64/libnrnmech.so"
            )
    clhines.neuron.load_stdrun(h)
    argv, sys.argv = sys.argv, [str(script), *arguments.words]
    try:
        if script.suffix.lower() == ".py":
            sys.path.insert(0, str(script.parent))
            # sections live as long as the script's variables
            arguments.kept = runpy.run_path(str(script), run_name="__main__")
        elif not h.load_file(str(script)):
            raise InputError(f"NEURON cannot load {str(script)!r}")
    except SystemExit as end:
        arguments.kept = end  # its frames keep the sections alive
        if isinstance(end.code, str):
            tell(end.code)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        raise
    except clhines.RankError:  # the rank that failed prints the message
        raise ScriptError("") from None
    except ScriptEnd as end:
        arguments.kept = end
        tell(f"{script}{_line(script, end)}: the script ends here, at its first run")
    except BaseException as error:
        raise ScriptError(_failed(script, error)) from None
    finally:
        sys.argv = argv
    return 0


def _failed(script: Path, error: BaseException) -> str:
    text = str(error)
    if isinstance(error, clhines.BuildError):  # its message ends with the source
        text = text.splitlines()[0]
    text = " ".join(text.split()) or "no message"
    unknown = "HocObject' object has no attribute" in text
    if "mechanism" in text or "not a template" in text or unknown:
        text += "; compiled mechanisms are found in the working folder, or with --mechanisms"
    return f"{script}{_line(script, error)}: {type(error).__name__}: {text}"


def _line(script: Path, error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(script)]
    return f", line {lines[-1]}" if lines else ""
