"""Hostile text of models, tasks and runs on every page: no script runs, no element or attribute of it
survives.
"""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from html.parser import HTMLParser

import nbformat
import pandas as pd
import pytest
from hostile_text import HOSTILE, RUN, TOKEN
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.formatters import DisplayFormatter
from kit import kit_files
from nbconvert import HTMLExporter
from tiny_models import RULE, made_up

from coda_lib.files import write_json
from coda_lib.paths import NOTEBOOKS, REFERENCE, REPO
from coda_lib.task import Task
from coda_study.evaluation.report import to_markdown
from coda_study.evaluation.results import html_report
from coda_study.evaluation.tables import siblings
from coda_study.generator import Dropped, Round
from coda_study.markup import as_html, as_markdown, clean_html, without_html
from coda_study.run import Run
from coda_study.show import (
    conversation,
    episode_table,
    figures,
    markdown,
    markdown_table,
    rounds_table,
    strip,
    vote_table,
)

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class _Live(HTMLParser):
    """What of the hostile text is more than text: names of tags, attributes that act, scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found, self.inside = [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes) -> None:
        self.inside = tag if tag in ("script", "style") else ""
        shown = ("alt", "title", "class")  # attributes that do nothing
        filters = (
            "href",
            "view.html#/",
        )  # addresses of the viewer have the names of systems in them, encoded
        attributes = [
            (k, v) for k, v in attributes if not (k == filters[0] and (v or "").startswith(filters[1]))
        ]
        self.found += [(k, v) for k, v in attributes if TOKEN in k or (TOKEN in (v or "") and k not in shown)]
        self.found += [tag] * (TOKEN in tag)

    def handle_endtag(self, tag) -> None:
        self.inside = ""

    def handle_data(self, data) -> None:
        self.found += [data] * bool(self.inside and TOKEN in data)

    def handle_comment(self, data) -> None:
        self.found += [data] * (TOKEN in data)


def runs(path) -> bool:
    """Whether a script of the hostile text ran in headless Chromium."""
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--virtual-time-budget=2000",
        f"--user-data-dir={path.parent / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom",
        path.as_uri(),
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "</html>" in shown
    return f"data-{TOKEN}=" in re.search(r"<html[^>]*>", shown)[0]


@pytest.fixture(scope="session")
def notebook():
    """A notebook whose outputs are what the kit's own functions show of hostile episodes, tasks, verdicts and
    replies.
    """
    formatter, outputs = DisplayFormatter(), []

    def show(value) -> None:
        with pd.option_context("display.max_colwidth", None):
            data, _ = formatter.format(value)
        pictures = {
            name: base64.b64encode(content).decode()
            for name, content in data.items()
            if isinstance(content, bytes)
        }
        outputs.append(nbformat.v4.new_output("display_data", data | pictures))

    for text in HOSTILE:
        spoken = io.StringIO()
        played = replace(made_up(), instruction=text, verdicts=(text,) * 4)
        task = Task(played.task_id, played.app, "A", text, 3, (), ())
        rounds = [Round(1, text, (task,), (Dropped(text, "infeasible", text),))]
        with redirect_stdout(spoken):
            print(
                conversation([{"role": "user", "content": [{"type": "text", "text": text}]}]), text, sep="\n"
            )
        outputs.append(nbformat.v4.new_output("stream", text=spoken.getvalue()))
        outputs.append(nbformat.v4.new_output("error", ename="E", evalue=text, traceback=[text, text]))
        frame = pd.DataFrame({text: [text]}, index=pd.Index([text], name=text))
        for value in (
            rounds_table(rounds), episode_table([played], [task]), vote_table([played], RULE), frame,
            frame[text], text,
            markdown(text), markdown_table(frame), {text: text}, [task],
        ):  # fmt: skip
            show(value)
    show(strip(replace(played, instruction="".join(HOSTILE[:3]))))
    cells = [nbformat.v4.new_markdown_cell("# 03"), nbformat.v4.new_code_cell("show()", outputs=outputs)]
    return nbformat.v4.new_notebook(cells=cells)


@pytest.fixture(scope="session")
def pages(notebook, tmp_path_factory):
    """The report of a hostile run, the notebook as a page, its page in the book, the book's search index."""
    folder = tmp_path_factory.mktemp("pages")
    run = folder / "run"
    (run / "tables").mkdir(parents=True)
    (run / "notebooks").mkdir()
    row = {
        "metric": "Pass@1",
        "application": "gis",
        "value": 1.0,
        "low": 0.0,
        "high": 2.0,
        "tasks": 1,
        "runs": 1,
    }
    table = pd.DataFrame(
        [row | {"interval": "Wilson", "provenance": text, "system": text} for text in HOSTILE]
    )
    table.to_csv(run / "tables" / "table1.csv", index=False)
    pd.DataFrame({text: [text] for text in HOSTILE}).to_csv(run / "tables" / "other.csv", index=False)
    said = "".join(HOSTILE)
    roles = {"planner": said, "executor": said}
    made = {
        "profile": {"name": said, "seed": said, "models": roles, "serving": roles},
        "code": {"commit": said, "changed": True},
    }
    more = {"more": {text: [text] for text in HOSTILE}}
    write_json(run / "manifest.json", {text: text for text in HOSTILE} | more | made)
    write_json(run / "timings.json", dict.fromkeys(HOSTILE, 1.0))
    figures.save(
        figures.Sheet(figsize=(1, 1)), run / "figures" / "a", "".join(t for t in HOSTILE if t.isprintable())
    )
    report = html_report(run)
    nbformat.write(notebook, run / "notebooks" / "03_explore.ipynb")
    exported = folder / "notebook.html"
    exported.write_text(HTMLExporter(mathjax_url="", require_js_url="").from_notebook_node(notebook)[0])
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder / "book")], cwd=REPO,
         text=True,
        env={"RUN": str(run), "PATH": "", "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(REPO)},
        capture_output=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return {"report": report, "notebook": exported, "book": folder / "book" / "notebooks" / "03_explore.html"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report", "notebook", "book"])
def test_no_element_or_attribute_of_hostile_text_survives(pages, name):
    text = pages[name].read_text()
    assert text.count(TOKEN) > 50
    assert _Live(text).found == []


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed: apt-get install chromium")
@pytest.mark.parametrize("name", ["report", "notebook", "book"])
def test_no_script_runs_in_a_browser(pages, name):
    assert not runs(pages[name])


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed: apt-get install chromium")
@pytest.mark.parametrize("text", [HOSTILE[0], HOSTILE[1]])
def test_the_browser_would_tell(tmp_path, text):
    (tmp_path / "page.html").write_text(f"<!DOCTYPE html><html><body>{text}</body></html>")
    assert runs(tmp_path / "page.html") and _Live(text).found


@pytest.mark.slow
def test_what_the_search_of_the_book_shows_is_text(pages):
    index = json.loads((pages["book"].parents[1] / "search" / "search_index.json").read_text())
    found = [entry["text"] for entry in index["docs"] if TOKEN in entry["text"]]
    assert found and not any(_Live(text).found for text in found)


@given(
    st.text(
        alphabet=st.sampled_from("<>&\"'`[](){}|\\/!#;:=-\r\n\t\x00\x0b\x85\u2028 ascriptonx1"), max_size=60
    )
)
def test_no_text_becomes_more_than_text(text):
    for shown in (as_html(text), f"<a title='{as_html(text)}'>", as_markdown(text), without_html(text)):
        tags: list[str] = []
        parser = HTMLParser()
        parser.handle_starttag = parser.handle_startendtag = lambda tag, attributes, tags=tags: tags.append(
            tag
        )
        parser.feed(shown)
        parser.close()
        assert tags == (["a"] if shown.startswith("<a title='") else [])
    assert not re.search(r"[\r\n\x0b\x85\u2028]", as_html(text) + as_markdown(text))


@pytest.mark.parametrize("text", HOSTILE)
def test_html_of_others_keeps_its_tables_and_loses_what_acts(text):
    cleaned = clean_html(
        f"<table style='color: red; position: fixed' onclick='{RUN}'><td>1</td></table>{text}"
    )
    assert (
        _Live(cleaned).found == []
        and "<td>1</td>" in cleaned
        and "onclick='" not in cleaned
        and "position" not in cleaned
    )


def test_tables_in_markdown_have_cells_of_text_alone():
    for text in HOSTILE:
        written = to_markdown(pd.DataFrame({"system": [text], text: ["1"]}), text)
        assert len(written.strip().split("\n")) == 5 and not re.search(r"<[a-zA-Z/!?]|\]\(", written)


def test_nothing_else_in_the_kit_makes_html_or_markdown_of_text():
    """The places that may: this list is the review."""
    may = {"examples.py": "HTML(", "live.py": "Markdown(", "film.py": "_repr_html_"}
    words = ("HTML(", "Markdown(", "Javascript(", "SVG(", "IFrame(", ".style.", "to_html(", "Styler", "|safe",
             "| safe",
             "_repr_html_")  # fmt: skip
    files = [*kit_files(), *kit_files("*.j2"), *NOTEBOOKS.glob("**/*.ipynb")]
    found = {
        (path.name, word)
        for path in files
        for word in words
        if word in path.read_text() and may.get(path.name) != word
    }
    assert found == set()


@pytest.mark.parametrize(("part", "study"), [("overall", "laptop"), ("desktop", "desktop")])
def test_one_command_prints_every_figure_of_the_results(part, study, coda):
    """Digit for digit, by the names of the committed runs."""
    runs = siblings(Run(str(REFERENCE / study)), [REFERENCE])
    code, printed, _ = coda("seeds", *(run.folder.name for run in runs))
    shown = (REPO / "README.md").read_text().partition(f"<!-- {part} -->")[2].partition("<!-- /")[0]
    cells = {cell.strip(" *") for line in shown.splitlines() if line[:1] == "|" for cell in line.split("|")}
    figures = {cell for cell in cells if re.fullmatch(r"[+−]?\d+\.\d.*", cell)}
    assert code == 0 and len(figures) >= 12
    assert not {figure for figure in figures if figure not in printed}
