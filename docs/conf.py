"""The site: `sphinx-build -W -b html docs build/site`."""

import os
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

import clhines

HERE = Path(__file__).parent

project = "clhines"
author = "The clhines developers"
version = release = clhines.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
default_role = "code"
napoleon_google_docstring = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_title = f"clhines {release}"
html_show_sourcelink = False


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
            env={**os.environ, "COLUMNS": "88"},
        )
        text = done.stdout
        return [nodes.literal_block(text, text, language="text")]


def setup(app) -> None:  # noqa: ANN001
    """Add the directive."""
    app.add_directive("clhines-help", CommandHelp)
