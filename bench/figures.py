"""Compare each figure that README and docs quote with its result; --write mends them.

    python -m bench figures [--write] [--release]

`bench.quoted` says which figure is where. A figure that differs, or that no entry names, is
reported, and the exit code is 1. A link to a result that is older than the last change of the
kernels that it measures is followed by ``(older kernels: commit X)``; where that lacks, or is no
longer true, it is a warning, and with ``--release`` an error.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import record

ROOT = record.RESULTS.parents[1]
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
UNITS = "µs|ms|ns|s|h|GB/s|TB/s|MB|GB|MiB|mV|Hz|%|x|times"
COMMIT = re.compile(r"\b[0-9a-f]{7,12}\b")
LINK = re.compile(
    r"(?P<link>\]\((?:\.\./)*bench/results/(?P<name>[a-z0-9./-]+?)\.txt\))"
    r"(?: \((?:older kernels: (?:[^()]|\([^()]*\))*|no commit known)\))?"
)


@functools.cache
def result_of(name: str, folder: Path = record.RESULTS) -> dict[str, Any]:
    """Return what a JSON file of `bench/results` has; nothing where there is a table alone."""
    if not (folder / f"{name}.json").is_file():
        return {}
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return found


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the rows of a result: its first list of objects."""
    lists = (v for v in result_of(name).values() if isinstance(v, list))
    return next(v for v in lists if v and isinstance(v[0], dict))


@dataclass(frozen=True)
class Figure:
    """One number of a result.

    Attributes
    ----------
    file : str
        Of `bench/results`, without ending.
    shown : callable
        Text of the first row that fits, as the page has it.
    where : dict
        Fields of that row, or the beginnings of texts; empty for the whole result.
    """

    file: str
    shown: Callable[[dict[str, Any]], str]
    where: dict[str, Any]

    def text(self) -> str:
        """Return it as the page has it; ``-`` where no row fits."""
        if not self.where:
            return self.shown(result_of(self.file))
        for row in rows_of(self.file):
            if all(fits(row.get(k), v) for k, v in self.where.items()):
                return self.shown(row)
        return "-"


def fits(value: object, wanted: object) -> bool:
    """Whether a field is what is wanted; of texts it is enough that they begin so."""
    if isinstance(value, str) and isinstance(wanted, str) and wanted.endswith("..."):
        return value.startswith(wanted[:-3])
    return value == wanted


@dataclass(frozen=True)
class Quote:
    """Words of a page with figures of results in them.

    Attributes
    ----------
    page : str
    after : str
        Heading of the section; empty for the whole page.
    words : str
        Text of the page with ``{}`` for each figure; white space counts as one space.
    figures : tuple of Figure
    """

    page: str
    after: str
    words: str
    figures: tuple[Figure, ...]

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """What finds it: in a line of a table a figure is all between two bars."""
        if self.words.startswith("|"):
            parts = [re.escape(p) for p in self.words.split("{}")]
            return re.compile("^" + r"([^|\n]*?)".join(parts) + "$", re.M)
        figure = r"([^`]*)" if "`{}`" in self.words else rf"({NUMBER}|-)"
        parts = [re.sub(r"(\\ )+", r"\\s+", re.escape(p)) for p in self.words.split("{}")]
        return re.compile(figure.join(parts))

    def found(self, text: str) -> re.Match[str] | None:
        """Find it in its section of a page."""
        begin, end = section(text, self.after)
        return self.pattern.search(text, begin, end)

    def written(self, text: str) -> str:
        """Return the page with the figures of the results."""
        match = self.found(text)
        if match is None:
            return text
        for k in range(len(self.figures), 0, -1):
            begin, end = match.span(k)
            text = text[:begin] + self.figures[k - 1].text() + text[end:]
        return text


def section(text: str, heading: str) -> tuple[int, int]:
    """Return where a section begins and ends; (0, 0) where no line is its heading."""
    if not heading:
        return 0, len(text)
    begin = re.search(rf"^{re.escape(heading)}$", text, re.M)
    if begin is None:
        return 0, 0
    level = len(heading.split()[0])
    end = re.compile(rf"^#{{1,{level}}} ", re.M).search(text, begin.end())
    return begin.end(), end.start() if end else len(text)


# -- what is wrong with a page -----------------------------------------------------------------


def differing(quotes: Sequence[Quote], text: str) -> Iterator[str]:
    """Yield a line for each quote of a page that is not there, and each figure that differs."""
    for quote in quotes:
        match = quote.found(text)
        if match is None:
            yield f"{quote.page}: not found: {quote.words!r} under {quote.after!r}"
            continue
        for got, figure in zip(match.groups(), quote.figures, strict=True):
            if got.strip() != figure.text():
                at = " ".join(match[0].split())
                yield f"{quote.page}: {got.strip()!r} in {at!r}; {figure.file} has {figure.text()}"


