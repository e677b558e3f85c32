"""Python in processes of its own."""

import os
import subprocess
import sys


def run_python(*arguments, timeout=120, cwd=None, **environment):
    """Run Python with arguments and further variables; return its code and its output."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )


def output_of(*arguments, **options):
    """Return what Python prints; its process must end well."""
    done = run_python(*arguments, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
