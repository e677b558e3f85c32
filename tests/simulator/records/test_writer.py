"""Files of recorded rows, also when the disk is full."""

import subprocess
import sys

import pytest

FULL = """
import resource, sys
import numpy as np
from clhines import InputError
from clhines.simulator.records.writer import RecordWriter

most = 200_000  # bytes of a file: as a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
stream, rows, said = RecordWriter(sys.argv[1]), 0, []
while len(said) < 2:  # and once more after the first error
    try:
        stream.append(rows + np.arange(100.0), np.full((100, 40), float(rows)))
        rows += 100
    except InputError as error:
        said.append(str(error))
print(rows, *said, sep="\\n")
"""


def test_a_full_disk_leaves_an_hdf5_file_that_can_be_read(tmp_path):
    """libhdf5 ended the process (segmentation fault) at its end, after a write that failed."""
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("resource")
    path = tmp_path / "x.h5"
    done = subprocess.run(
        [sys.executable, "-c", FULL, path], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows, *said = done.stdout.splitlines()
    assert said == [f"{path} cannot be written: File too large"] * 2
    with h5py.File(path) as file:
        assert file["t"][:].tolist() == list(range(int(rows)))
        assert file["values"].shape == (int(rows), 40)
    assert int(rows) > 0
    assert path.stat().st_size < 200_000
