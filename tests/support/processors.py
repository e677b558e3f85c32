"""Compile kernels for processors that are not here, for `test_processors.py`.

Nothing runs under another name. The sources of the README's examples, of `clhines solve`, of the
ring and of a cell with a .mod file, by steps and by epochs, are collected without any launch. Then
a process whose PoCL has the other name and library compiles them when asked for the programs'
binaries. A program that takes more than `LIMIT` seconds counts as endless.
"""

import contextlib
import io
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 100.0  # s for one program; others take up to 10
# LLVM's name, PoCL's library, bytes of vectors (None: clhines' choice)
ROWS = (
    *((name, "avx512", None) for name in "skylake-avx512 cascadelake icelake-client".split()),
    *((name, "avx512", None) for name in "icelake-server tigerlake sapphirerapids".split()),
    *((name, "avx2", None) for name in "znver1 znver2 znver3 haswell skylake alderlake".split()),
    ("x86-64", "sse2", None),
    ("x86-64-v2", "sse41", None),
    ("x86-64-v3", "avx2", None),
    ("x86-64-v4", "avx512", None),
    # newer than LLVM: Zen 4 and 5 are called `znver3`, others `generic`, which gets a level
    ("znver3", "avx512", None),
    ("x86-64-v4", "avx512", 32),
    ("x86-64", "avx", None),
)
# Wider than the registers of the name, which the library uses: must not end.
WRONG = (("x86-64", "avx", 32), ("znver3", "avx512", 64))
MOD = """NEURON { SUFFIX na USEION na READ ena WRITE ina RANGE gbar }
PARAMETER { gbar = 1e-3 (S/cm2) }
ASSIGNED { v (mV) ena (mV) ina (mA/cm2) minf }
STATE { m }
BREAKPOINT { SOLVE states METHOD cnexp ina = gbar*m*m*(v - ena) }
INITIAL { rates(v) m = minf }
DERIVATIVE states { rates(v) m' = (minf - m)/2 }
PROCEDURE rates(v (mV)) { minf = 1/(1 + exp(-(v + 30)/8)) }
"""
CELL = (
    "1 1 0 0 0 8 -1\n2 4 0 10 0 1.5 1\n3 4 0 120 0 1.2 2\n4 4 60 200 0 0.8 3\n5 4 -70 210 0 0.7 3\n"
)
COMMANDS = (
    ["solve", "--cells", "24", "--steps", "1"],
    ["solve", "--cells", "24", "--steps", "1", "--method", "fine"],
    ["solve", "--cells", "24", "--steps", "1", "--method", "fine", "--dtype", "float32"],
    ["solve", "--cells", "24", "--steps", "1", "--method", "block_interleaved"],
)


def collect(width, path):
    """Write the sources of all programs, with vectors of `width` bytes, and their options."""
    import pyopencl as cl

    import clhines
    from bench import ring
    from clhines.cli.main import main
    from clhines.solver.device import devices, program

    devices._vector_bytes = lambda device: (width, width)
    results = {}
    build = program._build

    def recorded(context, source, options):
        results[source] = options
        return build(context, source, options)

    program._build = recorded
    cl.enqueue_nd_range_kernel = lambda queue, *_, **__: cl.enqueue_marker(queue)
    cl.Kernel.__call__ = lambda self, queue, *_, **__: cl.enqueue_marker(queue)
    text = (ROOT / "README.md").read_text("utf-8")
    Path("cell.swc").write_text(CELL)
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        attempt(exec, block, names)
    for command in COMMANDS:
        attempt(main, command)
    for hh in ("soma", "all"):
        network = ring.ring_network(ring.ring_cables(64, levels=2), hh=hh)
        attempt(simulate, clhines, network)
    for engine in ("epochs", "steps"):
        attempt(mod_cells, clhines, engine)
    Path(path).write_text(json.dumps(list(results.items())))


def attempt(function, *arguments):
    """Call with launches left out; the call may report wrong results."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        function(*arguments)


def simulate(clhines, network):
    clhines.Simulation(network).run(0.1)


def mod_cells(clhines, engine):
    """A network of the README's cell with channels of a .mod file."""
    cable = clhines.discretise(clhines.read_swc("cell.swc"), max_length=30)
    net = clhines.Network([cable], num_cells=64)
    net.insert(clhines.Mechanism.from_nmodl(MOD), at="all")
    net.insert("hh", at="soma")
    synapses = net.add("expsyn", at=net.soma)
    net.connect([63, *range(63)], synapses, weight=0.05, delay=1.0)
    clhines.Simulation(net, dt=0.025, engine=engine).run(0.1)


