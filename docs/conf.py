"""The site: `sphinx-build -W -b html docs _site`.

It runs the code of each page whose outputs are not stored, for minutes; `-D run_pages=0` does not.
"""

import configparser
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import clhines
from clhines.simulator.refusals import REFUSALS

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = ROOT / "bench/results"
sys.path.append(str(ROOT))  # behind an installed clhines
sys.path.append(str(HERE))
import layouts  # noqa: E402
import outputs  # noqa: E402
import tables  # noqa: E402

from bench import MissingError, again  # noqa: E402

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
    """The worked examples of layouts."""

    def run(self) -> list[nodes.Node]:
        """Compute the page."""
        text = layouts.page()
        return [nodes.literal_block(text, text, language="text")]


class ResultTable(SphinxDirective):
    """A table whose numbers come from a file of `bench/results`: ``result-table:: NAME``."""

    required_arguments = 1
    option_spec: ClassVar = {"where": str}
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Print the table, and a link to the whole file below it."""
        (name,) = self.arguments
        try:
            lines = tables.printed(name, self.options.get("where", ""), [*self.content])
        except tables.TableError as error:
            raise self.error(str(error)) from error
        table = nodes.container(classes=["result-table"])
        self.state.nested_parse(StringList(lines, self.env.docname), self.content_offset, table)
        page = self.env.app.builder.get_relative_uri(self.env.docname, "results")
        link = nodes.reference("", name, refuri=f"{page}#{nodes.make_id(name)}")
        self.env.note_dependency(str(RESULTS / f"{name}.json"))
        return [table, nodes.paragraph("", "", link, classes=["source-of-table"])]


class Refusals(SphinxDirective):
    """The catalogue of refusals whose ids begin with a word: a table of them."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        lines = ["| id | what is refused | what to do |", "| --- | --- | --- |"]
        for name, (sentence, way_out) in sorted(REFUSALS.items()):
            if name.startswith(self.arguments[0] + "."):
                shown = re.sub(r"\{(\w+)[^}]*\}", r"*\1*", sentence.replace("|", "\\|"))
                lines.append(f"| `{name}` | {shown} | {way_out} |")
        table = nodes.container()
        self.state.nested_parse(StringList(lines, self.env.docname), self.content_offset, table)
        self.env.note_dependency(str(ROOT / "clhines" / "simulator" / "refusals.py"))
        return [table]


class Library(SphinxDirective):
    """The mechanisms of the library: a section for each, with its curves and its parameters."""

    def run(self) -> list[nodes.Node]:
        """Draw the curves, and make the sections; the descriptions are in the page's table."""
        page = (HERE / "reference/library.md").read_text("utf-8")
        about = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
        folder = Path(self.env.doctreedir) / "library"
        source = HERE / "examples/library_curves.py"
        for path in (source, ROOT / "clhines/simulator/mechanisms/library.py"):
            self.env.note_dependency(str(path))
        whole = nodes.section(ids=["curves-and-parameters"])
        whole += nodes.title(text="Curves and parameters")
        for name, title in self.curves(source, folder).items():
            mechanism = getattr(clhines.library, name)
            uri = Path(os.path.relpath(folder / f"{name}.svg", HERE / "reference")).as_posix()
            lines = [f"{about[name][0].upper()}{about[name][1:]}.", ""]
            lines += [f"```{{image}} {uri}", f":alt: {title}", "```", ""]
            if mechanism.defaults:
                lines += ["| parameter | default | unit |", "| --- | ---: | --- |"]
            for parameter, value in mechanism.defaults.items():
                unit = mechanism.units.get(parameter, "")
                lines.append(f"| `{parameter}` | {value:g} | {unit} |")
            section = nodes.section(ids=[nodes.make_id(name)])
            section += nodes.title(text=name)
            text = StringList(lines, self.env.docname)
            self.state.nested_parse(text, self.content_offset, section)
            whole += section
        return [whole]

    def curves(self, source: Path, folder: Path) -> dict[str, str]:
        """Draw each mechanism that has curves; return the texts that stand for the pictures."""
        folder.mkdir(parents=True, exist_ok=True)
        names = runpy.run_path(str(source))
        drawn = {name: f"gates of {name} over voltage" for name in names["CHANNELS"]}
        traces: dict[str, list[str]] = {}
        rows = names["traces"]()
        for title in rows:
            traces.setdefault(title.partition(",")[0], []).append(title)
        with clhines.draw.style():
            for name in (*drawn, *traces):
                figure = names["Figure"](figsize=(4.5, 2.6), layout="constrained")
                axes = figure.subplots()
                if name in drawn:
                    names["plot_gates"](name, axes)
                    axes.set(title="", xlabel="cai [mM]" if name == "sk" else "v [mV]")
                for title in traces.get(name, ()):
                    t, values, until = rows[title]
                    axes.plot(t, values, label=title.partition(", ")[2])
                    axes.set(xlim=(0, until), xlabel="t [ms]")
                figure.savefig(folder / f"{name}.svg")
        return {**drawn, **{name: f"{name} in time" for name in traces}}


