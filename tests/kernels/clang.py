"""Compile every kernel of the snapshots with clang, and print registers and spills.

From the root of the checkout; nothing is run, so that the devices need not be there:

    python tests/kernels/clang.py            # all, about a minute
    python tests/kernels/clang.py gpu fine   # lines of snapshots.json with these words

Kernels are compiled for x86-64 and for AMD's gfx90a, those with inline PTX for NVIDIA instead,
whose virtual registers are not counted. A row has the largest numbers of all forms of a kernel.
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
KERNEL = re.compile(r"__kernel\b[^;{]*?\bvoid\s+(\w+)\(")
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


def usage(target, kernel, assembly):
    """A kernel's registers and spills, by table column."""
    if target == "gfx90a":
        entries = assembly[assembly.index("amdhsa.kernels:") :].split("\n  - ")
        entry = next(e for e in entries if re.search(rf"^    \.name: +{kernel}$", e, re.MULTILINE))
        number = {n: int(x) for n, x in re.findall(r"^    \.(\w+): +(\d+)$", entry, re.MULTILINE)}
        return {
            "vgpr": number["vgpr_count"],
            "sgpr": number["sgpr_count"],
            "spills": number["vgpr_spill_count"] + number["sgpr_spill_count"],
            "private": number["private_segment_fixed_size"],
            "local": number["group_segment_fixed_size"],
        }
    body = assembly[assembly.index(f"\n{kernel}:") :]
    body = body[: body.index(".Lfunc_end")]
    return {"ymm": len(set(re.findall(r"%[xy](mm\d+)", body))), "spills": body.count("Spill")}


def rows(every, assembly):
    """(line, kernel) -> number of forms, and by (target, column) the largest among all forms."""
    results = {}
    for name, source in every.items():
        for line in source.lines:
            for kernel in KERNEL.findall(source.text):
                forms, most = results.get((line, kernel), (0, {}))
                for target in set(source.targets) - {"ptx"}:
                    for column, value in usage(target, kernel, assembly[name, target]).items():
                        key = target, column
                        most[key] = max(most.get(key, 0), value)
                results[line, kernel] = forms + 1, most
    return results


def table(every, assembly):
    """Return the rows as text."""
    columns = [("x86-64", c) for c in ("ymm", "spills")]
    columns += [("gfx90a", c) for c in ("vgpr", "sgpr", "spills", "private", "local")]
    lines = ["line; kernel | forms | x86-64: ymm, spills | gfx90a: VGPRs, SGPRs, spills, bytes"]
    for (line, kernel), (forms, most) in rows(every, assembly).items():
        numbers = "".join(f"{most.get(c, '-'):>8}" for c in columns)
        lines.append(f"{line + '; ' + kernel:<66}{forms:>5}{numbers}")
    return "\n".join(lines)


if __name__ == "__main__":
    if why_not():
        raise SystemExit(why_not())
    wanted = sources(sys.argv[1:])
    compiled, wrong = compile_all(wanted)
    print("\n".join(wrong) if wrong else table(wanted, compiled))
    sys.exit(bool(wrong))
