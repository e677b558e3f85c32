"""Build the recipe and run its tests without a channel: `python .ci/conda/build.py FOLDER`.

It needs `pip install py-rattler-build`. The packages that the recipe names come from a channel
made here: one that holds a virtual environment with what pip installs, called python, and empty
ones with the names and versions of the others. So recipe, build, contents, entry point and tests
are checked; that conda-forge has these packages is not.
"""

import hashlib
import json
import platform
import re
import subprocess
import sys
from pathlib import Path

import rattler_build as rb

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / ".ci/conda/recipe.yaml"
BUILD = "0_stand_in"


def versions(python: Path, names: list[str]) -> dict[str, str]:
    """Install the packages by pip; name -> version."""
    wanted = [f"{name}[pocl]" if name == "pyopencl" else name for name in names]
    subprocess.run([python, "-m", "pip", "install", "-qU", "wheel", *wanted], check=True)
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=json"], check=True, capture_output=True
    )
    found = {row["name"].lower(): row["version"] for row in json.loads(listed.stdout)}
    return {name: found[name] for name in names}


def add(folder: Path, name: str, version: str, files: Path, level: int = 1) -> dict[str, object]:
    """Write a package into a folder of the channel; its record."""
    depends = [] if name == "python" else ["python"]
    made = rb.assemble_package(
        name, version, folder.name, BUILD, folder,
        files_dir=files, depends=depends, compression_level=level,
    )  # fmt: skip
    data = Path(made.path).read_bytes()
    return {
        "name": name,
        "version": version,
        "build": BUILD,
        "build_number": 0,
        "subdir": folder.name,
        "depends": depends,
        "sha256": hashlib.sha256(data).hexdigest(),
        "md5": hashlib.md5(data).hexdigest(),
        "size": len(data),
    }


def channel_of(folder: Path) -> Path:
    """Make the channel."""
    named = re.findall(r"^ +- ([a-z]+)(?: [>#].*)?$", RECIPE.read_text("utf-8"), re.MULTILINE)
    others = sorted({*named} - {"python", "pocl", "clhines"})
    base, empty = folder / "base", folder / "empty"
    subprocess.run([sys.executable, "-m", "venv", base], check=True)
    python = base / "bin/python"
    found = {**versions(python, others), "pocl": "0"}
    empty.mkdir()
    for path in (folder / "channel/noarch", folder / "channel" / "linux-64"):
        path.mkdir(parents=True)
    records = [add(path, "python", platform.python_version(), base)]
    records += [add(path, name, version, empty) for name, version in found.items()]
    for path in (folder / "channel").iterdir():
        mine = [r for r in records if r["subdir"] == path.name]
        packages = {f"{r['name']}-{r['version']}-{BUILD}.conda": r for r in mine}
        index = {"info": {"subdir": path.name}, "packages": {}, "packages.conda": packages}
        (path / "repodata.json").write_text(json.dumps(index), "utf-8")
    return folder / "channel"


def main(folder: Path) -> None:
    """Build, look for what must be there, and run the tests of the recipe."""
    folder.mkdir(parents=True)
    channel = channel_of(folder).as_uri()
    recipe = rb.Stage0Recipe.from_file(RECIPE)
    tool = rb.ToolConfiguration(use_sharded=False)
    (built,) = recipe.run_build(
        tool_config=tool, output_dir=folder / "out", channels=[channel], no_build_id=True
    )
    package = rb.Package.from_file(built.packages[0])
    held = {str(getattr(file, "path", file)) for file in package.files}
    wanted = {
        f"site-packages/{'clhines/' * (top == 'kernels')}{path.relative_to(ROOT).as_posix()}"
        for top, end in (("clhines", "py"), ("kernels", "mako"))
        for path in (ROOT / top).rglob(f"*.{end}")
        if "clhines/kernels" not in path.as_posix()
    }
    missing = sorted(wanted - held)
    if missing:
        raise SystemExit(f"the package lacks {', '.join(missing)}")
    results = package.run_tests(channel=[channel], use_sharded=False)
    for result in results:
        print(*result.output, sep="\n")
    if not results or not all(result.success for result in results):
        raise SystemExit("the tests of the recipe failed")
    print(f"{package.filename}: {len(held)} files, {len(results)} tests passed")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
