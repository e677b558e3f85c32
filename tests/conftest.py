"""Fixtures: every installed OpenCL device, one queue each for the whole session.

The first test that wants a queue looks for OpenCL: `pytest tests/solver/plan` runs without it.
"""

import functools
import gc
import importlib.util
import itertools
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

HELPERS = (  # folders with modules that tests import; modules for several folders are in `support`
    *("bench", "kernels", "simulator", "simulator/cells", "simulator/mechanisms/nmodl"),
    *("simulator/mechanisms/text", "simulator/ranks", "solver", "support"),
)
for _folder in HELPERS:
    sys.path.insert(0, str(Path(__file__).parent / _folder))
sys.path.append(str(Path(__file__).parents[1]))  # bench; behind an installed clhines
pytest.register_assert_rewrite("solvers", "commands", "made_cells", "swc_files", "systems")


@functools.cache
def found():
    """All devices, as (index, device), and the reason for an empty list."""
    from clhines.core.errors import DeviceError
    from clhines.solver.device import devices

    try:
        return devices.all_devices(), ""
    except DeviceError as error:
        return [], str(error)


_queues = {}
SHORT = pytest.StashKey()  # cases for the literature's methods that stay in every run


_stores = itertools.count()


@pytest.fixture(autouse=True)
def _own_store(tmp_path_factory, monkeypatch):
    """Keep every test away from the user's store of tuned winners and of known answers.

    With an empty store, every test and every process of a test would check its device first.
    CLHINES_TRUST, set below, turns this off, except in tests of known answers, which delete it;
    likewise CLHINES_NEURON_TRUST for the self-test of NEURON's version (`test_versions.py`).
    """
    folder = tmp_path_factory.getbasetemp() / f"store-{next(_stores)}"  # not made for each test
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(folder))
    yield
    for queue in _queues.values():  # PoCL's linker fails if the environment changes meanwhile
        queue.finish()


@pytest.fixture(autouse=True)
def _cpu_for_its_engine(request, monkeypatch):
    """Run tests of `epochs-cpu` on CPUs only: without a queue fixture also beside a GPU."""
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    if parameters.get("engine") != "epochs-cpu":
        return
    if pair := parameters.get("queue") or parameters.get("fast_queue"):
        from clhines.solver.device import devices

        if not devices.is_cpu(pair[1]):
            pytest.skip("epochs-cpu is for CPUs")
    else:
        monkeypatch.setenv("CLHINES_DEVICE", "cpu")


@pytest.fixture(autouse=True)
def _neuron_as_new(request):
    """Reset NEURON's settings, and afterwards free objects that an expected error keeps alive.

    NEURON 9 ends the process when an event reaches a deleted artificial cell, perhaps in the middle
    of the next test.
    """
    h = getattr(getattr(request, "module", None), "h", None)
    if h and "neuron" in sys.modules:
        h.dt, h.celsius, h.secondorder = 0.025, 6.3, 0
    yield
    if h and "neuron" in sys.modules:
        gc.collect()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip tests marked `neuron` before their fixtures if NEURON is not installed."""
    if item.get_closest_marker("neuron") and importlib.util.find_spec("neuron") is None:
        pytest.skip("NEURON is not installed")


QUICK = {*("bench", "cli", "kernels", "neuron", "simulator", "slow", "solver")}
_flags = [""]  # PoCL's flags for the kept programs


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Let PoCL compile without optimisation, in half the time, if the compiler is no subject.

    This holds in `QUICK`, except for tests marked `optimised`: every method and every engine, and
    differing bits of kernels. Runs of slow tests optimise everything. PoCL's cache tells the two
    apart. A hook comes before fixtures of modules, a fixture of each test after.
    """
    folder, *rest = item.path.relative_to(Path(__file__).parent).parts
    is_quick = "test_gallery.py" in rest or (folder in QUICK and rest[:1] != ["device"])
    quick = is_quick and not re.search("(?<!not )slow", item.config.option.markexpr)
    flags = "-cl-opt-disable" if quick and not item.get_closest_marker("optimised") else ""
    if flags != _flags[0] and "clhines.solver.device.program" in sys.modules:
        sys.modules["clhines.solver.device.program"].forget()
    _flags[0] = flags
    with pytest.MonkeyPatch.context() as patch:
        if flags:
            patch.setenv("POCL_EXTRA_BUILD_FLAGS", flags)
        patch.setenv("CLHINES_TRUST", "1")
        if item.get_closest_marker("core"):
            patch.setenv("CLHINES_TEST_FEW_MODS", "1")  # `mod_files` compiles no others
        patch.setenv("CLHINES_NEURON_TRUST", "1")
        yield


