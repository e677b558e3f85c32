"""How many .mod files of folders can be simulated, and which constructs of the others cannot.

    python bench/nmodl_coverage.py FOLDER ... [--slowest 5] [--refused]

Files of the same text count once. Times are of reading a file and printing its functions in double
precision, on one core; a file without BREAKPOINT or NET_RECEIVE counts as any other.
"""

import argparse
import hashlib
import re
import time
from collections import Counter
from pathlib import Path

from clhines.errors import InputError
from clhines.mechanisms import Mechanism
from clhines.mechanisms.nmodl import NmodlError


def distinct(folders):
    """Yield every .mod file whose text was not there before."""
    seen = set()
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.mod")):
            if not path.is_file():
                continue
            data = path.read_bytes()
            if data.startswith(b"../") or not data.strip():
                continue  # what a link became without one, or nothing
            key = hashlib.sha256(data).digest()
            if key not in seen:
                seen.add(key)
                yield path


def kind_of(construct):
    """Return a construct without the names in it, to be counted."""
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'", "'...'", construct))


def measured(path):
    """Return the constructs that are refused, and the time it took in seconds."""
    start = time.perf_counter()
    try:
        Mechanism.from_nmodl(path).functions("double")
        refused = []
    except NmodlError as error:
        refused = error.rejections
    except InputError as error:
        refused = [str(error)]
    return refused, time.perf_counter() - start


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--slowest", type=int, default=3)
    parser.add_argument("--refused", action="store_true", help="list every file that is refused")
    given = parser.parse_args()
    rows = [(path, *measured(path)) for path in distinct(given.folders)]
    times = sorted(seconds for _, _, seconds in rows)
    run = sum(not refused for _, refused, _ in rows)
    print(f"{len(rows)} distinct files, {run} run ({run / len(rows):.1%})")
    print(f"time: median {times[len(times) // 2]:.3f} s, most {times[-1]:.3f} s")
    for path, _, seconds in sorted(rows, key=lambda r: -r[2])[: given.slowest]:
        print(f"  {seconds:.3f} s {path}")
    counted, alone = Counter(), Counter()
    for _, refused, _ in rows:
        kinds = {kind_of(getattr(r, "construct", r)) for r in refused}
        counted.update(kinds)
        alone.update(kinds if len(kinds) == 1 else ())
    print("files  alone  construct")
    for kind, number in counted.most_common():
        print(f"{number:5d}  {alone[kind]:5d}  {kind}")
    for path, refused, _ in rows if given.refused else ():
        for one in refused:
            print(f"{path}: {one}")


if __name__ == "__main__":
    main()