def unnamed(
    quotes: Sequence[Quote], text: str, sections: Sequence[str], given: Sequence[str]
) -> Iterator[str]:
    """Yield a line for each number with a unit, or in a table, that no quote has.

    Parameters
    ----------
    sections : sequence of str
        Headings of what is looked at.
    given : sequence of str
        Regular expressions of what is no result, as the step of a simulation.
    """
    known = [m.span() for q in quotes if (m := q.found(text))]
    for pattern in given:
        known += [m.span() for m in re.finditer(pattern.replace(" ", r"\s+"), text)]
    for heading in sections:
        begin, end = section(text, heading)
        for match in (m for p in candidates() for m in p.finditer(text, begin, end)):
            if not any(b <= match.start("n") < e for b, e in known):
                line = text[text.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0]
                yield f"{match['n']!r} in {line.strip()!r}: no entry of bench/quoted has it"


def candidates() -> Iterator[re.Pattern[str]]:
    """Yield what finds numbers with a unit, and cells of tables, but for heads."""
    yield re.compile(rf"(?<![\w.,])(?P<n>{NUMBER})\s+(?:{UNITS})(?![\w])")
    yield re.compile(rf"(?<=\| )(?P<n>{NUMBER})(?= [^|\n]*\|)(?![^\n]*\n\| -)")


# -- results that are older than what they measure ---------------------------------------------


def git(*words: str) -> str | None:
    """Return what git says; None where it cannot."""
    command = ["git", "-C", str(ROOT), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit_of(name: str) -> str:
    """Return the commit of a result, of which several stand in one; empty where it says none."""
    if not (record.RESULTS / f"{name}.json").is_file():
        head = (record.RESULTS / f"{name}.txt").read_text("utf-8").partition("\n")[0]
        return head.partition("commit ")[2]
    result = result_of(name)
    return str(result.get("record", result).get("commit", ""))


def outdated(name: str, paths: Sequence[str]) -> bool:
    """Whether a result is older than the last change of what it measures, or may be.

    Parameters
    ----------
    paths : sequence of str
        What it measures, as git takes it.

    Raises
    ------
    LookupError
        The repository, or a commit, is not here.
    """
    commits = COMMIT.findall(commit_of(name))
    for commit in commits:
        later = git("log", "--format=%h", f"{commit}..HEAD", "--", *paths)
        if later is None:
            raise LookupError(f"{name}: commit {commit} is not in this repository")
        if later:
            return True
    return not commits


def aged(text: str, measured: Callable[[str], list[str]]) -> str:
    """Return a page whose links to results say which are of older kernels.

    Of ``COMMIT; rows of NAME ... COMMIT`` names are left out.

    Parameters
    ----------
    measured : callable
        Paths of what a result measures, by its name.
    """

    def link(match: re.Match[str]) -> str:
        name = match["name"]
        if not outdated(name, measured(name)):
            return match["link"]
        commit = re.sub(r"\brows of [^;]+ ", "some rows ", commit_of(name))
        said = f"older kernels: commit {commit}" if commit else "no commit known"
        return f"{match['link']} ({said})"

    return LINK.sub(link, text)


def differences(page: str, text: str, mended: str) -> list[str]:
    """Return a line for each line of a page that is to be another."""
    lines = zip(text.splitlines(), mended.splitlines(), strict=True)
    return [
        f"{page}: {old.strip()!r}; expected {new.strip()!r}" for old, new in lines if old != new
    ]


def main(arguments: Sequence[str]) -> int:
    """Report what differs, or write it."""
    from bench import quoted

    parser = argparse.ArgumentParser("python -m bench figures", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put in what the results have")
    parser.add_argument("--release", action="store_true", help="old results are errors")
    args = parser.parse_args(arguments)
    wrong, old = [], []
    for page in quoted.PAGES:
        path, quotes = ROOT / page, [q for q in quoted.QUOTES if q.page == page]
        text = path.read_text("utf-8")
        if args.write:
            for quote in quotes:
                text = quote.written(text)
            text = aged(text, quoted.measured_by)
            path.write_text(text, "utf-8")
        wrong += [*differing(quotes, text), *quoted.unnamed_in(page, text)]
        try:
            old += differences(page, text, aged(text, quoted.measured_by))
        except LookupError as error:
            old.append(f"{page}: cannot tell how old results are: {error}")
    for line in wrong:
        print(line)
    for line in old:
        print(line if args.release else f"warning: {line}", file=sys.stderr)
    return 1 if wrong or (old and args.release) else 0
