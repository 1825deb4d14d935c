"""What cells of notebooks show besides figures: Markdown, bars, and learning curves that grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from IPython.display import DisplayHandle, Markdown

from coda_study.markup import as_markdown, without_html
from coda_study.pipeline.progress import clock
from coda_study.show.figures import CURVES, learning_curves

OnProgress = Callable[[int, int], None]  # (done, in all)
REDRAW_S = 10.0  # least time between two drawings of the curves


def markdown(text: str) -> Markdown:
    """A text with its headings, lists, tables and emphasis, but no HTML and no links."""
    return Markdown(without_html(text))


def markdown_table(table: pd.DataFrame) -> Markdown:
    """A table without its index; each cell, which may be anybody's text, is shown as it is."""
    cells = table.rename(columns=lambda name: as_markdown(str(name))).map(lambda cell: as_markdown(str(cell)))
    return Markdown(cells.to_markdown(index=False, disable_numparse=True))


@contextmanager
def progress(unit: str) -> Iterator[OnProgress]:
    """A bar with elapsed and expected time; gives the function that moves it: `on_progress(done, total)`.

    A resumed stage begins above 0: the expected time is that of what this cell does.
    """
    handle, start, at_start = DisplayHandle(), time.monotonic(), []
    _show(handle.display, f"{unit} …")

    def on_progress(done: int, total: int) -> None:
        if not at_start:
            at_start.append(max(0, done - 1))
        elapsed, run = time.monotonic() - start, done - at_start[0]
        expected = f" of about {clock(elapsed / run * (total - at_start[0]))}" if run and done < total else ""
        bar = "█" * round(30 * done / total)
        _show(handle.update, f"{bar:░<30} {done} of {total} {unit}, {clock(elapsed)}{expected}")

    yield on_progress
    if not at_start:
        _show(handle.update, f"no {unit} left to do")


@contextmanager
def training(
    log: Path | Mapping[str, Path], name: str = "", metrics: Mapping[str, str] = CURVES, caption: str = ""
) -> Iterator[OnProgress]:
    """`progress` of a training, with the curves of its metrics.jsonl below the bar.

    `metrics` is as of `learning_curves`.  Where planners are trained one after the other, `log` is by name.
    """
    handle, drawn = DisplayHandle(), [float("-inf")]
    logs = log if isinstance(log, Mapping) else {name: log}

    def draw() -> None:
        records = {part: pd.read_json(path, lines=True) for part, path in logs.items() if path.exists()}
        logged = {column for record in records.values() for column in record}
        labels = {key: label for key, label in metrics.items() if key in logged}
        sheet = learning_curves(records, labels, caption=caption)
        handle.update(sheet) if drawn[0] > 0 else handle.display(sheet)
        drawn[0] = time.monotonic()

    with progress("steps") as bar:

        def on_progress(done: int, total: int) -> None:
            bar(done, total)
            if time.monotonic() - drawn[0] > REDRAW_S:
                draw()

        yield on_progress
    draw()


def _show(display: Callable[..., None], line: str) -> None:
    display({"text/plain": line}, raw=True)
