"""README, docs/ and the book: every link, path and anchor in them exists, and the book needs no network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from coda_lib.paths import NOTEBOOKS, REPO
from coda_study.pipeline.dependencies import PACKAGES
from tools import book

PAGES = [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]
ROOTS = (*PACKAGES, "data", "docs", "notebooks", "profiles", "results/reference", "tests", "tools")


def prose(path) -> str:
    """A page without its code blocks."""
    return re.sub(r"(?ms)^```.*?^```$", "", path.read_text())


def anchors(path) -> set[str]:
    headings = re.findall(r"(?m)^#+ (.+)$", prose(path))
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(page):
    for target in re.findall(r"\]\(([^)]+)\)", prose(page)):
        if not target.startswith("https://"):
            name, _, anchor = target.partition("#")
            path = page.parent / name if name else page
            assert path.is_file(), target
            assert not anchor or anchor in anchors(path), target


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_path_that_a_page_names_exists(page):
    paths = re.findall(rf"`((?:{'|'.join(ROOTS)})/[\w./-]*)`", prose(page))
    ids = re.compile(r"sciencedesk/\w+-v0")  # of Gymnasium environments
    assert not [path for path in paths if not ids.fullmatch(path) and not (REPO / path).exists()]


def test_the_readme_is_a_page_and_its_file_tree_is_the_library():
    text = (REPO / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    for package in ("coda_lib", "sciencedesk", "coda_study"):
        tree, room = re.search(rf"(?ms)^{package}/ .*?(?=^\w)", text)[0], REPO / package
        there = {
            path.name
            for path in room.iterdir()
            if not path.name.startswith("_")
            and (path.suffix == ".py" or path.is_dir() and any(path.iterdir()))
        }
        folders = re.findall(r"\w+", " ".join(re.findall(r"(?m)^  (\w+/(?:  \w+/)*) ", tree)))
        assert set(re.findall(r"\w+\.py", tree)) | set(folders) == there, package


def test_the_index_lists_every_notebook():
    listed = re.findall(r"\.\./notebooks/(\w+)\.ipynb", (REPO / "docs" / "index.md").read_text())
    assert listed == [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))]


@pytest.fixture
def run(tmp_path):
    """A run with one executed notebook: a table, a progress bar, a picture."""
    (source,) = NOTEBOOKS.glob("05_*.ipynb")
    text = nbformat.v4.new_markdown_cell("# 05 · Reward\n\n1. A formula:\n   $$A^{(i)} = 1$$")
    cell = nbformat.v4.new_code_cell("table")
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
    outputs = (
        {book.WIDGET: {"model_id": "1"}, "text/plain": "a bar"},
        {"text/html": "<div>42.5</div>"},
        {"image/png": pixel},
    )
    cell.outputs = [nbformat.v4.new_output("display_data", data) for data in outputs]
    notebook = nbformat.v4.new_notebook(cells=[text, cell])
    (tmp_path / "run" / "notebooks").mkdir(parents=True)
    nbformat.write(notebook, tmp_path / "run" / "notebooks" / source.name)
    (tmp_path / "run" / "notebooks" / "04_judge-base-gis.failed.ipynb").write_text("no notebook")
    return tmp_path / "run"


def build(run, folder, *options: str) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(folder),
        *options,
    ]
    environment = {"RUN": str(run), "PATH": "", "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=REPO, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_book_shows_a_run_and_needs_no_network(run, tmp_path):
    built = build(run, tmp_path / "book")
    assert built.returncode == 0, built.stderr
    (page,) = (tmp_path / "book" / "notebooks").glob("05_*.html")
    text = page.read_text()
    assert (
        "Executed in the run" in text
        and "42.5" in text
        and "<math" in text
        and "$$" not in text
        and "a bar" not in text
    )
    assert len(list(page.parent.glob("05_*_files/*.png"))) == 1
    (other,) = (tmp_path / "book" / "notebooks").glob("04_*.html")
    assert "Without outputs" in other.read_text()
    assert (tmp_path / "book" / "results" / "reference" / "laptop" / "figures" / "table1.png").is_file()


@pytest.mark.slow
def test_the_book_has_the_report_of_a_run_and_the_episodes_behind_it(run, tmp_path):
    (run / "report.html").write_text('<a href="view.html#/episodes?set=test">42.5</a>')
    (run / "view.html").write_text("the episodes")
    (run / "view").mkdir()
    (run / "view" / "000000.webp").write_bytes(b"a screen")
    built = build(run, tmp_path / "book")
    assert built.returncode == 0, built.stderr
    for name in ("report.html", "view.html", "view/000000.webp"):
        assert (tmp_path / "book" / name).read_bytes() == (run / name).read_bytes()
    (page,) = (tmp_path / "book" / "notebooks").glob("05_*.html")
    assert 'href="../report.html"' in page.read_text() and 'href="../view.html"' in page.read_text()


def test_the_book_takes_the_newest_finished_run(tmp_path, monkeypatch):
    monkeypatch.setattr(book, "RESULTS", tmp_path)
    for when, name in enumerate(("reference/old", "done", "again", "cut", "bare")):
        folder = tmp_path / name
        (folder / "notebooks").mkdir(parents=True)
        (folder / "stages").mkdir()
        (folder / "report.html").touch()
        for state in ("done", {"again": "running", "cut": "failed"}.get(name, "done")):
            (folder / "stages" / f"{state}.json").write_text(json.dumps({"state": state}))
        (folder / "manifest.json").write_text("{}")
        os.utime(folder / "manifest.json", (when, when))
    (tmp_path / "bare" / "report.html").unlink()
    (tmp_path / "copy").mkdir()
    assert book.executed_folder("") == tmp_path / "done" / "notebooks"
    assert book.executed_folder("cut") == tmp_path / "cut" / "notebooks"
    shutil.rmtree(tmp_path / "done" / "stages")
    (tmp_path / "done" / "manifest.json").unlink()
    assert book.executed_folder("") == tmp_path / "reference" / "old" / "notebooks"
    shutil.rmtree(tmp_path / "reference" / "old")
    with pytest.raises(book.PluginError, match="no run with executed notebooks is finished.*make smoke"):
        book.executed_folder("")


def test_what_would_come_from_a_network_is_found():
    for line in (
        '<script src="https://cdn/x.js">',
        "<link rel=stylesheet href=//fonts/x.css>",
        "<img alt='' src='http://x/y.png'>",
    ):
        assert book.OUTWARD.search(line)
    assert not book.OUTWARD.search('<a href="https://arxiv.org"><script src="assets/x.js"></script>')


@pytest.mark.slow
def test_without_executed_notebooks_the_book_says_which_command_makes_them(tmp_path):
    built = build(tmp_path / "none", tmp_path / "book")
    assert built.returncode != 0 and "`make smoke` makes them" in built.stdout + built.stderr
