"""Children of a device's self-test with chosen outcomes; fixtures to import."""

import sys

import pytest

from clhines.solver.device import trust

SAYS = f"print({trust._WORD!r} + {{!r}}, flush=True)"
LIMITED = "from clhines.solver.device import trust; trust.limit_process"
ENDS = {
    "right": SAYS.format("right"),
    "wrong": SAYS.format("wrong: 7 mV off"),
    "unsure": SAYS.format("unsure"),
    "crash": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "sleep": "import time; time.sleep(60)",
    "spin": f"{LIMITED}(1, True)\nwhile True: pass",
    "greedy": f"{LIMITED}(9, True)\nbytearray(1 << 44)",
    "exit": "raise SystemExit(3)",
}


@pytest.fixture(autouse=True)
def _checked(monkeypatch):
    monkeypatch.delenv(trust.SWITCH)
    trust.forget()
    yield
    trust.forget()


@pytest.fixture
def stub(monkeypatch):
    """Make children end by their width; return the list of started children."""
    started = []

    def replace(ends, widths=(64, 32, 16, 8)):
        def command(index, family, dtype, width):
            started.append((family, dtype, width))
            begin = SAYS.format("started")
            return [sys.executable, "-c", f"{begin}\n{ENDS[ends(family, width)]}"]

        monkeypatch.setattr(trust, "command", command)
        monkeypatch.setattr(trust, "widths", lambda *_: widths)
        return started

    return replace
