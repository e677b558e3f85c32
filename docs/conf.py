"""The site: `sphinx-build -W -b html docs _site`."""

import configparser
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import clhines
from clhines.plan import examples

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = ROOT / "bench/results"
sys.path.append(str(ROOT))  # behind an installed clhines
sys.path.append(str(HERE))
import outputs  # noqa: E402

from bench import again  # noqa: E402

TEXT_OF = re.compile(r"<!-- text of (\S+) -->\n")
PAGES = {  # file of the repository -> the page that has its text
    match[1]: page.relative_to(HERE)
    for page in HERE.rglob("*.md")
    if (match := TEXT_OF.match(page.read_text("utf-8")))
}

project = "clhines"
author = copyright = "The clhines developers"
version = release = clhines.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "_outputs"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
default_role = "code"
highlight_language = "none"  # literal blocks of docstrings are maps and tables, not Python
napoleon_google_docstring = False
napoleon_use_ivar = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {  # shown by these names, not by what they stand for
    name: name for name in ("ArrayLike", "DTypeLike", "PathLike", "Where", "Value", "MakeRun")
}
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
autodoc_member_order = "bysource"
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = html_favicon = "_static/logo.svg"
copybutton_selector = "div:not(.output) > div.highlight > pre"  # code, not what it prints
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
html_title = f"clhines {release}"
html_show_sourcelink = False


# Pages that would answer to any word.
UNSEARCHED = ("results", "measurements/", "contributing/changelog")


def addresses() -> dict[str, str]:
    """Return the project's addresses by name, from `setup.cfg`; none that is not set yet."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    lines = config["metadata"]["project_urls"].strip().splitlines()
    found = dict(re.split(r"\s*=\s*", line, maxsplit=1) for line in lines)
    return {name: url for name, url in found.items() if ".invalid" not in url}


URLS = addresses()
html_baseurl = URLS.get("Documentation", "")
html_theme_options = {
    "footer_icons": [
        {"name": name, "url": url, "html": name, "class": ""} for name, url in URLS.items()
    ],
}
if "Source" in URLS:  # then each page has links to its text and to an editor
    html_theme_options |= {
        "source_repository": URLS["Source"],
        "source_branch": "main",
        "source_directory": "docs/",
    }


class CommandHelp(Directive):
    """The `--help` of a command: ``clhines-help:: solve``."""

    optional_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Run the command line in a process of its own."""
        words = ["clhines", *self.arguments, "--help"]
        done = subprocess.run(
            [sys.executable, "-m", "clhines.cli", *words[1:]],
            capture_output=True,
            text=True,
            check=True,
            cwd=HERE,
            env={**os.environ, "COLUMNS": "88"},
        )
        text = done.stdout
        return [nodes.literal_block(text, text, language="text")]


class Layouts(Directive):
    """The worked examples of layouts, as `clhines plan --layouts` prints them."""

    def run(self) -> list[nodes.Node]:
        """Compute the page."""
        text = examples.page()
        return [nodes.literal_block(text, text, language="text")]


class Results(SphinxDirective):
    """Every table of `bench/results`, with its picture."""

    def run(self) -> list[nodes.Node]:
        """Make a section for each table."""
        found: list[nodes.Node] = []
        for path in sorted(RESULTS.rglob("*.txt")):
            name = path.relative_to(RESULTS).with_suffix("").as_posix()
            section = nodes.section(ids=[nodes.make_id(name)], names=[name])
            section += nodes.title(text=name)
            picture = picture_of(path, Path(self.env.doctreedir) / "pictures" / f"{name}.svg")
            if picture is not None:
                uri = Path(os.path.relpath(picture, HERE)).as_posix()
                section += nodes.image(uri=uri, alt=f"picture of the table {name}")
            text = path.read_text("utf-8")
            section += nodes.literal_block(text, text, language="text")
            found.append(section)
        return found


