"""The code blocks of README.md and of the site run unchanged, in order, page by page.

`docs/outputs.py` runs them, and keeps their output and pictures for the site.
"""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from clhines.solver.device import devices

ROOT = Path(__file__).parents[2]
if not (ROOT / "docs/outputs.py").is_file():
    pytest.skip("no docs here", allow_module_level=True)
sys.path.append(str(ROOT / "docs"))
import outputs  # noqa: E402

PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    outputs.fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def name_of(page):
    return page.relative_to(ROOT).as_posix()


PAGES_WITH_CODE = [p for p in PAGES if p.is_file() and any(outputs.pieces(p))]
README_IN_CORE = [
    pytest.param(p, marks=[pytest.mark.core] if p.name == "README.md" else [])
    for p in PAGES_WITH_CODE
]


@pytest.mark.skipif(not PAGES_WITH_CODE, reason="no README here")
@pytest.mark.parametrize("page", README_IN_CORE, ids=name_of)
def test_code_blocks(page, folder, monkeypatch):
    """Each block runs; its prints of shapes equal the comments behind them, in order."""
    monkeypatch.setattr("sys.argv", ["clhines"])
    if any("from neuron import" in block for block in python_blocks(page)):
        pytest.importorskip("neuron")
        if not any(not devices.is_simulator(device) for _, device in devices.all_devices()):
            pytest.skip("only a simulator was found; it is too slow for this page")
        done = outputs.run_apart(page, folder)
        assert done.returncode == 0, done.stderr[-2000:]
        return
    names, found = {"__name__": "__main__"}, []  # for blocks below a guard of that name
    try:
        outputs.run(page, names, folder, found)
    except outputs.MissingError as missing:
        pytest.skip(f"needs {missing}")
    outputs.keep(page, found)
    said = re.findall(r"^print\(.*\.shape\)  # (.*)$", "\n".join(python_blocks(page)), re.MULTILINE)
    printed = iter("".join(output.text for output in found).splitlines())
    assert all(line in printed for line in said)
    if page.name == "solving.md":
        a, n = names["solver"].forest, 7
        dense = 4 * np.eye(n)
        for i in np.flatnonzero(a.parent >= 0):
            dense[i, a.parent[i]] = dense[a.parent[i], i] = -1
        expected = np.linalg.solve(dense, np.arange(7.0))
        # |inverse| <= 1 as rows are dominant by 1 at least, |A| <= 7, some 9 roundings an entry
        error = np.abs(names["v"] - expected).max()  # error of `solver.enqueue` in device order
        assert error <= 64 * np.finfo(float).eps * np.abs(expected).max()
    if page.name == "methods.md":
        n = 100
        dense = np.diag(np.full(n, 4.0)) - np.eye(n, k=1) - 0.5 * np.eye(n, k=-1)  # u above
        expected = np.linalg.solve(dense, np.arange(float(n)))
        assert names["new"].forest.heights.tolist() == [51]
        # rows are dominant by 2.5, so that |inverse| <= 0.4; |A| <= 5.5, some 9 roundings an entry
        error = np.abs(names["x"] - expected).max()
        assert error <= 32 * np.finfo(float).eps * np.abs(expected).max()
    if page.name == "analysing.md":
        counts = names["found"]["spike_count"]
        assert counts[0] == 0 and counts[-1] > 1  # below and above the rheobase
    if page.name == "gradients.md":  # the loss is of the order 1e-8 mV² when the search ends
        np.testing.assert_allclose(names["fitted"], [150.0, 0.8, 5e-5], rtol=1e-3)
    if page.name == "simulating.md":
        assert (folder / "state.npz").is_file() and (folder / "network.png").is_file()
        assert len(names["more"].t) == 400  # 10 ms in 0.025 ms steps


PAGE = """# Title

Words with a [link](other.md#place).

```python
print("one")
```

    clhines --help

```console
$ python -c "print(1)"
$ clhines --help
```

```python
print("two")
```
"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A page in a temporary repository, and the output and pictures of its blocks."""
    monkeypatch.setattr(outputs, "ROOT", tmp_path)
    monkeypatch.setattr(outputs, "STORE", tmp_path / "store")
    path = tmp_path / "page.md"
    path.write_text(PAGE, "utf-8")
    results = []
    outputs.run(path, {}, tmp_path, results)
    results[3].pictures.append(("picture.png", "iVBORw0KGgo="))
    return path, results


