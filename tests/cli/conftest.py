"""The command line within this process, and SWC files."""

import warnings

import pytest
from commands import SWC, Result

from clhines.cli.main import main


@pytest.fixture
def cli(capsys):
    """Run the command line in this process; warnings count as lines on stderr, as for a user."""

    def run(*arguments):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                code = main([str(a) for a in arguments])
            except SystemExit as stop:
                code = stop.code
        hidden = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
        shown = {str(w.message) for w in caught if not issubclass(w.category, hidden)}
        captured = capsys.readouterr()
        assert isinstance(code, int)
        return Result(code, captured.out, captured.err + "".join(f"{text}\n" for text in shown))

    return run


@pytest.fixture
def swc(tmp_path):
    """Write an SWC file."""

    def write(text=SWC, name="cell.swc"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write
