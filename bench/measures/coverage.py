"""Count the .mod files of public models that can be simulated, and why the others cannot.

    CLHINES_MODELS=FOLDER python -m bench coverage [--refused] [--result WORD]

Each folder in the one that the variable names is a public repository, called as there (a number is
one of ModelDBRepository). Files of the same text count once, in the first folder. Files of VecStim
and PatternStim run, as the importer knows them; a FUNCTION_TABLE has the table that a script would
give it, stepforce the numbers of a file beside it, a TABLE that NEURON would not make again any
rows, and what a CONSTRUCTOR does is in memory. Times are of reading a file and printing its
functions in double precision, on one core. A file that calls ``exprand``, or has C that is not
read, only where a parameter as ``noise`` says so runs where it does not say so.
One that calls it in any case runs where one instance in a model does so, or where NEURON can draw
ahead of a run. ``--result``: into a file of its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import MissingError, record, table
from clhines.errors import InputError
from clhines.mechanisms.ir.program import GENERATOR
from clhines.mechanisms.mechanism import Mechanism
from clhines.mechanisms.nmodl import NmodlError
from clhines.mechanisms.nmodl.values import MADE
from clhines.neuron.convert import constructed, function_tables_of, table_refused, tables_of
from clhines.neuron.memory.tables import forces_of, read_force
from clhines.neuron.read.patterns import is_pattern
from clhines.neuron.read.trains import is_train

_TABLES: dict[int, Any] = {1: ([0, 1], [1, 2]), 2: ([0, 1], [0, 1], [[1, 2], [3, 4]])}


def distinct(folder: Path) -> Iterator[Path]:
    """Yield every .mod file below `folder` whose text was not there before."""
    seen = set()
    for path in sorted(folder.rglob("*.mod")):
        if not path.is_file() or path.name.startswith("._"):  # what macOS keeps beside a file
            continue
        data = path.read_bytes()
        if data.startswith(b"../") or not data.strip():
            continue  # what a link became without one, or nothing
        key = hashlib.sha256(data).digest()
        if key not in seen:
            seen.add(key)
            yield path


def construct_kind(construct: str) -> str:
    """Return a construct without the names in it, to be counted."""
    plain = re.sub(r"'[^']*'", "'...'", construct)
    words = "POINTER|TABLE of|COMPARTMENT of|INCLUDE|EXTERNAL"
    plain = re.sub(rf"^({words}) \S+", r"\1 ...", plain)
    return re.sub(r"\d+", "N", plain)


def measured(path: Path) -> dict[str, Any]:
    """Return what is refused of a file, and the time it took in seconds."""
    begin = time.perf_counter()
    refused: list[str] = []
    on_terms = alone = False
    try:
        text = path.read_text("utf-8", "replace")
        if not (is_train(text) or is_pattern(text)):
            tables = {name: _TABLES[count] for name, count in function_tables_of(text).items()}
            forces = ((file, read_force(str(path.parent / file))) for file in forces_of(text))
            tables |= {file: table for file, table in forces if table is not None}
            mechanism = _made(text + "\n", str(path), tables)
            mechanism.functions("double")
            program = mechanism.program
            on_terms = bool(program.unless)
            alone = bool(program.alone) or GENERATOR in program.random
    except NmodlError as error:
        refused = [one.construct for one in error.rejections]
    except InputError as error:
        refused = [str(error)]
    seconds = time.perf_counter() - begin
    return {"refused": refused, "on_terms": on_terms, "alone": alone, "seconds": seconds}


def _made(text: str, path: str, tables: dict[str, Any]) -> Mechanism:
    """Return a mechanism, whose TABLEs of what changes have any rows, as if NEURON had them."""
    while True:
        try:
            return constructed(text, path, function_tables=tables)
        except NmodlError as error:
            block = table_refused(error.rejections[0].construct)
            if not block or MADE.format(block) in tables:
                raise
            table = tables_of(text, path)[block]
            tables[MADE.format(block)] = table.given(np.ones((table.rows, len(table.columns))))


def measure(folder: Path) -> dict[str, Any]:
    """Return counts by repository and by construct, and the times."""
    rows = [{"repository": path.relative_to(folder).parts[0], "file": path.name, **measured(path)}
            for path in distinct(folder)]  # fmt: skip
    if not rows:
        raise MissingError("no .mod file in the folder CLHINES_MODELS")
    counted, alone = Counter[str](), Counter[str]()
    for row in rows:
        kinds = {construct_kind(construct) for construct in row["refused"]}
        counted.update(kinds)
        alone.update(kinds if len(kinds) == 1 else ())
    files = Counter(row["repository"] for row in rows)
    run = Counter(row["repository"] for row in rows if not row["refused"])
    times = sorted(row["seconds"] for row in rows)
    return {
        "files": len(rows),
        "run": sum(run.values()),
        "on_terms": sum(row["on_terms"] for row in rows),
        "alone": sum(row["alone"] for row in rows),
        "median_seconds": times[len(times) // 2],
        "most_seconds": times[-1],
        "repositories": {name: [count, run[name]] for name, count in sorted(files.items())},
        "constructs": {kind: [n, alone[kind]] for kind, n in counted.most_common()},
        "rows": rows,
    }


def text(result: dict[str, Any]) -> str:
    """Return the tables."""
    share = result["run"] / result["files"]
    lines = [
        f"{result['files']} distinct files of {len(result['repositories'])} repositories: "
        f"{result['run']} run ({share:.1%})",
        f"{result['on_terms']} of these only where parameters rule out draws of NEURON's one "
        "generator, or C that is not read",
        f"{result['alone']} of these only where one instance sets GLOBAL variables or draws, or "
        "NEURON can draw ahead",
        f"to read one: {result['median_seconds']:.3f} s in the median, "
        f"{result['most_seconds']:.3f} s at most",
        "",
    ]
    rows = [f"{n:5d}  {one:5d}  {kind:.84}" for kind, (n, one) in result["constructs"].items()]
    lines += [table.ruled("files  alone  refused for", rows), ""]
    rows = [f"{name:24.24} {n:5d} {run:5d}" for name, (n, run) in result["repositories"].items()]
    return "\n".join([*lines, table.ruled(f"{'repository':24} files   run", rows)])


def main(arguments: Sequence[str]) -> int:
    """Count, and write the result."""
    parser = record.parser("coverage", __doc__ or "", device=False)
    parser.add_argument("--refused", action="store_true", help="print every file that is refused")
    parser.add_argument("--result", default="", metavar="WORD")
    given = parser.parse_args(arguments)
    folder = os.environ.get("CLHINES_MODELS")
    if not folder:
        raise MissingError("the variable CLHINES_MODELS names no folder of models")
    result = measure(Path(folder))
    rows = result.pop("rows")
    result = {"record": record.record(None, "coverage", arguments), **result}
    file = f"coverage-{given.result}" if given.result else "coverage"
    record.write(file, None, result, text(result), given.out)
    for row in rows if given.refused else ():
        for one in row["refused"]:
            print(f"{row['repository']} {row['file']}: {one}")
    return 0
