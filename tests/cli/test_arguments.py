"""Arguments of the command line: suggestions for misspelt ones."""

import pytest


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
        ["solve", "--cells", "0"],
        ["solve", "--cells", "-1"],
        ["solve", "--cells", "1.5"],
        ["solve", "--cells", "9" * 5000],
        ["solve", "--cells"],
        ["solve", "--steps", "x"],
        ["solve", "--steps", "0"],
        ["solve", "--steps", "\n"],
        ["solve", "--method", "fastest"],
        ["solve", "--dtype", "float16"],
        ["solve", "--roots", "all"],
        ["solve", "--max-length", "nan"],
        ["solve", "--max-length", "0"],
        ["solve", "--max-length", "inf"],
        ["plan", "--method", "fastest"],
        ["plan", "--cells", "0"],
        ["plan", "--max-length", "-1"],
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
