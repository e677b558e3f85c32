"""Self-tests before first use: stub child processes that are wrong, hang or crash; a real fault."""
# ruff: noqa: F811

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from trust_stub import SAYS, _checked, stub  # noqa: F401

from clhines import DeviceError, Forest, Solver
from clhines.core import files
from clhines.solver.device import devices, pocl, trust


def limits_of(queue, family="solve"):
    return trust.limits(queue.device, family, np.float64)


def stored_outcome(device, family, dtype):
    return trust._load(trust._key(device, family, np.dtype(dtype).name))


def needs_cpu(queue):
    if not devices.is_cpu(queue.device):
        pytest.skip("only CPUs have vectors")


def at_the_first_width(bad):
    return lambda family, width: bad if width == 64 else "right"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("wrong", "7 mV off"),
        ("crash", "a crash (signal 11)"),
        ("sleep", "no answer within 2 s"),
        ("spin", "of processor time"),
        ("greedy", "the process ended with code 1"),
        ("exit", "the process ended with code 3"),
    ],
)
def test_narrower_vectors_after_a_fault(stub, fast_queue, monkeypatch, bad, said):
    needs_cpu(fast_queue)
    monkeypatch.setattr(trust, "SECONDS", 2.0 if bad == "sleep" else 60.0)
    real = devices.limits(fast_queue.device)
    monkeypatch.setattr(trust.devices, "limits", lambda _: trust.replace(real, vector_bytes=64))
    started = stub(at_the_first_width(bad))
    with pytest.warns(UserWarning, match="from now on vectors have 32 bytes") as caught:
        limits = limits_of(fast_queue)
    assert (limits.vector_bytes, limits.trusted_bytes) == (32, 32)
    assert said in str(caught[0].message) and "\n" not in str(caught[0].message)
    assert [width for *_, width in started] == [64, 32]
    trust.forget()  # like another process, which reads the cache and starts no child
    assert limits_of(fast_queue) == limits and len(started) == 2
    kept = stored_outcome(fast_queue.device, "solve", np.float64)
    assert kept.widest == 32 and said in kept.said[0]


def test_one_clear_refusal(stub, fast_queue):
    started = stub(lambda family, width: "wrong")
    forest = Forest.from_parents([[-1, 0, 1]])
    for _ in range(2):
        with pytest.raises(DeviceError, match="is wrong in known answers .*7 mV off") as caught:
            Solver(forest, queue=fast_queue)
        assert "\n" not in str(caught.value) and "CLHINES_TRUST=1" in str(caught.value)
    assert [width for *_, width in started] == [64, 32, 16, 8]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_shows_the_check_of_a_device(stub, fast_queue, monkeypatch, capsys, terminal):
    """The check shows once, while a user's first call waits; log files have no line."""
    stub(lambda family, width: "right")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    for _ in range(2):
        limits_of(fast_queue)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == terminal
    name = fast_queue.device.name.strip()
    assert not lines or lines[0].startswith(f"clhines: checking kernels once on {name} (float64, ")


def test_the_switch_leaves_it_out(stub, fast_queue, monkeypatch):
    monkeypatch.setenv(trust.SWITCH, "1")
    started = stub(lambda family, width: "wrong")
    assert limits_of(fast_queue) == devices.limits(fast_queue.device) and not started


@pytest.mark.parametrize("how", ["unsure", "never started", "no such program"])
def test_what_cannot_be_checked_is_used(stub, fast_queue, monkeypatch, how):
    """Without memory or another Python the outcome is unknown and not stored."""
    stub(lambda family, width: "unsure")
    commands = {"never started": [sys.executable, "-c", "1/0"], "no such program": ["/nowhere"]}
    if how in commands:
        monkeypatch.setattr(trust, "command", lambda *_: commands[how])
    why = {"unsure": "had too little memory", "never started": "ended before it began .code 1."}
    why = why.get(how, r"could not be started .*/nowhere")
    said = r"could not be checked for known answers \(solves in vectors, float64\): its process "
    with pytest.warns(UserWarning, match=said + why):
        assert limits_of(fast_queue) == devices.limits(fast_queue.device)
    assert stored_outcome(fast_queue.device, "solve", np.float64) is None


