"""Text of models, tasks and runs on pages and in notebooks: the one place that makes it harmless.

Whatever writes HTML or Markdown takes such text through here; the report's template escapes by itself
(Jinja), as pandas does for the tables of notebooks.  docs/reliability.md says what is tried against it.
"""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[^A-Za-z0-9 .,;]")
_LIVE = re.compile(  # in Markdown: HTML, links, code, cells of tables, and every kind of line end
    r"<(?=[A-Za-z/!?])|(?<=\])[(\[:]|&(?=[#A-Za-z])|[`|\\\x00-\x1f\x7f\x85\u2028\u2029]"
)
_TAGS = frozenset(
    "a b blockquote br caption code col colgroup dd details div dl dt em h1 h2 h3 h4 h5 h6 hr i li ol p pre "
    "s small span strong sub summary sup table tbody td tfoot th thead tr u ul".split()
)
_SPANS = ["colspan", "rowspan", "scope"]
_ATTRIBUTES = {"*": ["class", "style"], "a": ["href", "title"], "td": _SPANS, "th": _SPANS}
_STYLES = [
    "background", "background-color", "border", "color", "font", "font-size", "font-style", "font-weight",
    "line-height", "padding", "text-align", "text-decoration", "white-space", "word-break",
]  # fmt: skip


def as_html(text: str) -> str:
    """Any text as it is, for HTML and its attributes: letters, and numbers for all other characters.

    >>> as_html("<b> & more")
    '&#60;b&#62; &#38; more'
    """
    return _PLAIN.sub(_number, text)


def as_markdown(text: str) -> str:
    """Any text in a line or cell of Markdown: HTML, links and code in it are shown as they are.

    >>> as_markdown("12.9 [5.1, 22.4], p < 0.001"), as_markdown("<img> [a](b) | c")
    ('12.9 [5.1, 22.4], p < 0.001', '&#60;img> [a]&#40;b) &#124; c')
    """
    return _LIVE.sub(_number, text)


def without_html(markdown: str) -> str:
    """A Markdown text of a file, with its headings, tables and emphasis, but without HTML and links.

    >>> without_html("# Title\\n* one <script>")
    '# Title\\n* one &#60;script>'
    """
    return re.sub(r"<(?=[A-Za-z/!?])|(?<=\])[(\[:]|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", _number, markdown)


def clean_html(html: str) -> str:
    """HTML that somebody made: its text, tables and colours; nothing that runs or loads."""
    from bleach import Cleaner  # comes with nbconvert; only the book needs it
    from bleach.css_sanitizer import CSSSanitizer

    style = CSSSanitizer(allowed_css_properties=_STYLES)
    return Cleaner(
        tags=_TAGS, attributes=_ATTRIBUTES, protocols=["https"], css_sanitizer=style, strip=True
    ).clean(html)


def _number(match: re.Match) -> str:
    code = ord(match[0])
    shown = code in (9, 10) or 32 <= code < 0x7F or (code > 0x9F and not 0xD800 <= code < 0xE000)
    return f"&#{code if shown else 0xFFFD};"  # HTML has no number for the others
