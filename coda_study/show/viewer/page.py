"""Writes the page of the viewer: one file, or a folder whose pictures are files beside it.

The page holds its data as compressed JSON, which its script reads and puts into the document as text alone.
A policy in the page allows its own script and style, by their hashes, and pictures; nothing else, and nothing
from elsewhere.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template

from coda_lib.files import write_text
from coda_study.markup import as_html
from coda_study.owned import belongs, claim, kind_of, remove, replaced_folder
from coda_study.run import Run
from coda_study.show.viewer.evidence import Evidence
from coda_study.show.viewer.sources import read_run

WEB = Path(__file__).parent / "web"
SCRIPTS = (
    "dom", "store", "filters", "stage", "votes", "episodes", "episode", "difference", "groups", "judges",
    "reward", "main",
)  # fmt: skip
NAME, PICTURES = "view.html", "view"  # the page, and the folder of its pictures beside it
# of the evidence, in the page's data
CONTENT = ("title", "about", "lacks", "labels", "rules", "standard", "reach", "tasks", "episodes", "groups")
LARGEST = 25_000_000  # bytes of the pictures in one file, by `write_run_page`


def write_run_page(run: Run, apps: Sequence[str] = ()) -> Path:
    """Write a run's view.html, with its pictures beside it in folder `view` if they are many; returns it."""
    evidence = Evidence(f"run {run.folder.name}")
    read_run(run, evidence, apps)
    return write_beside(evidence, run)


def write_beside(evidence: Evidence, run: Run) -> Path:
    """`write_run_page` of an evidence; what is committed, or not made by the kit, gets one file."""
    pictures = run.folder / PICTURES
    if belongs(pictures):
        if sum(len(picture.content) for picture in evidence.pictures.packed) * 4 / 3 > LARGEST:
            return write_folder(evidence, run.folder)
        remove(pictures)
    return write_page(evidence, run.view)


def write_page(evidence: Evidence, path: Path) -> Path:
    """Write everything to one file; returns it."""
    lines = [f"{file.kind},{_text(file.content)}{file.place}" for file in evidence.pictures.packed]
    write_text(path, _page(evidence, "img-src data:", "\n".join(lines)))
    return path


def write_folder(evidence: Evidence, folder: Path) -> Path:
    """Write page and pictures into the folder of a run, or into a folder of its own; returns the page.

    UserError for a folder that holds something else.
    """
    if kind_of(folder) != "run":
        claim(folder, "view")
    files = {f"{number:06d}.{file.kind}": file for number, file in enumerate(evidence.pictures.packed)}
    lines = [f"{name},{file.place}" for name, file in files.items()]
    with replaced_folder(folder / PICTURES) as temporary:
        temporary.mkdir()
        for name, file in files.items():
            (temporary / name).write_bytes(file.content)
    # a page from the disk has no origin of its own, so that 'self' alone would not do
    write_text(folder / NAME, _page(evidence, "img-src data: 'self' file:", "\n".join(lines), PICTURES))
    return folder / NAME


def _page(evidence: Evidence, pictures: str, lines: str, folder: str = "") -> str:
    style = (WEB / "style.css").read_text(encoding="utf-8")
    script = "\n".join((WEB / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    allowed = f"script-src {_hash(script)}; style-src {_hash(style)}; {pictures}"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    content = {name: getattr(evidence, name) for name in CONTENT} | {"pictures": folder}
    plain = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Template((WEB / "page.html").read_text(encoding="utf-8")).substitute(
        title=as_html(evidence.title), policy=policy, style=style, script=script,
        data=_text(gzip.compress(plain, mtime=0)), pictures=lines,
    )  # fmt: skip


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _hash(text: str) -> str:
    return f"'sha256-{_text(hashlib.sha256(text.encode()).digest())}'"
