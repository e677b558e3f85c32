"""Arguments of the command line: suggestions for misspelt ones."""

import os
import re
from contextlib import suppress

import numpy as np
import pytest
from commands import SWC


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["slove"], "solve"),
        (["solve", "--cellls", "3"], "--cells"),
        (["solve", "--method", "contractoin"], "contraction"),
        (["solve", "--dtype", "flaot64"], "float64"),
    ],
)
def test_did_you_mean(cli, arguments, hint):
    result = cli(*arguments)
    result.assert_refused(f"; did you mean '{hint}'? (see clhines")
    assert "COMMAND ..." not in result.err


def test_no_hint_where_nothing_is_near(cli):
    result = cli("solve", "--method", "zzzz")
    result.assert_refused("invalid choice")
    assert "did you mean" not in result.err


def test_hints_are_of_the_command_that_was_given(cli):
    result = cli("doctor", "--cellls")  # --cells is an option of other commands
    result.assert_refused("unrecognized arguments: --cellls (see clhines doctor --help)")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["solve", "--frequency", "3"],
        ["solve", "--cells"],
        ["solve", "--steps", "\n"],
        ["solve", "--method", "fastest"],
        ["solve", "--dtype", "float16"],
        ["solve", "--roots", "all"],
    ],
    ids=lambda a: ascii(" ".join(a))[:40],
)
def test_bad_arguments(cli, arguments):
    result = cli(*arguments)
    named = [a for a in arguments if a.startswith("--")]
    result.assert_refused(*named)


@pytest.mark.parametrize("command", ["solve", "plan"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["--max-length", "1e-9"],
        ["--max-length", "1e-300"],
        ["--cells", str(10**15)],
        ["--cells", str(10**30)],
    ],
    ids=" ".join,
)
def test_too_much(cli, command, arguments):
    cli(command, *arguments).assert_refused()


ODD = ["", "-", "--", "-1", "0", "nan", "inf", "-inf", "1e400", "1e-400", "1e308", "1e18", "abc"]
ODD += ["9" * 400, "9" * 5000, "1" * 16, "1000000000000000", "1000000000", "2147483648", "0x10"]
ODD += ["1_0", " 1", "1 ", "１", "½", "日本", "\udcff", "a\nb", "\x1b[31m", "%s", "{}", "-0", "1.5"]
DEVICES = ["Oclgrind-no", "9:9", "0:99", "1:", ":", "-1:0", "1:0:0"]


def is_lawful(option, value):
    if option == "--max-length":
        with suppress(ValueError):
            return 0 < float(value) < np.inf
    if option in ("--cells", "--steps"):
        return re.fullmatch("0*[1-9][0-9]{0,15}", value, re.ASCII) is not None
    return False


def assert_one_of(result, codes, *words):
    """Check a command's end: its code, and one short line if it is refused."""
    assert result.code in codes, words
    if result.code:
        result.assert_refused()
        shown = result.err
        for word in words:
            shown = shown.replace(word, "W") if len(word) > 2 else shown
        assert len(shown) < 300 and shown[:-1].isprintable(), words
    else:
        assert max(map(len, result.out.splitlines())) <= 100, words


@pytest.mark.parametrize("name", "cells steps max-length roots repair method dtype device".split())
def test_odd_values_of_options(cli, name):
    """Each is refused in one line, or it is a number as the option expects it."""
    option = f"--{name}"
    command = "solve" if option in ("--steps", "--device") else "plan"
    for value in ODD + DEVICES * (option == "--device"):
        lawful = is_lawful(option, value)
        if lawful and option == "--steps":
            continue  # endless
        for words in ([option, value], [f"{option}={value}"]):
            result = cli(command, *words)
            codes = (0, 2) if lawful or name == "device" else (2,)  # part of a name is enough
            assert_one_of(result, codes, *words, value)


FILES = {
    **{
        "good.swc": 0,
        "-x.swc": 2,
        "--": 0,
        "latin\udcff.swc": 0,
        "new\nline.swc": 0,
        "link.swc": 0,
    },
    **{"empty.swc": 2, "folder.swc": 2, "absent.swc": 2, "/dev/null": 2, "/dev/zero": 2, ".": 2},
    **{"~": 2, "": 2, "a\0b": 2},
}


@pytest.mark.skipif(os.name == "nt", reason="names of POSIX files")
@pytest.mark.parametrize("name", FILES, ids=ascii)
def test_names_of_files(cli, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for path in ("good.swc", "-x.swc", "--", "latin\udcff.swc", "new\nline.swc"):
        (tmp_path / path).write_text(SWC)
    (tmp_path / "empty.swc").touch()
    (tmp_path / "folder.swc").mkdir()
    (tmp_path / "link.swc").symlink_to("good.swc")
    assert_one_of(cli("plan", name), (FILES[name],), name)
