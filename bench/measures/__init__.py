"""The measures; each module has `main(arguments)` and is a name of `python -m bench`.

`random` and `fuzz` compare with other programs and measure no time. They are tests in
`tests/slow`, and the runner finds them here, too.
"""

from pathlib import Path

__path__ += [str(Path(__file__).resolve().parents[2] / "tests" / "slow")]