def test_outputs_are_kept_until_the_page_changes(page):
    path, results = page
    assert [len(f.text) > 20 for f in results] == [False, True, True, False]
    assert outputs.kept(path) is None
    outputs.keep(path, results)
    assert [f.text for f in outputs.kept(path)] == [f.text for f in results]
    path.write_text(PAGE.replace("two", "three"), "utf-8")
    assert outputs.kept(path) is None


def test_outputs_are_below_their_blocks(page):
    path, results = page
    text = outputs.with_outputs(PAGE, results, "page", path.parent / "pictures", path.parent)
    blocks = re.split(r"^`{3,}.*\n", text, flags=re.MULTILINE)
    printed = [b.split()[-1] for b in blocks if b.startswith(":class: output")]
    assert len(printed) == 3 and printed[0] == "one" and printed[2] == "two"
    assert "{image} pictures/page-picture.png" in text.rpartition('print("two")')[2]
    assert (path.parent / "pictures/page-picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_page_is_a_notebook(page):
    _, results = page
    cells = json.loads(outputs.notebook(PAGE, results))["cells"]
    kinds = [cell["cell_type"] for cell in cells]
    assert kinds == ["code", "markdown", "code", "code", "code", "code"]
    sources = ["".join(cell["source"]) for cell in cells]
    assert sources[0] == '%pip install -q ".[cpu]"  # in a checkout of clhines'
    assert sources[1].endswith("Words with a link.")
    assert sources[2:4] == ['print("one")', "!clhines --help"]
    assert sources[4:] == ['!python -c "print(1)"\n!clhines --help', 'print("two")']
    assert cells[2]["outputs"][0]["text"] == ["one"]
    assert cells[5]["outputs"][1]["data"] == {"image/png": "iVBORw0KGgo="}


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ('```python\nnet.plot(\n    path="a.png"\n)  # the figure ends the cell\n```\n', []),
        ('```python\nnet.plot(path="a.png")\nnet.plot(path="b.png")\n```\n', ["a.png"]),
        ('```python\nnet.plot(path="a.png")\nprint(1)\n```\n', ["a.png"]),
        ('```python\nwith style():\n    figure.savefig("a.png")\n```\n', ["a.png"]),
        ("    clhines plan a.swc --plot a.png\n", ["a.png"]),
    ],
)
def test_a_notebook_shows_each_picture_once(block, shown):
    install, *_, cell = json.loads(outputs.notebook(f"# Title\n\n{block}", []))["cells"]
    assert "from IPython.display import Image" in "".join(install["source"]).splitlines()
    lines = "".join(cell["source"]).splitlines()
    assert [line for line in lines if "display(" in line] == [
        f'display(Image("{name}"))' for name in shown
    ]


def test_a_notebook_installs_and_writes_all_that_it_needs():
    page = '```python\nimport bluepyopt\nimport json\n\nnet.plot("cell.swc")\n```\n'
    install, *files = outputs.setup_cell(page).splitlines()
    assert install.startswith('%pip install -q ".[cpu,plot]" bluepyopt  #')
    assert any(line.startswith('Path("cell.swc").write_text(') for line in files)


def anchors(page):
    """The anchors that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in titles}


@pytest.mark.skipif(not PAGES_WITH_CODE, reason="no README here")
def test_links():
    """Relative links lead to files, and their anchors to headings."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        links = re.findall(r"\]\(([^)\s]+)\)", text)
        for link in links:
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            target = Path(os.path.normpath(page.parent / name)) if name else page
            assert target.exists(), (page, link)
            assert not anchor or anchor in anchors(target), (page, link)


@pytest.mark.skipif(not PAGES_WITH_CODE, reason="no README here")
def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 120
    assert lines.count("<!-- main-job -->") == lines.count("<!-- tests -->") == 1
