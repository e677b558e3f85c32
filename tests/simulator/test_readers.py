"""Readers of users' files: none waits, each ends, and each error is one line."""

import os
from pathlib import Path

import pytest

from clhines import Mechanism, Network, read_swc
from clhines.simulator.cells.swc import MAX_FILE
from clhines.simulator.mechanisms.nmodl.reading.lexer import MAX_TEXT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs FIFOs")

READERS = {  # readers of users' files, and sizes beyond their limits
    "from_nmodl": (Mechanism.from_nmodl, MAX_TEXT),
    "read_swc": (read_swc, MAX_FILE << 20),
    "load": (Network.load, None),
}


@pytest.mark.parametrize("reader", READERS)
def test_readers_of_files_do_not_wait_and_end(reader, tmp_path):
    """A device is endless, a FIFO waits for a writer, and a sparse file may have any size."""
    read, most = READERS[reader]
    os.mkfifo(tmp_path / "fifo")
    for path in ("/dev/zero", tmp_path / "fifo", tmp_path, tmp_path / "none", ""):
        with pytest.raises(ValueError, match="cannot be read") as caught:
            read(path if path == "" else Path(path))
        assert "\n" not in str(caught.value) and str(path)[:40] in str(caught.value)
    if most is not None:
        (tmp_path / "large").touch()
        os.truncate(tmp_path / "large", 1 << 40)
        with pytest.raises(ValueError, match=f"has more than {most} bytes"):
            read(tmp_path / "large")
