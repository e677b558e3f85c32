"""Make PoCL build correct kernels on processors that are newer than its compiler.

PoCL chooses built-in functions and vector widths by the processor's features, but compiles for the
name that LLVM has for it. LLVM 14 calls AMD's Zen 4 ``znver3``, which has no AVX-512: then vectors
of 64 bytes are passed in registers that the called function does not read. So clhines uses vectors
that fit into the registers of the *named* processor (`register_bytes`).

LLVM calls an unknown processor ``generic``, and no kernel builds for this name (PoCL issue 1049).
PoCL has no setting for the name. So `name_processor` replaces it in PoCL's record of the device in
memory by the x86-64 level that the processor reports, if the record looks exactly as expected.
"""

from __future__ import annotations

import ctypes
import re
import struct

import pyopencl as cl

from clhines.core.checks import is_switched_on

# LLVM's names for x86-64 levels, and the /proc/cpuinfo flags that each requires
_LEVELS: tuple[tuple[bytes, set[str]], ...] = (
    (b"x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma"}),
    (b"x86-64-v3", {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "abm"}),
    (b"x86-64", set()),
)
# Vector register bytes, and LLVM's names for x86-64 processors that have them; all other names,
# also on other architectures, count as `_OTHER`.
_REGISTERS: dict[int, frozenset[str]] = {
    64: frozenset(
        "knl knm skylake-avx512 skx cascadelake cooperlake cannonlake icelake-client "
        "icelake-server rocketlake tigerlake sapphirerapids emeraldrapids graniterapids "
        "graniterapids-d znver4 znver5 x86-64-v4".split()
    ),
    32: frozenset(
        "sandybridge ivybridge haswell broadwell skylake alderlake raptorlake meteorlake "
        "arrowlake bdver1 bdver2 bdver3 bdver4 btver2 znver1 znver2 znver3 x86-64-v3".split()
    ),
    16: frozenset("x86-64 x86-64-v2 nehalem westmere core2 penryn k8 amdfam10 btver1".split()),
}
_SIZES = {"double": 8, "real": 8, "long": 8, "ulong": 8, "float": 4, "int": 4, "uint": 4}
_VECTOR = re.compile(rf"\b({'|'.join(_SIZES)})(2|4|8|16)\b")
_UNNAMED = re.compile(r"-(x86_64-[\w-]+)-generic\s*$")
_OTHER = 32
SWITCH = "CLHINES_NO_POCL_WORKAROUND"  # 1 turns `name_processor` off
_RECORD_BYTES = 1024  # in PoCL's device record, which begins with the names
_NAMES = [ctypes.create_string_buffer(name) for name, _ in _LEVELS]  # PoCL keeps their addresses


def register_bytes(device: cl.Device) -> int | None:
    """Return a PoCL device's widest vector that compiles correctly, bytes; None if not PoCL's."""
    if "Portable Computing" not in device.platform.name:
        return None
    version = device.version.strip()
    if _UNNAMED.search(version):
        return _level_bytes()
    sizes = [s for s, names in _REGISTERS.items() if any(version.endswith("-" + n) for n in names)]
    return sizes[0] if sizes else _OTHER


def warns_of_vectors(device: cl.Device, source: str) -> bool:
    """Whether PoCL's compiler warns that vectors in `source` are wider than registers."""
    registers = register_bytes(device)
    if registers is None:
        return False
    sizes = (_SIZES[kind] * int(width) for kind, width in _VECTOR.findall(source))
    return max(sizes, default=0) > registers


def is_unnamed(device: cl.Device) -> bool:
    """Whether PoCL compiles for LLVM's processor ``generic`` instead of a processor with a name."""
    return _triple_if_generic(device) is not None


def _triple_if_generic(device: cl.Device) -> bytes | None:
    is_pocl = "Portable Computing" in device.platform.name
    match = _UNNAMED.search(device.version) if is_pocl else None
    return None if match is None else match.group(1).encode()


def name_processor(device: cl.Device) -> str | None:
    """Replace a PoCL device's processor ``generic``; return the new name, None if unchanged."""
    triple = None if switched_off() else _triple_if_generic(device)
    if triple is None:
        return None
    try:
        choice = _level()
        name = _LEVELS[choice][0]
        if _find_name(device.int_ptr, triple, name) is not None:  # by an earlier call
            return name.decode()
        field = _find_name(device.int_ptr, triple)
    except OSError:  # no /proc: not Linux
        return None
    if field is None:
        return None
    ctypes.c_void_p.from_address(field).value = ctypes.addressof(_NAMES[choice])
    return name.decode()


def switched_off() -> bool:
    return is_switched_on(SWITCH)


def _find_name(record: int, triple: bytes, name: bytes = b"generic") -> int | None:
    """Return the address of the processor's name in PoCL's record of a device.

    `record` is the record's address; it has pointers to the target triple and to this name.
    """
    with open("/proc/self/mem", "rb", buffering=0) as memory:  # bad addresses raise an error

        def text(address: int, size: int) -> bytes:
            try:
                memory.seek(address)
                return memory.read(size) or b""
            except (OSError, OverflowError, ValueError):
                return b""

        words = struct.unpack(f"{_RECORD_BYTES // 8}Q", text(record, _RECORD_BYTES))
        for k, (first, second) in enumerate(zip(words[:-1], words[1:], strict=True)):
            wanted = triple + b"\0"
            if text(first, len(wanted)) == wanted and text(second, len(name) + 1) == name + b"\0":
                return record + 8 * (k + 1)
    return None


def _level_bytes() -> int:
    """Return the vector width, bytes, of the processor that `name_processor` sets; 32 at most."""
    try:
        name = _LEVELS[_level()][0].decode()
    except OSError:
        return _OTHER
    return min(32, next(size for size, names in _REGISTERS.items() if name in names))


def _level() -> int:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as info:
        flags = next((line.split() for line in info if line.startswith("flags")), [])
    return next(k for k, (_, needed) in enumerate(_LEVELS) if needed <= set(flags))
