"""The runner accepts every command that a result or a page names."""

import argparse
import json
import re
import shlex

import pytest

from bench import __main__, record

ROOT = record.RESULTS.parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("bench/**/*.md")),
]


class ParsedError(Exception):
    """The arguments were accepted."""


@pytest.fixture
def only_parsed(monkeypatch):
    """End measures after they have read their arguments."""
    parse = argparse.ArgumentParser.parse_args

    def parse_only(self, args=None, namespace=None):
        parse(self, args, namespace)
        raise ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)


def commands_of_results():
    """Commands in all results; `tune` may have several in one."""
    results = {}
    for path in sorted(record.RESULTS.rglob("*.json")):
        result = json.loads(path.read_text("utf-8"))
        command = result.get("record", result)["command"]
        if command.startswith("python -m bench"):
            for each in command.split("; "):
                results.setdefault(each, path.name)
    return results


@pytest.mark.parametrize("command", commands_of_results())
def test_commands_of_results(command, only_parsed):
    words = command.removeprefix("python -m bench ")
    assert words != command
    # Case names with spaces were recorded without quotes.
    names = ["chain 128", "chain 1500", "small 64, 16 shapes", "random 512, one shape",
             "random 512, 64 shapes", "random 512, different", "real cells", "star, caterpillar",
             "large 20000, 4 shapes"]  # fmt: skip
    for name in names:
        words = re.sub(rf"(?<!')\b{name}", f"'{name}'", words)
    with pytest.raises(ParsedError):
        __main__.main(shlex.split(words))


def commands_of_pages():
    """Commands in the text of all pages, up to optional parts or placeholders."""
    results = {}
    for path in PAGES:
        if path.name == "CHANGELOG.md":  # names measures that were there once
            continue
        for text in re.findall(r"python -m bench ([a-z][^`\n]*)", path.read_text("utf-8")):
            words = re.split(r" ?(?:\[|\b[A-Z]{3,}|\S*[<*])", text)[0].split()
            words = words[: -1 if words[-1].startswith("--") else None]
            results.setdefault(" ".join(words), path.name)
    return results


@pytest.mark.parametrize("command", commands_of_pages())
def test_commands_of_pages(command, only_parsed):
    name, *arguments = command.split()
    needed = ["x.json"] if name == "again" and not arguments else []
    with pytest.raises(ParsedError):
        __main__.main([name, *arguments, *needed])


def test_pages_name_every_measure():
    readme = (ROOT / "bench" / "README.md").read_text("utf-8")
    listed = re.findall(r"^\| `([a-z]+)", readme, re.M)
    assert [name for name in listed if name != "python"] == list(__main__.MEASURES)


def test_links_to_the_benchmarks_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
