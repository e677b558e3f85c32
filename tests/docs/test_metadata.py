"""One version, and equal requirements in all files."""

import configparser
import json
import os
import re
import runpy
import shutil
import tarfile
from pathlib import Path

import pytest
from processes import output_of

import clhines

ROOT = Path(__file__).parents[2]
if not (ROOT / "setup.cfg").is_file():
    pytest.skip("not a checkout", allow_module_level=True)


@pytest.fixture(scope="module")
def setup():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    return config


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("CITATION.cff", r"^version: (.*)$"),
        ("docs/citing.md", r"^  version = \{(.*)\},$"),
        (".ci/conda/recipe.yaml", r'^  version: "(.*)"$'),
        ("CHANGELOG.md", r"^## \[(\d.*?)\]"),  # the first, which is the newest
    ],
)
def test_one_version(name, pattern):
    text = (ROOT / name).read_text("utf-8")
    assert re.search(pattern, text, re.MULTILINE).group(1) == clhines.__version__


def test_the_recipe_has_the_requirements_of_setup_cfg(setup):
    recipe = (ROOT / ".ci/conda/recipe.yaml").read_text("utf-8")
    run = re.search(r"^  run:\n((?:    - .*\n)+)", recipe, re.MULTILINE).group(1)
    requirements = {line.strip("- ").replace(" ", "") for line in run.splitlines()}
    wanted = set(setup["options"]["install_requires"].split())
    assert requirements == wanted | {"python" + setup["options"]["python_requires"]}


def test_the_matrix_of_the_forge_has_the_versions_of_the_classifiers(setup):
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    tested = re.findall(r'"(3\.\d+)"', workflow)
    assert tested == re.findall(r"Python :: (3\.\d+)$", setup["metadata"]["classifiers"], re.M)
    assert ".ci/run" in workflow


def test_the_addresses_of_the_project_are_set(setup):
    """Until they are, this test is skipped and names them; a release needs them."""
    lines = setup["metadata"]["project_urls"].strip().splitlines()
    addresses = dict(line.replace(" ", "").split("=", 1) for line in lines)
    assert list(addresses) == ["Source", "Issues", "Documentation"]
    assert all(url.startswith("https://") for url in addresses.values())
    unset = [name for name, url in addresses.items() if ".invalid" in url]
    assert not (unset and os.environ.get("CLHINES_RELEASE")), f"setup.cfg: not set: {unset}"
    if unset:
        pytest.skip(f"setup.cfg: project_urls: not set before the release: {', '.join(unset)}")


def test_every_package_and_its_data_are_listed(setup):
    """Packages are listed one by one: a forgotten one is missing from the wheel."""
    listed = set(setup["options"]["packages"].split())
    packages = {
        ".".join(("clhines", *path.parent.relative_to(ROOT / "clhines").parts))
        for path in (ROOT / "clhines").rglob("__init__.py")
        if "kernels" not in path.parts
    }
    assert listed == packages | {"clhines.kernels"}


def test_programs_in_c_are_installed_beside_their_page(setup):
    """Otherwise the page only names them."""
    lines = setup["options.data_files"]["share/doc/clhines/howto/c"].split()
    installed = {path.name for pattern in lines for path in ROOT.glob(pattern)}
    page = (ROOT / "docs/howto/export.md").read_text("utf-8")
    assert installed == {*re.findall(r"c/(\w+\.(?:cpp|c|h))\b", page)} != set()


def copy_project(folder, *more):
    """Copy files and folders that a build needs, and some more; return the folder."""
    folder.mkdir(exist_ok=True)
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    for name in ("clhines", "kernels", "docs", *more):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_a_build_installs_nothing_that_an_earlier_one_left(tmp_path):
    """setuptools installs all files in build/lib, of whatever age."""
    pytest.importorskip("setuptools")
    copy_project(tmp_path)
    old = tmp_path / "build" / "lib"
    (old / "clhines").mkdir(parents=True)
    (old / "clhines" / "gone.py").write_text("")  # no longer in the package
    (old / "clhines" / "core").mkdir()
    (old / "clhines" / "core" / "errors.py").write_text("")  # newer than the package's
    output_of("setup.py", "-q", "build", cwd=tmp_path)
    assert not (old / "clhines" / "gone.py").exists()
    assert (old / "clhines" / "core" / "errors.py").read_text() == (
        ROOT / "clhines/core/errors.py"
    ).read_text()
    assert list((old / "clhines" / "kernels").glob("*/*/*.mako"))


