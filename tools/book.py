"""The book: MkDocs' hooks that add a run's notebooks, report and episodes to docs/ and turn formulas into
MathML.

`mkdocs build --strict` (`make docs`) writes the book to build/book.  No notebook is executed: a page shows
the executed copy in the run's folder, or the notebook without outputs where the run has none.  The book works
without a network; a page that would load anything from one is an error.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

import nbformat
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from mkdocs.structure.nav import Link, Section
from nbconvert import MarkdownExporter

from coda_lib.files import read_json
from coda_study.markup import as_html, clean_html, without_html
from coda_study.run import Run
from coda_study.show.viewer import write_run_page
from tools.figures import MARK

REPO = Path(__file__).resolve().parent.parent
NOTEBOOKS, RESULTS = REPO / "notebooks", REPO / "results"
SECTIONS = {"Notebooks": "*.ipynb", "Solutions": "solutions/*.ipynb"}
WIDGET = "application/vnd.jupyter.widget-view+json"  # draws nothing without a kernel
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
INTERVAL = re.compile(r"(\[[+−-]?[\d.]+,) ([+−-]?[\d.]+\])")  # breaks in no line
COLORS = re.compile(r"\x1b\[[0-9;]*m")  # of a terminal, in tracebacks
OUTWARD = re.compile(
    r"""<(?:script|link|img|iframe|source|video)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//[^>]*>"""
)


def executed_folder(name: str) -> Path:
    """The executed notebooks of a run, or of the newest finished one.  PluginError if there are none."""
    results = (RESULTS, RESULTS / "reference")
    runs = [folder / name for folder in results] if name else [run for r in results for run in r.iterdir()]
    known = [run for run in runs if (run / "notebooks").is_dir() and (name or finished(Run(str(run))))]
    if not known:
        lacks = (
            f"run {name} has no executed notebooks" if name else "no run with executed notebooks is finished"
        )
        raise PluginError(f"{lacks}, under results/: `make smoke` makes them in some minutes")
    return max(known, key=lambda run: newest(run / "manifest.json")) / "notebooks"


def finished(run: Run) -> bool:
    """Whether all that was asked of a run is done, its report among it."""
    states = [read_json(path)["state"] for path in run.folder.glob("stages/*.json")]
    return run.report.is_file() and run.manifest.is_file() and all(state == "done" for state in states)


def newest(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0


def sources(pattern: str = "**/*.ipynb") -> list[Path]:
    """The notebooks in the order of the book."""
    return sorted(path for path in NOTEBOOKS.glob(pattern) if not path.parent.name.startswith("."))


def page_of(source: Path) -> str:
    return f"notebooks/{source.relative_to(NOTEBOOKS).with_suffix('.md')}"


def notebook_page(source: Path, executed: Path) -> tuple[str, dict[str, bytes]]:
    """The page of a notebook as Markdown, and its pictures by name: of the first executed copy, if there is
    one.
    """
    name = "-".join(
        source.relative_to(NOTEBOOKS).with_suffix("").parts
    )  # a copy has it before -base-gis and the like
    copies = sorted(
        path for path in executed.glob("*.ipynb") if re.fullmatch(rf"{name}(-[\w-]+)?", path.stem)
    )
    path = copies[0] if copies else source
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                harmless(output) for output in cell.outputs if WIDGET not in output.get("data", {})
            ]
        else:
            cell.source = python_markdown(cell.source)
    resources = {"unique_key": source.stem, "output_files_dir": f"{source.stem}_files"}
    text, resources = MarkdownExporter().from_notebook_node(notebook, resources)
    origin = (
        f"Executed in the run `{executed.parent.name}`: `{path.name}`."
        if copies
        else "Without outputs: not executed here."
    )
    return re.sub(r"(?m)^(# .*)$", rf"\1\n\n*{origin}*", text, count=1), resources["outputs"]


def evidence(executed: Path) -> dict[str, Path]:
    """The report of a run and the page of the episodes behind its figures, by their addresses; {} for a run
    without results.

    The page of the episodes is written if the run has none, as `coda view` does.
    """
    run = Run(str(executed.parent))
    if not run.report.is_file():
        return {}
    if not run.view.is_file():
        write_run_page(run)
    pictures = sorted((run.folder / "view").glob("*"))
    return {str(path.relative_to(run.folder)): path for path in (run.report, run.view, *pictures)}


