"""Where the real morphologies are that some tests read; those skip where the folder is absent."""

import os
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("CLHINES_MORPHOLOGIES")
    or Path(__file__).resolve().parents[2] / ".." / "shared" / "morphologies"
)
needs_folder = pytest.mark.skipif(
    not (FOLDER / "index.csv").is_file(),
    reason=f"no morphologies in {FOLDER}; set CLHINES_MORPHOLOGIES to their folder",
)