def picture_of(table: Path, drawn: Path) -> Path | None:
    """Return the picture of a table: one that is beside it, or one that is drawn now.

    Parameters
    ----------
    drawn : Path
        Where it is drawn, unless it is there and newer than the result.
    """
    kept, source = table.with_suffix(".svg"), table.with_suffix(".json")
    if kept.is_file():
        return kept
    if not source.is_file():
        return None
    result = json.loads(source.read_text("utf-8"))
    draw = getattr(again.module_of(source, result), "draw", None)
    if draw is None:
        return None
    if not drawn.is_file() or drawn.stat().st_mtime < source.stat().st_mtime:
        drawn.parent.mkdir(parents=True, exist_ok=True)
        draw(result, drawn)
    return drawn


def with_text_of(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the text of a file outside `docs` where a page names it, and lead links to pages."""
    found = TEXT_OF.match(source[0])
    base = HERE / Path(docname).parent
    here = base
    if found:
        file = ROOT / found[1]
        app.env.note_dependency(str(file))
        source[0] = file.read_text("utf-8") + source[0][found.end() :]
        here = file.parent

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        path = Path(os.path.normpath(here / target))
        if "://" in target or not target or ROOT not in path.parents:
            return match[0]
        if path.is_dir():
            return text.strip("[]")
        path = HERE / PAGES.get(path.relative_to(ROOT).as_posix(), path)
        return f"{text}({os.path.relpath(path, base)}{anchor or ''})"

    if docname.startswith(UNSEARCHED):
        source[0] = f"---\nnosearch: true\n---\n{source[0]}"
    source[0] = re.sub(r"(\[[^\]]*\])\(([^)\s#]*)(#[^)\s]*)?\)", link, source[0])


def plain_types(*event: object) -> tuple[str | None, ...]:
    """Show aliases in unions of types by their names, which Sphinx wraps."""
    shown = (
        text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", str(text)) for text in event[-2:]
    )
    return tuple(shown)


EXAMPLE = re.compile(r"\((\w+\.py)\)")


def with_code_run(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put outputs below the blocks of a page, and the code below the headings of examples."""
    page = HERE / f"{docname}.md"
    if page.stem == "index" and page.parent.name == "examples":
        return
    kept, base = Path(app.doctreedir) / "pictures", page.parent
    warn = logging.getLogger(__name__).warning

    if base.name == "examples":
        sections = re.split(r"(?m)^(?=## )", source[0])
        for k, section in enumerate(sections):
            for name in EXAMPLE.findall(section):
                script = base / name
                app.env.note_dependency(str(script))
                section += f"\n```{{literalinclude}} {name}\n:language: python\n```\n"
                for output in outputs.outputs_of(script, warn):
                    output.pictures.clear()  # the page has its own
                    section += f"\n{outputs.shown(output, '', kept, base)}\n"
            sections[k] = section
        source[0] = "".join(sections)
        return
    if not any(outputs.pieces(page)):
        return
    found = outputs.outputs_of(page, warn)
    stem = docname.replace("/", "-")
    if "```python" in source[0]:
        file = Path(app.doctreedir) / "notebooks" / f"{page.stem}.ipynb"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(outputs.notebook(source[0], found), "utf-8")
        link = f"{{download}}`Download as a notebook <{os.path.relpath(file, base)}>`"
        link = f":::{{container}} notebook\n{link}\n:::"
        head, title, rest = source[0].partition(re.search(r"^# .*$", source[0], re.M)[0])
        source[0] = f"{head}{title}\n\n{link}\n{rest}"
    source[0] = outputs.with_outputs(source[0], found, stem, kept, base)


def setup(app: Sphinx) -> None:
    """Add the directives, and pages whose text is elsewhere in the repository."""
    app.connect("autodoc-process-signature", plain_types)
    app.connect("source-read", with_text_of)
    app.connect("source-read", with_code_run)
    app.add_directive("clhines-help", CommandHelp)
    app.add_directive("program-output-layouts", Layouts)
    app.add_directive("all-results", Results)
