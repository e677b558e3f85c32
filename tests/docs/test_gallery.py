"""The examples run, end in a picture or a table, and are shown in the gallery."""

import re
import sys
from pathlib import Path

import pytest

import clhines
from clhines.solver.device import devices

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
if not EXAMPLES:
    pytest.skip("no examples here", allow_module_level=True)
sys.path.append(str(ROOT / "docs"))
import outputs  # noqa: E402


def test_there_are_seventeen():
    assert len(EXAMPLES) >= 17


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    text = path.read_text("utf-8")
    for package in re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE):
        pytest.importorskip(package)
    assert len(text.splitlines()) < 60 and text.startswith('"""')
    real = [(k, d) for k, d in devices.all_devices() if not devices.is_simulator(d)]
    monkeypatch.setenv(
        "CLHINES_DEVICE", next((k for k, d in real if devices.is_cpu(d)), real[0][0])
    )
    monkeypatch.chdir(tmp_path)
    results = []
    outputs.run(path, {"__name__": "__main__"}, tmp_path, results)
    outputs.keep(path, results)
    name = f"{path.stem}.png"
    if name in text:
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
        assert (FOLDER / "pictures" / name).is_file()
    else:
        assert len(results[0].text.splitlines()) >= 4


def test_the_gallery_shows_all_with_alt_texts():
    page = "".join(page.read_text("utf-8") for page in FOLDER.glob("*.md"))
    assert {f"{stem}.py" for stem in re.findall(r"\((\w+)\.py\)", page)} == {
        p.name for p in EXAMPLES
    }
    shown = dict(re.findall(r"!\[([^\]]*)\]\(pictures/(\w+\.png)\)", page))
    assert set(shown.values()) == {p.name for p in (FOLDER / "pictures").iterdir()}
    assert all(len(alt) > 30 for alt in shown)


def test_every_picture_of_the_site_has_an_alt_text():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for alt in re.findall(r"!\[([^\]]*)\]", page.read_text("utf-8")):
            assert len(alt) >= 10, page


def test_every_public_name_is_in_the_reference():
    pages = (ROOT / "docs/reference").rglob("*.md")
    text = "".join(page.read_text("utf-8") for page in pages)
    errors = {
        name
        for name in clhines.__all__
        if isinstance(getattr(clhines, name), type)
        and issubclass(getattr(clhines, name), BaseException)
    }
    missing = [n for n in clhines.__all__ if n not in errors and f"clhines.{n}" not in text]
    assert missing == []  # errors come from `clhines.core.errors`


def test_every_environment_variable_is_in_the_reference():
    text = (ROOT / "docs/reference/environment.md").read_text("utf-8")
    sources = [p.read_text("utf-8") for p in (ROOT / "clhines").rglob("*.py")]
    names = {name for source in sources for name in re.findall(r"\bCLHINES_[A-Z_]+\b", source)}
    assert names and all(f"`{name}`" in text for name in names)
