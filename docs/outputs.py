"""Run the code of the pages, and store its text and pictures for the site.

    python docs/outputs.py docs/tutorials/swc.md    # run a page, store its outputs

The tests run pages by this module, and so fill the same store. `conf.py` puts stored outputs into
the site, and runs a page itself if its text or the package has changed. A page runs in a folder
with SWC files only: the sample cells, and a small `cell.swc`.
"""

import ast
import base64
import contextlib
import functools
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
STORE = HERE / "_outputs"  # one file per page; ignored by git
NEEDED = {  # text in a block -> package that it needs
    "import draw": "matplotlib",
    ".plot(": "matplotlib",
}
EXTRAS = {"matplotlib": "plot", "mpi4py": "mpi", "neuron": "neuron", "torch": "torch", "jax": "jax"}
DEVICES = '["0:0", "0:1"]'  # of a machine with two devices; here two halves of a CPU
PIECE = re.compile(r"^```([^\n`]*)\n(.*?)^```$|^    (clhines [^\n]*)$", re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"[\w-]+\.png")
MOST_LINES = 24  # of a block's text; the rest is counted
CELL = """\
# a soma, an apical dendrite that branches, and a basal one
1 1 0 0 0 8 -1
2 4 0 10 0 1.5 1
3 4 0 120 0 1.2 2
4 4 60 200 0 0.8 3
5 4 -70 210 0 0.7 3
6 3 0 -12 0 1.1 1
7 3 20 -150 0 0.6 6
"""


class MissingError(Exception):
    """A page needs a package, or devices, that are not here."""


@dataclass
class Output:
    """What one block printed and drew: text, and pictures as (name, base64)."""

    text: str = ""
    pictures: list[tuple[str, str]] = field(default_factory=list)


def pieces(page: Path) -> Iterator[tuple[bool, str]]:
    """Python blocks and commands, as (is Python, text), in the page's order; a script is one."""
    text = page.read_text("utf-8")
    if page.suffix == ".py":
        yield True, text
        return
    for found in PIECE.finditer(text):
        kind, block, line = found.groups()
        if kind == "python":
            yield True, block
        elif line or kind == "console":
            yield False, line or block


def halves():
    """Two sub-devices of a CPU."""
    import pyopencl as cl

    from clhines.device import devices

    for _, device in devices.all_devices():
        if devices.is_cpu(device) and not devices.is_simulator(device):
            try:
                parts = device.create_sub_devices([cl.device_partition_property.EQUALLY, 1])
            except cl.Error:
                continue
            if len(parts) > 1:
                return [devices.make_queue(part) for part in parts[:2]]
    raise MissingError("two devices")


def call(line: str, folder: Path) -> None:
    """Run a line of the command line; `*.swc` is expanded as a shell would."""
    from clhines.cli.main import main

    words = [
        name
        for word in line.partition(" #")[0].partition("    ")[0].split()[1:]
        for name in (sorted(p.name for p in folder.glob(word)) if "*" in word else [word])
    ]
    try:
        code = main(words)
    except SystemExit as stop:  # of --help
        code = stop.code
    assert code == 0 or words[0] == "doctor", line  # it may report faults of this machine


def run(page: Path, names: dict[str, object], folder: Path, outputs: list[Output]) -> None:
    """Execute a page's pieces in one namespace, and append the output of each.

    Raises MissingError if a package is not installed; `outputs` then has the pieces before it.
    """
    import clhines

    for k, (python, text) in enumerate(pieces(page)):
        needed = [package for needle, package in NEEDED.items() if needle in text]
        if python:
            needed += re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)
        for package in needed:
            if find_spec(package) is None:
                raise MissingError(package)
        if DEVICES in text:
            names["the_halves"] = halves()
            text = text.replace(DEVICES, "the_halves")
        before = {p: p.stat().st_mtime_ns for p in folder.glob("*.png")}
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            if python:
                exec(compile(text, f"{page.name}, piece {k + 1}", "exec"), names)
            else:
                lines = re.findall(r"^(?:\$ )?(clhines .*)$", text, re.MULTILINE)
                for line in lines:
                    if len(lines) > 1:
                        print("$", line)
                    call(line, folder)
        drawn = [p for p in folder.glob("*.png") if p.stat().st_mtime_ns != before.get(p)]
        drawn.sort(key=lambda p: p.stat().st_mtime_ns)
        pictures = [(p.name, base64.b64encode(p.read_bytes()).decode()) for p in drawn]
        text = said.getvalue()
        for known in (folder, Path(clhines.__file__).parent):
            text = text.replace(f"{known}{os.sep}", "")
        outputs.append(Output(text, pictures))