def harmless(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """An output as a picture or as HTML that runs and loads nothing: a line end within it could end a code
    block of Markdown.
    """
    data = output.get("data", {})
    if "image/png" in data:
        return nbformat.v4.new_output("display_data", {"image/png": data["image/png"]})
    if "text/html" in data:
        page = clean_html(re.sub(r"<style scoped>.*?</style>", "", data["text/html"], flags=re.DOTALL))
        page = re.sub(r"<pre.*?</pre>", lambda match: match[0].replace("\n", "&#10;"), page, flags=re.DOTALL)
        page = (
            re.sub(r"\s*[\r\n]\s*", "\n", page.replace(' class="dataframe"', ""))
            .replace("`", "&#96;")
            .replace("~", "&#126;")
        )
    elif "text/markdown" in data:
        return nbformat.v4.new_output("display_data", {"text/markdown": without_html(data["text/markdown"])})
    else:
        text = output.get("text") or "\n".join(output.get("traceback", ())) or data.get("text/plain", "")
        code = as_html(re.sub(COLORS, "", text).rstrip())
        page = f"<div class='highlight'><pre><code>{code}</code></pre></div>"
    return nbformat.v4.new_output("display_data", {"text/html": page})


def python_markdown(text: str) -> str:
    """A cell's text in MkDocs' dialect: formulas are blocks, what belongs to a list has four spaces, links
    lead to pages.
    """
    text = re.sub(r"(?m)^( *)(\$\$(?:.|\n)*?\$\$)$", lambda m: f"\n{m[1] and '    '}{m[2]}\n", text)
    text = re.sub(r"(?m)(?<=\n\n) {2,3}(?=\S)", "    ", text)
    return re.sub(r"\]\(([\w/.-]+)\.ipynb", r"](\1.md", text)


def on_config(config):
    config.extra["executed"] = executed_folder(config.extra["run"])
    print(f"notebooks, report and episodes of run {config.extra['executed'].parent.name}")
    for title, pattern in SECTIONS.items():
        if pages := [page_of(source) for source in sources(pattern)]:
            config.nav.append({title: pages})
    return config


def on_files(files, config):
    for source in sources():
        text, pictures = notebook_page(source, config.extra["executed"])
        page = page_of(source)
        files.append(File.generated(config, page, content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"{Path(page).parent}/{name}", content=content))
    for address, path in evidence(config.extra["executed"]).items():
        files.append(File.generated(config, address, abs_src_path=str(path)))
    return files


def on_nav(nav, config, files):
    """Report and episodes are no pages of MkDocs: links lead to them."""
    pages = {"Report": "report.html", "Episodes": "view.html"}
    if links := [
        Link(title, address) for title, address in pages.items() if files.get_file_from_path(address)
    ]:
        nav.items.append(Section(f"Run {config.extra['executed'].parent.name}", links))
    return nav


def on_page_markdown(markdown, page, config, files):
    """Links of docs/ that lead out of it: to a notebook's page, or to a copy of the file."""
    if page.file.generated_by:
        return markdown
    for target in re.findall(r"\]\(\.\./([^)#]+)", markdown):
        if not target.endswith(".ipynb") and files.get_file_from_path(target) is None:
            files.append(File.generated(config, target, abs_src_path=str(REPO / target)))
    markdown = MARK.sub(r"\2", markdown)  # a line that begins with a comment would end its paragraph
    return re.sub(r"\]\(\.\./(notebooks/[^)#]+)\.ipynb", r"](\1.md", markdown).replace("](../", "](")


def on_page_content(html_text, page, config, files):
    def formula(match: re.Match) -> str:
        return convert(html.unescape(match[2]), display="block" if match[1] == "div" else "inline")

    return INTERVAL.sub(r"\1&nbsp;\2", FORMULA.sub(formula, html_text))


def on_post_build(config):
    """PluginError if a page would load something from a network."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        if match := OUTWARD.search(path.read_text(encoding="utf-8")):
            raise PluginError(f"{path} loads from a network: {match[0]}")
