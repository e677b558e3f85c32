"""Settings are in setup.cfg. A build starts afresh: what an earlier one left is not installed."""

import shutil

from setuptools import setup
from setuptools.command.build import build


class FreshBuild(build):
    """Build into an empty folder: setuptools would install modules that no longer exist."""

    def run(self) -> None:
        """Build."""
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build": FreshBuild})
