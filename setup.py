"""Settings are in setup.cfg. A build starts afresh: what an earlier one left is not installed."""

import shutil

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


setup(cmdclass={"build": FreshBuild, "editable_wheel": PathEntry})