@functools.cache
def _raising():
    """Refusal ids that each test of `refusals.json` must raise."""
    path, ids = Path(__file__).with_name("refusals.json"), {}
    for name, test in json.loads(path.read_text("utf-8")).items():
        ids.setdefault(test, set()).add(name)
    return ids


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Let a test of `refusals.json` fail unless it raises its ids."""
    wanted = _raising().get(pyfuncitem.nodeid)
    if wanted is None:
        return (yield)
    import raised

    with raised.noting() as ids:
        result = yield
    assert wanted <= ids, f"refusals.json: {sorted(wanted - ids)} not raised"
    return result


def _parameter(pair):
    """Test parameter of a device; tests on a simulator are marked `oclgrind`."""
    from clhines.solver.device import devices

    index, device = pair
    name = f"{device.platform.name.split()[0]}-{index}"
    marks = [pytest.mark.oclgrind] if devices.is_simulator(device) else []
    return pytest.param(pair, id=name, marks=marks)


LITERATURE = {"cr", "pcr", "cr_pcr"}  # methods that are there to be compared with


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item):
    """Mark cases of the literature's methods on a device `slow`, except the first of each type.

    `tests/kernels/test_oclgrind.py` still runs each of their kernels.
    """
    params = item.callspec.params if hasattr(item, "callspec") else {}
    named = [value for value in params.values() if isinstance(value, str) and value in LITERATURE]
    if not named or not {"queue", "fast_queue"} & set(item.fixturenames):
        return
    case = item.nodeid.partition("[")[0], *named, str(params.get("dtype"))
    short = item.session.stash.setdefault(SHORT, set())
    if case in short:
        item.add_marker(pytest.mark.slow)
    short.add(case)


def pytest_ignore_collect(collection_path, config):
    """Import no file without tests of the core if only these run."""
    if config.option.markexpr == "core" and collection_path.suffix == ".py":
        return "mark.core" not in collection_path.read_text("utf-8") or None


def pytest_configure(config):
    """Share nrnivmodl's folder among all processes of a run, and let waiting MPI ranks yield."""
    os.environ.setdefault("CLHINES_QUIET", "1")  # a line at each script's end with the switch
    os.environ.setdefault("MPIR_CVAR_POLLS_BEFORE_YIELD", "1")  # for MPICH: ranks outnumber cores
    if not hasattr(config, "workerinput") and "CLHINES_TEST_BUILDS" not in os.environ:
        made = tempfile.TemporaryDirectory()
        os.environ["CLHINES_TEST_BUILDS"] = made.name
        config.add_cleanup(made.cleanup)


PLAIN = (str, bytes, bool, int, float, complex, type, type(None), np.generic, np.dtype)


