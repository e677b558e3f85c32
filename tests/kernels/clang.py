"""Compile every kernel of the snapshots with clang.

From the root of the checkout; nothing is run, so that the devices need not be there:

    python tests/kernels/clang.py            # all, about a minute
    python tests/kernels/clang.py gpu fine   # lines of snapshots.json with these words

Kernels are compiled for x86-64 and for AMD's gfx90a, those with inline PTX for NVIDIA instead.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import snapshots

from clhines.solver.plan.templates import render

FLAGS = "-cl-std=CL1.2 -finclude-default-header -fdeclare-opencl-builtins -w -O1 -S".split()
TARGETS = {
    "x86-64": ("x86_64-unknown-linux-gnu", "x86-64-v3"),
    "gfx90a": ("amdgcn--amdhsa", "gfx90a"),
    "ptx": ("nvptx64-unknown-nvcl", "sm_80"),
}
BATCH = 8  # sources per process: it starts faster than it compiles one
ERROR = re.compile(r"^(\w+)\.cl:(\d+):\d+: (?:fatal )?error: (.*)$", re.MULTILINE)


@dataclass
class Source:
    """A kernel's source, and the lines of the snapshots with it."""

    text: str
    ptx: bool
    lines: list[str] = field(default_factory=list)

    @property
    def targets(self):
        return ["ptx"] if self.ptx else ["x86-64", "gfx90a"]


def sources(words=()):
    """Name -> `Source` for each text in the snapshots whose line has all `words`."""
    results = {}
    for line, _, specs in snapshots.specs():
        for spec in specs if all(word in line for word in words) else ():
            text = render(spec)
            source = results.setdefault(text, Source(text, getattr(spec, "ptx", False)))
            if line not in source.lines:
                source.lines.append(line)
    return {f"kernel_{k}": source for k, source in enumerate(results.values())}


def why_not():
    """Return the reason why nothing can be compiled here; empty if it can."""
    if shutil.which("clang") is None:
        return "clang is not installed (on Debian: apt-get install clang)"
    targets = subprocess.run(["clang", "-print-targets"], capture_output=True, text=True).stdout
    missing = [t for t in ("x86-64", "amdgcn", "nvptx64") if f" {t} " not in targets]
    return f"clang has no target {missing[0]}" if missing else ""


def compile_all(every):
    """Compile `Source`s by name; return assembly by (name, target), and errors as text."""
    resources = subprocess.run(["clang", "-print-resource-dir"], capture_output=True, text=True)
    include = ["-internal-isystem", f"{resources.stdout.strip()}/include"]
    largest_first = sorted(every, key=lambda name: -len(every[name].text))
    assembly, errors = {}, []

    def compile_some(folder, target, names):
        triple, cpu = TARGETS[target]
        command = ["clang", "-cc1", "-triple", triple, "-target-cpu", cpu, *include, *FLAGS]
        files = [f"{name}.cl" for name in names]
        done = subprocess.run([*command, *files], cwd=folder, capture_output=True, text=True)
        targets = [
            error_text(every[name], target, *rest) for name, *rest in ERROR.findall(done.stderr)
        ]
        if done.returncode and not targets:
            targets = [f"{target}: clang ended with {done.returncode}: {done.stderr[-2000:]}"]
        errors.extend(targets)
        for name in names if not done.returncode else ():
            assembly[name, target] = Path(folder, f"{name}.s").read_text("utf-8")

    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = []
        for target in TARGETS:
            names = [name for name in largest_first if target in every[name].targets]
            folder = Path(root, target)
            folder.mkdir()
            for name in names:
                (folder / f"{name}.cl").write_text(every[name].text, "utf-8")
            count = -(-len(names) // BATCH)
            jobs += [
                pool.submit(compile_some, folder, target, names[k::count]) for k in range(count)
            ]
        for job in jobs:
            job.result()
    return assembly, errors


def error_text(source, target, line, message):
    shown = source.text.splitlines()[int(line) - 1].strip()
    return f"{source.lines[0]}, {target}: line {line}: {message}: {shown}"


if __name__ == "__main__":
    if why_not():
        raise SystemExit(why_not())
    wanted = sources(sys.argv[1:])
    compiled, wrong = compile_all(wanted)
    print("\n".join([*wrong, f"{len(compiled)} compiled"]))
    sys.exit(bool(wrong))
