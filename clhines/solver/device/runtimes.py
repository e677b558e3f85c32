"""Make the OpenCL loader find Intel's CPU runtime if pip has installed it.

The wheel `intel-opencl-rt` registers nothing: its .icd files name a folder of the machine that
built it. The loader in PyOpenCL's wheel reads `OCL_ICD_VENDORS` instead of ``/etc/OpenCL/vendors``.
So this variable is set to a folder with one .icd file for each runtime of the system, and one for
Intel's.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import site
import sys
from pathlib import Path

import pyopencl as cl

from clhines.core.files import cache_folder

_SYSTEM, _FILES = "/etc/OpenCL/vendors", "OCL_ICD_FILENAMES"
_NAMES = {"linux": "lib/libintelocl.so", "win32": "Library/bin/intelocl64.dll"}
_log = logging.getLogger(__name__)


def register() -> None:
    """Register Intel's runtime with the loader; to be called before the first use of OpenCL.

    Nothing changes if the user configures the loader, if the loader is not in PyOpenCL's wheel, or
    if the system registers the runtime.
    """
    library = installed()
    if library is None or any(os.environ.get(name) for name in ("OCL_ICD_VENDORS", _FILES)):
        return
    if sys.platform == "win32":  # not tried: Khronos' loader adds the libraries in this variable
        os.environ[_FILES] = str(library)
        return
    files = _icd_files(Path(os.environ.get("OPENCL_VENDOR_PATH") or _SYSTEM))
    if not _is_of_wheel() or any("libintelocl.so" in text for text in files.values()):
        return
    try:
        os.environ["OCL_ICD_VENDORS"] = str(_folder({**files, "clhines-intel.icd": str(library)}))
    except OSError as error:
        _log.info("Intel's runtime is not registered: %s", error)
        return
    _log.info("Intel's runtime is registered: %s", library)


def installed() -> Path | None:
    """Return the path of the library of `intel-opencl-rt` in this environment, or None."""
    name = _NAMES.get(sys.platform)
    of_system = os.path.join(sys.base_prefix, "local")  # where Debian's and Fedora's pip installs
    roots = dict.fromkeys((sys.prefix, sys.base_prefix, of_system, site.getuserbase()))
    paths = (Path(root, name) for root in roots if root and name)
    return next((path for path in paths if path.is_file()), None)


def _is_of_wheel() -> bool:
    return any((Path(cl.__file__).parent / ".libs").glob("libOpenCL*"))


def _icd_files(folder: Path) -> dict[str, str]:
    texts = {}
    for path in sorted(folder.glob("*.icd")):
        try:
            texts[path.name] = path.read_text("utf-8", "replace").strip()
        except OSError:  # the loader cannot read it, either
            continue
    return texts


def _folder(files: dict[str, str]) -> Path:
    """Return a folder with these `files`, text by name; child processes read it, so it stays."""
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    folder = cache_folder() / "vendors" / digest
    if folder.is_dir():
        return folder
    part = folder.with_name(f"{digest}-{secrets.token_hex(8)}")
    part.mkdir(parents=True)
    for name, text in files.items():
        (part / name).write_text(text + "\n", "utf-8")
    try:
        part.rename(folder)
    except OSError:  # another process was sooner
        shutil.rmtree(part, ignore_errors=True)
        if not folder.is_dir():
            raise
    return folder
