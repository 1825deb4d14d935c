"""Markdown that notebooks show: of the kit's own files and of tables, whose cells may be anybody's text."""

from __future__ import annotations

import pandas as pd
from IPython.display import Markdown

from coda_study.markup import as_markdown, without_html


def markdown(text: str) -> Markdown:
    """A text with its headings, lists, tables and emphasis, but no HTML and no links."""
    return Markdown(without_html(text))


def markdown_table(table: pd.DataFrame) -> Markdown:
    """A table without its index; each cell is shown as it is."""
    cells = table.rename(columns=lambda name: as_markdown(str(name))).map(lambda cell: as_markdown(str(cell)))
    return Markdown(cells.to_markdown(index=False, disable_numparse=True))