def test_an_editable_install_is_a_path(tmp_path):
    """Type checkers do not follow the finder that setuptools would write."""
    pytest.importorskip("setuptools")
    copy = copy_project(tmp_path / "checkout")
    output_of("-c", "from setuptools import build_meta; build_meta.build_editable('..')", cwd=copy)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    shutil.unpack_archive(wheel, site, "zip")
    assert [path.suffix for path in site.iterdir() if path.is_file()] == [".pth"]
    assert next(site.glob("*.pth")).read_text().split() == [str(copy)]
    code = (
        f"import site, sys; before = {{*sys.path}}; site.addsitedir({str(site)!r})\n"
        "sys.path.sort(key=lambda path: path in before)  # before another installation\n"
        "from clhines.solver.plan import templates; print(templates.FOLDER)"
    )
    assert Path(output_of("-c", code, cwd=site, PYTHONPATH="").strip()) == copy / "kernels"


URLS = {"Source": "https://source.org/clhines", "Documentation": "https://pages.org/clhines"}


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a](docs/start.md)", "[a](https://pages.org/clhines/start.html)"),
        ("[a](docs/x/y.md#z)", "[a](https://pages.org/clhines/x/y.html#z)"),
        ("[a](CHANGELOG.md)", "[a](https://source.org/clhines/blob/main/CHANGELOG.md)"),
        ("![a b](docs/a.png)", "![a b](https://source.org/clhines/raw/main/docs/a.png)"),
        ("[a](https://b.org/c)", "[a](https://b.org/c)"),
        ("[a](#b)", "[a](#b)"),
    ],
)
def test_links_of_the_page_on_pypi(link, expected):
    names = runpy.run_path(str(ROOT / "setup.py"))
    assert names["absolute"](link, URLS) == expected
    unset = {**URLS, "Source": "https://source.invalid/clhines"}
    assert names["absolute"](link, unset) == link


def test_readme_has_no_relative_link_on_pypi():
    """Also links over two lines; blocks of code stay unchanged."""
    names = runpy.run_path(str(ROOT / "setup.py"))
    text = (ROOT / "README.md").read_text("utf-8")
    page = names["absolute"](text, URLS)
    targets = re.findall(r"\]\(([^)]+)\)", re.sub(r"```.*?```", "", page, flags=re.S))
    assert len(targets) > 20
    assert [t for t in targets if not t.startswith(("https://", "#"))] == []
    code = [re.findall(r"```.*?```", one, flags=re.S) for one in (text, page)]
    assert code[0] == code[1]


def test_the_sdist_has_no_tests(tmp_path):
    """They need results, pages and kernels beside them: a checkout."""
    pytest.importorskip("setuptools")
    copy = copy_project(tmp_path / "checkout", "tests/docs", "bench/papers")
    shutil.copy(ROOT / "MANIFEST.in", copy)
    shutil.copy(__file__, copy / "tests" / "test_any.py")  # setuptools packs it by its name
    output_of("-c", "from setuptools import build_meta; build_meta.build_sdist('..')", cwd=copy)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        meta = archive.extractfile(f"clhines-{clhines.__version__}/PKG-INFO").read().decode()
    assert {"README.md", "LICENSE", "CHANGELOG.md", "setup.cfg"} <= names
    assert not any(name.startswith(("tests", "bench")) for name in names)
    assert "License-Expression: MIT" in meta and "# clhines" in meta


@pytest.mark.parametrize(
    ("system", "machine", "expected"),
    [
        ("linux", "x86_64", ["intel-opencl-rt", "intel-cmplr-lib-rt"]),
        ("win32", "AMD64", ["intel-opencl-rt", "intel-cmplr-lib-rt"]),
        ("linux", "aarch64", []),
        ("darwin", "arm64", []),
        ("darwin", "x86_64", []),
    ],
)
def test_the_runtime_for_cpus_by_platform(setup, system, machine, expected):
    requirements = pytest.importorskip("packaging.requirements")
    where = {"sys_platform": system, "platform_machine": machine}
    lines = setup["options.extras_require"]["cpu"].strip().splitlines()
    named = [requirements.Requirement(line) for line in lines]
    assert [one.name for one in named if one.marker.evaluate(where)] == expected


def test_files_for_people_exist():
    for name in ("CONTRIBUTING", "CODE_OF_CONDUCT", "SECURITY", "CHANGELOG", "README"):
        assert (ROOT / f"{name}.md").stat().st_size > 500


def test_the_notebook_for_colab_runs(tmp_path, monkeypatch, capsys):
    """Its cells in turn, where clhines is installed; a GPU is not looked for."""
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no sh
    (tmp_path / "sh").write_text("#!/bin/false\n")
    (tmp_path / "sh").chmod(0o700)
    cells = json.loads((ROOT / "docs" / "colab.ipynb").read_text("utf-8"))["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            exec("".join(cell["source"]), names)
    assert not names["GPU"] and "5 spikes" in capsys.readouterr().out