def _text(value):
    """Return a text that distinguishes values of a parameter; objects differ by identity."""
    if isinstance(value, (tuple, list)):
        return "".join(map(_text, value))
    if not isinstance(value, PLAIN):
        return f"at {id(value)}"
    try:
        return f"{value!r} "
    except ValueError:  # integers with thousands of digits cannot be printed
        return f"at {id(value)}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Keep cases with a new pair of values, if a test has three or more parameters.

    With CLHINES_TEST_FIRST_CASES keep one case of each test of the core, all of which has run.
    """
    seen, kept, left_out, pairs_of, core = set(), [], [], {}, set()

    def text(value):  # the same objects come again and again, some of them long to print
        if id(value) not in pairs_of:
            pairs_of[id(value)] = _text(value)
        return pairs_of[id(value)]

    for item in items:
        callspec = getattr(item, "callspec", None)
        values = sorted((n, text(v)) for n, v in callspec.params.items()) if callspec else []
        test = item.nodeid.partition("[")[0]
        pairs = {(test, *pair) for pair in itertools.combinations(values, 2)}
        new = len(values) < 3 or not pairs <= seen
        if "CLHINES_TEST_FIRST_CASES" in os.environ and item.get_closest_marker("core"):
            new = new and test not in core
            core.add(test)
        (kept if new else left_out).append(item)
        seen |= pairs
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_collection_finish(session):
    """Let garbage collections, 0.1 s each, skip the 200,000 imported objects."""
    gc.collect()
    gc.freeze()


def pytest_generate_tests(metafunc):
    """Give `every_queue` every device, `fast_queue` and `queue` every device except simulators.

    If there are only simulators, `queue` uses them.
    """
    for fixture in ("every_queue", "queue", "fast_queue"):
        if fixture not in metafunc.fixturenames:
            continue
        parameters = every = [_parameter(pair) for pair in found()[0]]
        if fixture != "every_queue":
            parameters = [p for p in every if not p.marks]
        if fixture == "queue":
            parameters = parameters or every
        metafunc.parametrize(
            fixture,
            parameters or [pytest.param(None, id="no-device")],
            indirect=True,
            scope="session",
        )


def _queue(pair):
    from clhines.solver.device import devices

    index, device = pair
    if index not in _queues:
        _queues[index] = devices.make_queue(device)
    return _queues[index]


def _must_have(pair):
    """Queue on a device; no device at all is a failure, not a skip."""
    if pair is None:
        pytest.fail(f"the tests need an OpenCL device: {found()[1]}", pytrace=False)
    return _queue(pair)


@pytest.fixture(scope="session")
def queue(request):
    """Queue on one of the devices that are not simulators, if there are any: for numbers.

    Kernels run on the simulator Oclgrind in `tests/kernels/test_oclgrind.py`, with all its checks.
    """
    return _must_have(request.param)


@pytest.fixture(scope="session")
def every_queue(request):
    """Queue on one of all devices: for tests on several platforms."""
    return _must_have(request.param)


@pytest.fixture(scope="session")
def fast_queue(request):
    """Queue on one of the devices that are not simulators: for large or many systems."""
    if request.param is None:
        if not found()[0]:
            pytest.fail(f"the tests need an OpenCL device: {found()[1]}", pytrace=False)
        pytest.skip("only a simulator was found; it is too slow for this test")
    return _queue(request.param)


@pytest.fixture(scope="session")
def needs():
    """Skip if a queue's device lacks float64: ``needs(queue, dtype)``."""
    from clhines.solver.device import devices

    def check(queue, dtype):
        if np.dtype(dtype) == np.float64 and not devices.has_fp64(queue.device):
            pytest.skip(f"{queue.device.name.strip()} has no float64")

    return check


@pytest.fixture(scope="session")
def pocl():
    """A device of PoCL."""
    matches = [d for _, d in found()[0] if "Portable Computing" in d.platform.name]
    if not matches:
        pytest.skip("PoCL is not installed")
    return matches[0]


@pytest.fixture(scope="session")
def double_queue(fast_queue, needs):
    """`fast_queue` on a device with float64."""
    needs(fast_queue, np.float64)
    return fast_queue


@pytest.fixture
def typed_queue(fast_queue, needs, dtype):
    """`fast_queue` on a device that has the `dtype` of the test."""
    needs(fast_queue, dtype)
    return fast_queue
