"""Shared parts of the fuzz targets: the check of a refusal."""

import re

MESSAGE_LENGTH = 300  # letters in a refusal, without file names


class WrongError(Exception):
    """An oracle disagrees; the message begins with a short name of the fault and a colon."""


def check_refusal(error, hide=(), most=MESSAGE_LENGTH):
    """Check that a refusal is one readable line, and return its text."""
    text = str(error)
    shown = text
    for name in hide:
        shown = shown.replace(name, "F")
    where = type(error).__name__
    if not shown.strip():
        raise WrongError(f"empty message: {where}")
    if len(shown.splitlines()) > 1:
        raise WrongError(f"message of several lines: {where}: {subject(text)}: {shortened(shown)}")
    if len(shown) > most:
        raise WrongError(
            f"message of {len(shown)} letters: {where}: {subject(text)}: {shortened(shown)}"
        )
    if any(ord(c) < 32 or ord(c) == 127 for c in shown):
        raise WrongError(f"control characters in a message: {where}: {shortened(shown)}")
    return text


def shortened(text, most=160):
    text = repr(text)[1:-1]
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def subject(text):
    """Return a message's subject, mostly an argument's name."""
    return (re.findall(r"[A-Za-z_]+", text) or ["?"])[0]


def pick(rng, items):
    """Return a random item, not converted by NumPy."""
    return items[int(rng.integers(len(items)))]