def fill(folder: Path) -> None:
    """Put the cells that pages read into a folder."""
    import clhines

    (folder / "cell.swc").write_text(CELL, "utf-8")
    for path in clhines.sample_swc():
        shutil.copy(path, folder)


@functools.cache
def package() -> bytes:
    """Return a hash of everything in the package."""
    found = hashlib.sha256(Path(__file__).read_bytes())
    for folder, ending in (("clhines", "py"), ("kernels", "mako")):
        for path in sorted((ROOT / folder).rglob(f"*.{ending}")):
            found.update(path.read_bytes())
    return found.digest()


def key(page: Path) -> str:
    """Return a hash of a page and the package."""
    return hashlib.sha256(page.read_bytes() + package()).hexdigest()


def place(page: Path) -> Path:
    """Return the file with the outputs of a page."""
    return STORE / f"{page.resolve().relative_to(ROOT).as_posix().replace('/', '-')}.json"


def keep(page: Path, outputs: list[Output]) -> None:
    """Store the outputs of a page."""
    STORE.mkdir(exist_ok=True)
    stored = {"key": key(page), "outputs": [asdict(output) for output in outputs]}
    part = place(page).with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(stored), "utf-8")
    part.replace(place(page))


def kept(page: Path) -> list[Output] | None:
    """Return the stored outputs of a page, or None if its text or the package has changed."""
    try:
        stored = json.loads(place(page).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if stored["key"] != key(page):
        return None
    return [Output(**output) for output in stored["outputs"]]


def run_apart(page: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a page in a process of its own, which stores its outputs; NEURON keeps what it builds."""
    command = [sys.executable, str(HERE / "outputs.py"), str(page)]
    search = os.pathsep.join([*sys.path, str(ROOT)])  # behind an installed clhines
    environ = {**os.environ, "PYTHONPATH": search}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environ)


def outputs_of(page: Path, warn: Callable[[str], None], may_run: bool = True) -> list[Output]:
    """Return the outputs of a page; if they are not stored, run the page, or leave them out."""
    found = kept(page)
    if found is None and may_run:
        with tempfile.TemporaryDirectory() as folder:
            done = run_apart(page, Path(folder))
        if done.returncode:
            warn(f"{page.name} fails: {done.stderr.strip()[-2000:]}")
        found = kept(page)
    return found or []


def shortened(text: str) -> str:
    """Return the first lines of a text, and how many follow."""
    lines = text.rstrip().splitlines()
    more = len(lines) - MOST_LINES
    return "\n".join(lines if more < 4 else [*lines[:MOST_LINES], f"... {more} more lines"])


def shown(output: Output, stem: str, folder: Path, base: Path) -> str:
    """Return an output as Markdown of a page in `base`; its pictures are written to `folder`."""
    parts = []
    if output.text.strip():
        parts.append(f"`````{{code-block}} text\n:class: output\n\n{shortened(output.text)}\n`````")
    for name, data in output.pictures:
        file = folder / f"{stem}-{name}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(data))
        uri = Path(os.path.relpath(file, base)).as_posix()
        parts.append(f"```{{image}} {uri}\n:alt: {name}, drawn by the code above\n```")
    return "\n\n".join(parts)


def with_outputs(text: str, outputs: list[Output], stem: str, folder: Path, base: Path) -> str:
    """Return the text of a page with the outputs of its blocks below them."""
    following = iter(outputs)

    def below(found: re.Match[str]) -> str:
        if found[3]:
            next(following, None)  # a line within an indented block
        elif found[1] in ("python", "console"):
            output = next(following, None)
            if output and (output.text.strip() or output.pictures):
                return f"{found[0]}\n\n{shown(output, stem, folder, base)}\n"
        return found[0]

    return PIECE.sub(below, text)


def setup_cell(text: str) -> str:
    """Return code that installs the packages of a page, and writes the SWC files that it reads."""
    run = (found for found in PIECE.finditer(text) if found[3] or found[1] in ("python", "console"))
    blocks = "\n".join(found[3] or found[2] for found in run)
    imported = set(re.findall(r"^(?:import|from) (\w+)", blocks, re.MULTILINE))
    imported |= {package for needle, package in NEEDED.items() if needle in blocks}
    extras = sorted({"cpu", *(EXTRAS[name] for name in imported & EXTRAS.keys())})
    others = sorted(imported - EXTRAS.keys() - sys.stdlib_module_names - {"clhines", "numpy"})
    command = " ".join(["%pip install -q", f'".[{",".join(extras)}]"', *others])
    lines = [f"{command}  # in a checkout of clhines"]
    if ".png" in blocks:
        lines += ["from IPython.display import Image"]
    if ".swc" in blocks:
        lines += ["import shutil", "from pathlib import Path", "", "import clhines", ""]
        lines += ["for path in clhines.sample_swc():", '    shutil.copy(path, ".")']
        lines += [f'Path("cell.swc").write_text("""{CELL}""", "utf-8");']
    return "\n".join(lines)


def hidden_pictures(code: str) -> list[str]:
    """Return the pictures that code writes, but for a figure at its end, which a notebook shows."""
    last = ast.parse(code).body[-1]
    if isinstance(last, ast.Expr) and ".plot" in ast.unparse(last):
        code = "\n".join(code.splitlines()[: last.lineno - 1])
    return PICTURE.findall(code)


def notebook(text: str, outputs: list[Output]) -> str:
    """Return a page as a Jupyter notebook.

    Its Python blocks and commands are cells, with their outputs; the first cell installs.
    """
    cells: list[dict[str, object]] = []
    following, end = iter(outputs), 0

    def add(kind: str, source: str, **more: object) -> None:
        if source.strip():
            lines = source.strip("\n").splitlines(keepends=True)
            cells.append({"cell_type": kind, "metadata": {}, "source": lines, **more})

    def prose(part: str) -> None:
        part = re.sub(r"^(:::+|```)\{.*?^\1$", "", part, flags=re.DOTALL | re.MULTILINE)
        add("markdown", re.sub(r"\[([^\]]*)\]\((?!\w+://)[^)]*\)", r"\1", part))

    for found in PIECE.finditer(text):
        output = next(following, None) if found[3] or found[1] in ("python", "console") else None
        commands = found[3] or found[2] if found[3] or found[1] == "console" else ""
        if found[1] != "python" and not commands:
            continue
        prose(text[end : found.start()])
        end = found.end()
        shell = re.findall(r"^(?:\$ )?((?:clhines|python) .*)$", commands, re.MULTILINE)
        source = "\n".join(f"!{line}" for line in shell) if commands else found[2].rstrip()
        names = PICTURE.findall(source) if commands else hidden_pictures(source)
        source += "".join(f'\ndisplay(Image("{name}"))' for name in names)
        results: list[dict[str, object]] = []
        if output and output.text:
            stream = shortened(output.text).splitlines(keepends=True)
            results.append({"output_type": "stream", "name": "stdout", "text": stream})
        for _, data in output.pictures if output else ():
            results.append(
                {"output_type": "display_data", "data": {"image/png": data}, "metadata": {}}
            )
        add("code", source, outputs=results, execution_count=None)
    prose(text[end:])
    add("code", setup_cell(text), outputs=[], execution_count=None)
    cells.insert(0, cells.pop())
    for k, cell in enumerate(cells):
        cell["id"] = f"cell-{k}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False)


def main() -> None:
    """Run the page that is named, in a folder of its own, and keep its outputs."""
    page, outputs = Path(sys.argv[1]).resolve(), []
    sys.argv = ["clhines"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder)
        os.chdir(folder)
        try:
            run(page, {"__name__": "__main__"}, folder, outputs)
        except MissingError as missing:
            print(f"{page.name} needs {missing}", file=sys.stderr)
        os.chdir(HERE)
    keep(page, outputs)


if __name__ == "__main__":
    main()
