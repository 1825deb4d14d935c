"""Figures in the running text of README, docs and the ledger are those of the committed tables."""

from __future__ import annotations

import re

import pytest

from coda_lib.errors import UserError
from coda_lib.paths import REPO
from coda_study.evaluation.paper import LEDGER, load_deviations
from tools import figures

PAGES = [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]
# pages of runs and measurements that are not committed: their figures can be read, and not made again
HISTORY = ("appendix-what-was-tried.md", "what-it-took.md", "real-models.md", "measurements.md")
INTERVAL = re.compile(r"\[[+−-]?\d+\.\d, [+−-]?\d+\.\d\]")
CLAIM = re.compile(rf"{INTERVAL.pattern}|(?<![\w.])[+−-]\d+\.\d\b")


def running_text(page) -> str:
    """A page without generated parts, code and what is marked."""
    text = re.sub(r"(?ms)^<!-- (\w+) -->$.*?^<!-- /\1 -->$|^```.*?^```$", "", page.read_text())
    return re.sub(r"`[^`]*`", "", figures.MARK.sub("", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_marked_figures_are_those_of_the_committed_tables(page):
    for address, printed in figures.MARK.findall(page.read_text()):
        assert printed == figures.figure(address), (
            f"{page.name}: {address}; python -m tools.reference renews it"
        )


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in HISTORY], ids=lambda path: path.name
)
def test_no_result_stands_in_running_text_without_a_mark(page):
    assert CLAIM.findall(running_text(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_mark_is_whole_and_begins_no_line(page):
    """A line that begins with a comment ends a paragraph of Markdown."""
    text = page.read_text()
    assert text.count("<!--=") == len(figures.MARK.findall(text)) == text.count("<!--/-->")
    assert not re.search(r"(?m)^\s*<!--[=/]", re.sub(r"(?m)^<!-- /\w+ -->$", "", text))


def test_figures_of_the_ledger_are_those_of_the_committed_tables():
    entries = re.split(r"(?m)^- id: ", LEDGER.read_text())[1:]
    for text, deviation in zip(entries, load_deviations(), strict=True):
        left = " ".join(deviation.effect.split())
        for address in re.findall(r"(?m)^  # figure: (.+)$", text):
            printed = figures.figure(address)
            assert printed in left, f"{deviation.id}: {address} is {printed}"
            left = left.replace(printed, "", 1)
        assert INTERVAL.findall(left) == [], deviation.id


@pytest.mark.parametrize(
    "address", ["laptop/seeds/none a", "laptop/seeds/table1 base", "laptop/seeds/table1 basis"]
)
def test_an_address_without_one_row_is_refused(address):
    with pytest.raises(UserError, match=r"no table|\d rows of"):
        figures.figure(address)


def test_a_figure_that_is_edited_is_made_again():
    mark = "<!--= laptop/seeds/table1 base Average@8 overall -->{}<!--/-->"
    right = mark.format(figures.figure("laptop/seeds/table1 base Average@8 overall"))
    assert figures.renewed(mark.format("99.9")) == right != mark.format("99.9")


def test_labels_from_votes_are_as_many_as_the_stage_counted():
    table = figures.labels(figures.REFERENCE / "laptop").set_index(["planner", "application"])["steps"]
    for path in sorted((figures.REFERENCE / "laptop" / "judged").glob("*/*.json")):
        assert table[path.parent.name, path.stem] == figures.read_json(path)["positive_actions"]
