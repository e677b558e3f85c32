"""Test every family of kernels on installed runtimes: `python tests/support/runtimes.py`.

It prints a row of the table in `docs/supported.md` for each device that is no simulator, and the
tests that failed. Words after the command go to pytest.
"""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SELECTION = (  # test -> its coverage
    "tests/solver/test_solver.py::test_every_shape_is_solved",  # each method, both precisions
    "tests/solver/test_factors.py::test_every_row_solves_and_factors",
    "tests/solver/engines/test_pivots.py::test_bad_pivots_name_cell_and_node",
    "tests/solver/plan/test_export.py::test_programs_solve_on_every_device",
    "tests/simulator/gpu/test_epochs.py::test_blocks_follow_the_reference",
    "tests/simulator/gpu/test_epochs.py::test_lists_of_nodes_follow_the_reference",
    "tests/simulator/gpu/test_epochs.py::test_any_name_may_stand_in_a_text",  # every engine
    "tests/simulator/cpu/test_blocks_in_steps.py::test_cells_of_three_shapes",
    "tests/simulator/cpu/test_blocks_in_steps.py::test_groups_of_instances_that_lie_anywhere",
    "tests/simulator/events/test_grid.py::test_every_algorithm_gives_the_bits_of_numpy",
    "tests/simulator/events/test_plasticity.py::test_the_bits_of_numpy",
    "tests/simulator/events/test_exact.py::test_kernels_on_every_device",  # needs NEURON
)


def row(name, index, version, words):
    """Return the table row of the device whose tests have `index` in their names; and failures."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-n", "0", *SELECTION, "-k", index]
        ended = subprocess.run([*command, f"--junitxml={report}", *words], cwd=ROOT, check=False)
        if ended.returncode not in (0, 1):  # 1: tests failed; others: no test ran
            sys.exit(f"pytest ended with {ended.returncode} on {name}")
        suite = ET.parse(report).getroot()[0]
    tests, failed, skipped = (
        int(suite.get(key, 0)) + more
        for key, more in (("tests", 0), ("failures", int(suite.get("errors", 0))), ("skipped", 0))
    )
    bad = [c.get("name", "") for c in suite.iter("testcase") if {e.tag for e in c} - {"skipped"}]
    passed = tests - failed - skipped
    seconds = float(suite.get("time", 0))
    return f"| {name} | {version} | {passed} | {failed} | {skipped} | {seconds:.0f} s |", bad


def main():
    """Run the selection on each device."""
    from clhines.solver.device import devices

    rows, failures = [], []
    for index, device in devices.all_devices():
        if devices.is_simulator(device):
            continue
        line, bad = row(device.platform.name, index, device.driver_version, sys.argv[1:])
        rows.append(line)
        failures += bad
    print("\n| runtime | version | passed | failed | skipped | time |\n" + "| --- " * 6 + "|")
    print(*rows, *(f"failed: {name}" for name in failures), sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