def test_children_check_nothing_and_have_their_own_cache(stub, fast_queue, monkeypatch):
    stub(lambda family, width: "right")
    code = (
        f"import os; {SAYS.format('started')}; good = os.environ['CLHINES_TRUST'] == '1' and "
        "os.environ['POCL_CACHE_DIR'] != os.environ.get('BEFORE') and "
        f"os.path.isdir(os.environ['POCL_CACHE_DIR']); print({trust._WORD!r} + "
        "('right' if good else 'wrong: not so'), flush=True)"
    )
    monkeypatch.setenv("BEFORE", os.environ.get("POCL_CACHE_DIR", ""))
    monkeypatch.setattr(trust, "command", lambda *_: [sys.executable, "-c", code])
    limits_of(fast_queue)
    assert stored_outcome(fast_queue.device, "solve", np.float64).said == ()


def change(**values):
    def changed(text):
        entry = json.loads(text)
        entry["outcome"].update(values)
        return json.dumps(entry)

    return changed


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text[:-9],
        lambda text: "[]",
        lambda text: "__import__('os').abort()",
        change(widest="8"),
        change(widest=1 << 20),
        change(widest=0),  # refused without a reason
        change(seconds=None),
        change(said="x"),
        change(family="steps"),
        change(more=1),
    ],
)
def test_a_spoilt_file_is_ignored(stub, fast_queue, spoil):
    started = stub(lambda family, width: "right")
    limits_of(fast_queue)
    (path,) = files.cache_folder().glob("trust-*.json")
    good = path.read_text()
    path.write_text(spoil(good))
    trust.forget()
    limits_of(fast_queue)
    assert len(started) == 2
    assert json.loads(path.read_text())["outcome"]["widest"] == 64


def test_a_folder_that_cannot_be_written(stub, fast_queue, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLHINES_CACHE_DIR", str(tmp_path / "file" / "folder"))
    started = stub(lambda family, width: "right")
    limits_of(fast_queue)
    limits_of(fast_queue)
    assert len(started) == 1


def test_another_driver_is_another_key(fast_queue, monkeypatch):
    first = files.entry_path("trust", trust._key(fast_queue.device, "solve", "float64"))
    monkeypatch.setattr(trust.clhines, "__version__", "9.9")
    assert files.entry_path("trust", trust._key(fast_queue.device, "solve", "float64")) != first
    monkeypatch.undo()
    monkeypatch.setattr(trust, "digest", lambda: "others")
    assert files.entry_path("trust", trust._key(fast_queue.device, "solve", "float64")) != first


RANK = """
import sys
from clhines.solver.device import devices, trust
def command(*_):
    with open(sys.argv[1], "a") as file:
        file.write("started\\n")
    say = "import time; time.sleep(1); print({word!r} + 'started'); print({word!r} + 'right')"
    return [sys.executable, "-c", say.format(word=trust._WORD)]
trust.command = command
import clhines.solver.tune
device = dict(devices.all_devices())[sys.argv[2]]
trust.limits(device, "solve", "float64")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks of files")
def test_of_several_ranks_one_checks(fast_queue, tmp_path):
    index = next(i for i, d in devices.all_devices() if d == fast_queue.device)
    marker = tmp_path / "told"
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, marker, index]) for _ in range(3)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0, 0]
    assert marker.read_text().splitlines() == ["started"]


def test_a_real_check_of_a_device(fast_queue):
    dtype = np.float64 if devices.has_fp64(fast_queue.device) else np.float32
    assert trust.limits(fast_queue.device, "solve", dtype) == devices.limits(fast_queue.device)
    kept = stored_outcome(fast_queue.device, "solve", dtype)
    assert kept.widest == devices.limits(fast_queue.device).vector_bytes and not kept.said


@pytest.mark.slow
def test_vectors_beyond_the_registers_are_found_out(fast_queue, monkeypatch):
    """If LLVM mistakes the processor, 64 bytes hang or crash: the self-test finds 32."""
    registers, width = pocl.register_bytes(fast_queue.device), 64
    if registers is None or registers >= 4 * fast_queue.device.native_vector_width_float:
        pytest.skip("this device compiles for all the registers that it reports")
    monkeypatch.setattr(trust, "PROCESSOR_SECONDS", 12)
    monkeypatch.setattr(trust, "widths", lambda *_: (width, registers, 16, 8))
    begin = time.monotonic()
    result = trust.examine(fast_queue.device, "solve", np.float64)
    assert result.widest == registers and len(result.said) == 1
    assert f"vectors of {width} bytes: " in result.said[0]
    assert "no answer" in result.said[0] or "crash" in result.said[0] or "off" in result.said[0]
    assert time.monotonic() - begin < trust.SECONDS
