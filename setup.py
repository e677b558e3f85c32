"""Settings are in setup.cfg. A build starts afresh: what an earlier one left is not installed."""

import configparser
import posixpath
import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build import build
from setuptools.command.editable_wheel import editable_wheel


class FreshBuild(build):
    """Build into an empty folder: setuptools would install modules that no longer exist."""

    def run(self) -> None:
        """Build."""
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class PathEntry(editable_wheel):
    """Install the checkout by a path entry, which type checkers follow.

    A package in another place than its name says, `clhines.kernels`, would need a finder, which
    they do not. In a checkout templates are read from ``kernels``.
    """

    def finalize_options(self) -> None:
        """Leave out that package, and name the folder of the others."""
        self.distribution.packages.remove("clhines.kernels")
        self.distribution.package_dir = {"": "."}
        super().finalize_options()


def absolute(text: str, urls: dict[str, str]) -> str:
    """Return README with absolute links and pictures, as PyPI needs them; without addresses as is.

    Pages of the documentation are on its site, other files in the repository.
    """
    if any(".invalid" in url for url in urls.values()):
        return text

    def link(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        path, hash_mark, anchor = target.partition("#")
        if "://" in target or not path:
            return match[0]
        path = posixpath.normpath(path)
        if path.startswith("docs/") and path.endswith(".md"):
            place = f"{urls['Documentation']}/{path[5:-3]}.html"
        else:
            place = f"{urls['Source']}/{'raw' if mark else 'blob'}/main/{path}"
        return f"{mark}[{words}]({place}{hash_mark}{anchor})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def description() -> str:
    """Return the text of the project's page on PyPI."""
    config = configparser.ConfigParser()
    config.read("setup.cfg", "utf-8")
    lines = config["metadata"]["project_urls"].strip().splitlines()
    urls = dict(re.split(r"\s*=\s*", line, maxsplit=1) for line in lines)
    return absolute(Path("README.md").read_text("utf-8"), urls)


if __name__ == "__main__":
    setup(
        cmdclass={"build": FreshBuild, "editable_wheel": PathEntry},
        long_description=description(),
    )
