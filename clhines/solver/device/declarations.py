"""Declare to PoCL only the OpenCL functions that a program calls, to build it faster.

PoCL parses ``opencl-c.h``, 18,000 lines that declare all functions of OpenCL C, for each program:
0.9 of the time of a small build. So a program is built with the header's include guard defined, and
begins with the header's declarations of the functions that it calls. If it does not build, it is
built again with the whole header.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pyopencl as cl

GUARD = "_OPENCL_H_"
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*\*/|[ \t]*//.*")


def minimal(device: cl.Device, source: str) -> tuple[str, list[str]]:
    """Return `source` with only the declarations it needs, and the build options for this.

    The source stays unchanged if the device is not PoCL's, or PoCL's header has an unknown format.
    """
    header = _pocl_header() if "Portable Computing" in device.platform.name else None
    if header is None or not _lines_of(header) or "##" in source:  # "##" may make any name
        return source, []
    return f"{declarations(header, source)}#line 1\n{source}", [f"-D{GUARD}"]


def declarations(header: Path, source: str) -> str:
    """Return the header's declarations of functions that `source` uses, inside their #if lines."""
    words = set(re.findall(r"\w+", source))
    lines, begins = list[str](), list[int]()
    for name, line in _lines_of(header):
        if line.startswith("#endif"):
            begin = begins.pop()
            if all(text.startswith(("#if", "#el")) for text in lines[begin:]):
                del lines[begin:]
                continue
        elif line.startswith("#if"):
            begins.append(len(lines))
        elif name and name not in words:
            continue
        lines.append(line)
    return "".join(lines)


@lru_cache(maxsize=1)
def _lines_of(header: Path) -> list[tuple[str, str]]:
    """Return (name of the declared function or "", line) for each line of a header."""
    text = header.read_text("utf-8").replace("\\\n", "")
    body = text.partition(f"#define {GUARD}\n")[2].rpartition("#endif")[0]
    lines, begun = list[tuple[str, str]](), ""
    for line in _COMMENT.sub("", body).split("\n"):
        begun += f" {line}" if begun else line
        if line[:1] == "#" or line[-1:] == ";":
            name = begun.partition("(")[0].rpartition(" ")[2]
            if not begun.startswith("#include"):
                lines.append((name if begun[0] != "#" else "", begun + "\n"))
            begun = ""
    return lines


@lru_cache(maxsize=1)
def _pocl_header() -> Path | None:
    try:
        maps = Path("/proc/self/maps").read_text("utf-8", "replace")
    except OSError:  # not Linux
        return None
    libraries = {Path(path) for path in re.findall(r"(/\S*/libpocl[-.\w]*\.so[.\d]*)\n", maps)}
    folders = ("../pocl_binary_distribution/.libs/share/pocl", "share/pocl")
    headers = [
        header
        for library in libraries
        for folder in folders
        if (header := library.parent.parent / folder / "include" / "opencl-c.h").is_file()
    ]
    return headers[0] if len(headers) == 1 else None