class CostTable(SphinxDirective):
    """The switch's estimate from which length of a run on the device ends sooner than NEURON."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        table = nodes.container()
        lines = StringList(tables.break_even_table(), self.env.docname)
        self.state.nested_parse(lines, self.content_offset, table)
        return [table]


class Results(SphinxDirective):
    """Every result of `bench/results`: a table of their age, then each with its picture."""

    def run(self) -> list[nodes.Node]:
        """Make a section for each result."""
        sections: list[nodes.Node] = []
        head = "| result | device | measured at commit | changes of `kernels/` since |"
        ages = [head, "| --- | --- | --- | ---: |"]
        for path in sorted(p for p in RESULTS.rglob("*") if p.suffix in (".json", ".txt")):
            name = path.relative_to(RESULTS).with_suffix("").as_posix()
            text, device, commit, picture = self.contents(path, name)
            label = nodes.make_id(name)
            section = nodes.section(ids=[label], names=[label])
            self.state.document.note_explicit_target(section)
            section += nodes.title(text=name)
            if picture is not None:
                uri = Path(os.path.relpath(picture, HERE)).as_posix()
                section += nodes.image(uri=uri, alt=f"picture of the table {name}")
            section += nodes.literal_block(text, text, language="text")
            sections.append(section)
            age = f"{commit or '-'} | {tables.changes(commit)}"
            ages.append(f"| [{name}](#{label}) | {device} | {age} |")
        table = nodes.container()
        self.state.nested_parse(StringList(ages, self.env.docname), 0, table)
        return [table, *sections]

    def contents(self, path: Path, name: str) -> tuple[str, str, str, Path | None]:
        """Return a result as text, its device, its commit and its picture."""
        if path.suffix == ".txt":  # of the papers, whose head has the device
            head, _, text = path.read_text("utf-8").partition("\n\n")
            device, _, commit = " ".join(head.splitlines()[1:]).partition(", commit ")
            return text, device, commit, None
        text = path.read_text("utf-8")
        result = json.loads(text)
        record = result.get("record", {})
        try:
            module = again.module_of(path, result)
        except MissingError:  # `runtimes`, of a script of the tests
            return text, record["device"], record["commit"], None
        text = f"{module.text(result)}\n\n{record.get('command', result.get('command', ''))}"
        kept = path.with_suffix(".svg")
        drawn = kept if kept.is_file() else None
        if drawn is None and hasattr(module, "draw"):
            drawn = Path(self.env.doctreedir) / "pictures" / f"{name}.svg"
            if not drawn.is_file() or drawn.stat().st_mtime < path.stat().st_mtime:
                drawn.parent.mkdir(parents=True, exist_ok=True)
                module.draw(result, drawn)
        return text, record.get("device", ""), record.get("commit", ""), drawn


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
        if RESULTS in path.parents and path.suffix in (".json", ".txt"):
            return f"{text}(#{nodes.make_id(path.relative_to(RESULTS).with_suffix('').as_posix())})"
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
                for output in outputs.outputs_of(script, warn, app.config.run_pages):
                    output.pictures.clear()  # the page has its own
                    section += f"\n{outputs.shown(output, '', kept, base)}\n"
            sections[k] = section
        source[0] = "".join(sections)
        return
    if not any(outputs.pieces(page)):
        return
    found = outputs.outputs_of(page, warn, app.config.run_pages)
    stem = docname.replace("/", "-")
    if "```python" in source[0]:
        file = Path(app.doctreedir) / "notebooks" / f"{docname}.ipynb"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(outputs.notebook(source[0], found), "utf-8")
        link = f"{{download}}`Download as a notebook <{os.path.relpath(file, base)}>`"
        link = f":::{{container}} notebook\n{link}\n:::"
        head, title, rest = source[0].partition(re.search(r"^# .*$", source[0], re.M)[0])
        source[0] = f"{head}{title}\n\n{link}\n{rest}"
    source[0] = outputs.with_outputs(source[0], found, stem, kept, base)


def setup(app: Sphinx) -> None:
    """Add the directives, and pages whose text is elsewhere in the repository."""
    app.add_config_value("run_pages", True, "env")
    app.connect("autodoc-process-signature", plain_types)
    app.connect("source-read", with_text_of)
    app.connect("source-read", with_code_run)
    app.add_directive("clhines-help", CommandHelp)
    app.add_directive("program-output-layouts", Layouts)
    app.add_directive("result-table", ResultTable)
    app.add_directive("all-results", Results)
    app.add_directive("refusals", Refusals)
    app.add_directive("cost-table", CostTable)
    app.add_directive("library", Library)
