"""What is measured; each module has `main(arguments)` and is a name of `python -m bench`.

`checks`, `random` and `fuzz` compare with other programs and measure no time: they are tests, in
`tests/slow`, and found here as well.
"""

from pathlib import Path

__path__ += [str(Path(__file__).resolve().parents[2] / "tests" / "slow")]