def compile_all(name, path):
    """Compile the programs of `collect` for a processor; one line of JSON for each."""
    import ctypes

    import pyopencl as cl

    from clhines.solver.device import pocl

    (platform,) = cl.get_platforms()
    (device,) = platform.get_devices()
    triple, processor = re.search(r"-(x86_64-\w+-\w+-\w+)-(\S+)$", device.version.strip()).groups()
    if name != processor:
        field = pocl._find_name(device.int_ptr, triple.encode(), processor.encode())
        kept = ctypes.create_string_buffer(name.encode())
        ctypes.c_void_p.from_address(field).value = ctypes.addressof(kept)
    context = cl.Context([device])
    for source, options in json.loads(Path(path).read_text()):
        print(
            json.dumps({"of": re.findall(r"__kernel.*?void\s+(\w+)", source, re.DOTALL)}),
            flush=True,
        )
        begin = time.perf_counter()
        program = cl.Program(context, source).build(options)
        sizes = [len(binary) for binary in program.get_info(cl.program_info.BINARIES)]
        seconds = time.perf_counter() - begin
        print(json.dumps({"done": program.num_kernels, "bytes": sizes, "s": seconds}), flush=True)
    os._exit(0)  # PoCL cannot release its data for a foreign processor


def environment(folder):
    """Environment of a child, whose PoCL is the copy in a folder, with an empty cache."""
    return {
        **{k: v for k, v in os.environ.items() if k != "OCL_ICD_VENDORS"},
        "POCL_CACHE_DIR": str(folder / "cache"),
        "CLHINES_DEVICE": "pocl",
        "MALLOC_PERTURB_": "255",  # results of launches that are left out are 0
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT), *sys.path]),
    }


def copied_pocl(folder, library):
    """Copy the wheels; each library of built-in functions becomes `library`."""
    import pocl_binary_distribution
    import pyopencl

    for package in (pocl_binary_distribution, pyopencl):
        origin = Path(package.__file__).parent
        shutil.copytree(origin, folder / origin.name, copy_function=link)
    for path in (folder / "pyopencl" / ".libs").glob("*.icd"):
        if path.name != "pocl.icd":
            path.unlink()
    share = folder / "pocl_binary_distribution" / ".libs" / "share" / "pocl"
    chosen = (share / f"kernel-x86_64-unknown-linux-gnu-{library}.bc").read_bytes()
    for path in share.glob("kernel-*.bc"):
        path.unlink()  # a link
        path.write_bytes(chosen)


def link(origin, place):
    """Link a file, or copy it if links fail."""
    try:
        os.link(origin, place)
    except OSError:
        shutil.copy(origin, place)


def child(folder, *words):
    """Start this file with other words."""
    command = [sys.executable, str(Path(__file__).resolve()), *words]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def sources(width, folder):
    """Return the path of the sources with vectors of `width` bytes, which are collected once."""
    path = folder / f"{width}.json"
    if not path.exists():
        place = folder / f"collect-{width}"
        copied_pocl(place, "avx2")
        assert child(place, "--collect", str(width), str(path)).wait(600) == 0
    return path


def compiled(name, library, path, folder, limit=LIMIT):
    """Compile all sources for a processor; return kernels, seconds and errors."""
    copied_pocl(folder, library)
    process = child(folder, "--compile", name, str(path))
    lines = queue.Queue()
    threading.Thread(target=lambda: [*map(lines.put, process.stdout), lines.put("")]).start()
    kernels, seconds, last = 0, 0.0, "nothing"
    try:
        while line := lines.get(timeout=limit):
            said = json.loads(line)
            last = " ".join(said.get("of", [last]))
            kernels, seconds = kernels + said.get("done", 0), seconds + said.get("s", 0.0)
        code = process.wait()
        return kernels, seconds, f"ends with {code} in {last}" if code else ""
    except queue.Empty:
        return kernels, seconds, f"no end in {last}"
    finally:
        process.kill()
        process.wait()


def width_of(name):
    """Return the bytes of vectors that clhines uses for a name."""
    from clhines.solver.device import pocl

    return next((size for size, names in pocl._REGISTERS.items() if name in names), pocl._OTHER)


if __name__ == "__main__":
    way, one, path = sys.argv[1:]
    collect(int(one), path) if way == "--collect" else compile_all(one, path)
