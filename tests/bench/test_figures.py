"""Figures of README and docs are those of their results; planted faults prove the comparison."""

import os
import re
import subprocess
import warnings

import pytest

from bench import figures, quoted, record

RELEASE = "CLHINES_RELEASE"  # set: results of older kernels that do not say so are errors


def text_of(page):
    return (figures.ROOT / page).read_text("utf-8")


def quotes_of(page):
    return [q for q in quoted.QUOTES if q.page == page]


@pytest.mark.parametrize("page", quoted.PAGES)
def test_every_figure_is_that_of_its_result(page):
    text = text_of(page)
    assert not list(figures.differing(quotes_of(page), text))
    assert not list(quoted.unnamed_in(page, text))


@pytest.mark.parametrize("page", quoted.PAGES)
def test_links_say_which_results_are_of_older_kernels(page):
    """A warning; before a release an error: ``CLHINES_RELEASE=1 python -m pytest ...``."""
    text = text_of(page)
    try:
        lines = figures.differences(page, text, figures.aged(text, quoted.measured_by))
    except LookupError as error:
        lines = [f"{page}: cannot tell how old results are: {error}"]
    assert not (lines and os.environ.get(RELEASE)), "\n".join(lines)
    for line in lines:
        warnings.warn(f"{line}: python -m bench figures --write", stacklevel=1)


@pytest.mark.parametrize("page", quoted.PAGES)
def test_every_quoted_result_is_linked_on_its_page(page):
    text = text_of(page)
    for name in {f.file for q in quotes_of(page) for f in q.figures}:
        assert f"bench/results/{name}.txt" in text, name


# -- planted faults ----------------------------------------------------------------------------


@pytest.mark.parametrize("page", quoted.PAGES)
def test_a_changed_digit_is_found_and_mended(page):
    """The last digit of each figure of a page in turn."""
    text, planted = text_of(page), 0
    for quote in quotes_of(page):
        match = quote.found(text)
        for k in range(1, len(quote.figures) + 1):
            digits = list(re.finditer(r"\d", match[k]))
            if not digits:
                continue
            at = match.start(k) + digits[-1].start()
            wrong = f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"
            (line,) = figures.differing([quote], wrong)
            assert line.startswith(f"{page}: ")
            assert quote.written(wrong) == text
            planted += 1
    assert planted >= 8  # of docs/index.md; there are hundreds in docs/speed.md


@pytest.mark.parametrize(
    ("page", "before", "added"),
    [
        ("README.md", "## Read on", "A solve takes 17 µs.\n\n"),
        ("docs/speed.md", "## Several devices", "| a row | 12 | 13 |\n\n"),
    ],
)
def test_a_figure_without_an_entry_is_found(page, before, added):
    text = text_of(page).replace(f"\n{before}", f"\n{added}{before}")
    found = list(quoted.unnamed_in(page, text))
    assert len(found) == added.count("1") and all("no entry of" in line for line in found)


def test_a_row_that_is_gone_is_found():
    page = "docs/speed.md"
    text = text_of(page).replace("| 1 cell of 512 nodes |", "| 1 cell of 511 nodes |")
    (line,) = figures.differing(quotes_of(page), text)
    assert "not found: '| 1 cell of 512 nodes | {} | {} |'" in line


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a kernel and a page; `commit(file)` changes a file and commits it."""
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(record, "RESULTS", tmp_path)

    def git(*words):
        command = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def commit(file):
        with (tmp_path / file).open("a") as out:
            out.write("x\n")
        git("add", "-A")
        git("commit", "-qm", file)
        return git("rev-parse", "--short", "HEAD")

    git("init", "-q")
    return commit


def test_a_result_is_outdated_when_its_kernels_change(repository, tmp_path):
    commit = repository("kernel.mako")
    (tmp_path / "solve-a.txt").write_text(f"A device, commit {commit}\n")
    link = "see [it](bench/results/solve-a.txt)."
    said = f"see [it](bench/results/solve-a.txt) (older kernels: commit {commit})."

    def aged(text):
        return figures.aged(text, lambda _: ["kernel.mako"])

    repository("page.md")
    assert aged(link) == aged(said) == link  # the page is no kernel
    repository("kernel.mako")
    assert aged(link) == aged(said) == said
    assert figures.differences("p", link, aged(link)) == [f"p: {link!r}; expected {said!r}"]
    newer = repository("page.md")
    (tmp_path / "solve-a.txt").write_text(f"A device, commit {commit}; rows of a b {newer}\n")
    assert aged(said) == said.replace(").", f"; some rows {newer}).", 1)


def test_results_of_no_commit_and_of_unknown_ones(repository, tmp_path):
    repository("kernel.mako")
    link = "[it](bench/results/solve-a.txt)"
    (tmp_path / "solve-a.txt").write_text("A device\n")
    assert figures.aged(link, lambda _: ["kernel.mako"]) == f"{link} (no commit known)"
    (tmp_path / "solve-a.txt").write_text("A device, commit 0123456\n")
    with pytest.raises(LookupError, match="solve-a: commit 0123456 is not in this repository"):
        figures.aged(link, lambda _: ["kernel.mako"])


def test_paths_that_results_measure_are_there():
    """A renamed kernel must not make its results look like today's."""
    for measure, sides in quoted.MEASURED.items():
        for path in {p for side in sides for p in side if not p.startswith(":!")}:
            assert list(figures.ROOT.glob(path)), f"{measure}: {path}"


def test_the_command(capsys, monkeypatch):
    assert figures.main([]) == 0
    monkeypatch.setattr(quoted, "QUOTES", quoted.QUOTES[1:])
    assert figures.main([]) == 1
    assert "no entry of bench/quoted has it" in capsys.readouterr().out
