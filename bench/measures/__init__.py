"""The measures; each module has `main(arguments)` and is a name of `python -m bench`.

`random` compares with NEURON and measures no time. It is a test in `tests/slow`, and the runner
finds it here, too.
"""

from pathlib import Path

__path__ += [str(Path(__file__).resolve().parents[2] / "tests" / "slow")]
