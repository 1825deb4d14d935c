"""The tables of a run in the layout of the paper's, their captions and files, and the HTML report.

`tables` computes tidy data frames in percent; `grid` lays them out as the paper does, and the writers make
files of these.
"""

from __future__ import annotations

import base64
from pathlib import Path
from xml.etree import ElementTree

import jinja2
import pandas as pd

from coda_lib.applications import DESKTOP_APPS
from coda_lib.errors import UserError
from coda_lib.files import read_json, write_text
from coda_study.evaluation import links
from coda_study.evaluation.ablations import TABLES as ABLATION_TABLES
from coda_study.evaluation.ablations import layout as ablation_layout
from coda_study.evaluation.paper import LABELS, OVERALL, Provenance
from coda_study.evaluation.tables import beside_paper
from coda_study.markup import as_markdown

SYSTEM_LABELS = {
    "base": "Base planner → executor", "executor": "Executor alone", "stage1": "Stage-1 specialists*",
    "stage2": "Stage-2 generalist",
}  # fmt: skip
SUCCESS = "Success in percent"
COMPARED = (
    "Differences in percentage points between systems on the same tasks, with p values of a sign-flip test"
)
SPECIALISTS_NOTE = "* {} specialist{}, each evaluated on its own application."
_NUMBERS = ("No", "One", "Two", "Three", "Four")
SMOKE_NOTE = "Smoke: so few tasks and runs that the figures only show that the pipeline works."
_BESIDE_NOTE = (
    "Ours is another benchmark ({}; in the {} profile with tiny models of a few "
    "million parameters); the paper's is ScienceBoard with models of 7 and 32 billion parameters. The "
    "two are to be compared "
    "in shape only: which system comes before which, never how high a figure is."
)


# ------------------------------------------------------------------------------------------------ captions an


def caption(table: pd.DataFrame, run: str, what: str = SUCCESS) -> str:
    """The caption of a tidy table: subject, run, provenance, tasks, runs, interval."""
    tasks = table.groupby("application")["tasks"].first()
    apps = [app for app in LABELS if app in tasks and app != OVERALL]
    methods = " or ".join(sorted(table["interval"].unique(), key=str.lower))
    sentences = [
        f"{what}; run {run}, {' and '.join(table['provenance'].unique())}.",
        f"{tasks[apps].sum()} tasks ({', '.join(f'{LABELS[app]} {tasks[app]}' for app in apps)}), "
        f"{_runs(table)}.",
        f"Intervals are 95 %, over tasks ({methods}).",
    ]
    if OVERALL in tasks:
        sentences.append("Overall is the unweighted mean of the applications.")
    if "stage1" in table.to_numpy():
        sentences.append(SPECIALISTS_NOTE.format(_NUMBERS[len(apps)], "s" * (len(apps) != 1)))
    if Provenance.SMOKE in table["provenance"].unique():
        sentences.append(SMOKE_NOTE)
    return " ".join(sentences)


def beside_note(table: pd.DataFrame) -> str:
    """What to keep in mind where a tidy table stands beside the paper's."""
    if set(table["application"]) & set(DESKTOP_APPS):
        note = _BESIDE_NOTE.format("tasks of our own in real applications", "desktop")
        return f"{note} The paper's Overall is over the four applications of ScienceBoard."
    return _BESIDE_NOTE.format("ScienceDesk, small embedded applications", "laptop")


def _runs(table: pd.DataFrame) -> str:
    """`8 runs per task`, or with several seeds `8 runs per task and seed, 3 seeds`."""
    each = table["metric"].str.split("@").str[1].astype(int)
    seeds = (table["runs"] // each).unique()
    runs = f"{' or '.join(map(str, each.unique()))} runs per task"
    return runs if set(seeds) == {1} else f"{runs} and seed, {' or '.join(map(str, seeds))} seeds"


def grid(table: pd.DataFrame, cells: pd.Series | None = None) -> pd.DataFrame:
    """Table 1 as in the paper: a row per metric and system, a column per application, `12.9 [5.1, 22.4]` or
    other `cells`.
    """
    cells = _cells(table, "value") if cells is None else cells
    table = table.assign(cell=cells, system=table["system"].replace(SYSTEM_LABELS))
    return _wide(table, {"metric": "Metric", "system": "System"})


def comparisons_grid(table: pd.DataFrame, cells: pd.Series | None = None) -> pd.DataFrame:
    """Differences in the layout of Table 1: a row per metric and pair, `+4.8 [+1.6, +8.5], p = 0.004` or
    other `cells`.
    """
    p = table["p"].map(lambda p: "p < 0.001" if p < 0.001 else f"p = {p:.3f}")
    table = table.assign(cell=_cells(table, "difference", "+") + ", " + p if cells is None else cells)
    table = table.replace({"first": SYSTEM_LABELS, "second": SYSTEM_LABELS})
    return _wide(table, {"metric": "Metric", "first": "From", "second": "To"})


def beside_grid(table: pd.DataFrame, cells: pd.Series | None = None) -> pd.DataFrame:
    """`beside_paper` laid out: for each metric and system our row, or other `cells`, and below it the
    paper's.
    """
    cells = _cells(table, "value") if cells is None else cells
    table = table.assign(system=table["system"].replace(SYSTEM_LABELS))
    ours = table.assign(cell=cells, source=f"ours, {table['provenance'].iloc[0]}")
    printed = table["paper_value"].map("{:.2f}".format, na_action="ignore").fillna("–")
    paper = table.assign(cell=printed, source=Provenance.PAPER.value, metric=table["paper_metric"])
    both = pd.concat([ours, paper]).sort_index(kind="stable")
    return _wide(both, {"metric": "Metric", "system": "System", "source": "Source"})


def endings_grid(table: pd.DataFrame, cells: pd.Series | None = None) -> pd.DataFrame:
    """`endings` laid out: a row per system, a column per ending."""
    cells = _cells(table, "value") if cells is None else cells
    wide = table.assign(cell=cells).pivot(index="system", columns="ending", values="cell")
    wide = wide.loc[table["system"].unique(), table["ending"].unique()].rename(index=SYSTEM_LABELS)
    return wide.reset_index().rename(columns={"system": "System"}).rename_axis(columns=None)


def rules_grid(table: pd.DataFrame) -> pd.DataFrame:
    """`compare_rules` or `table2` laid out: a row per rule, shares as `60.0 [49.4, 70.4]`."""
    shares = {
        name: _cells(table.rename(columns={f"{name}_low": "low", f"{name}_high": "high"}), name).mask(
            table[name].isna(), ""
        )
        for name in ("precision", "recall")
    }
    paper = [name for name in table if name.startswith("paper_")]
    columns = ["accepted", *shares, "calls", "small", "labels", "wrong_labels", *paper]
    return table.assign(**shares).set_index("rule").rename_axis(None)[columns].round(1)


def claims_grid(table: pd.DataFrame) -> pd.DataFrame:
    """`decide_claims` laid out: differences in percentage points, `+4.8 [+1.6, +8.5]`; empty where nothing
    was tested.
    """
    paper = table["reported"].map("{:+.1f}".format, na_action="ignore").fillna("")
    ours = _cells(table, "difference", "+").mask(table["difference"].isna(), "")
    columns = {
        "claim": "Claim",
        "metric": "Metric",
        "paper": "Paper",
        "ours": "This run",
        "verdict": "Verdict",
    }
    return table.assign(paper=paper, ours=ours)[list(columns)].fillna("").rename(columns=columns)


def to_markdown(layout: pd.DataFrame, text: str) -> str:
    """A laid-out table under its caption, as GitHub Markdown."""
    cells = layout.rename(columns=_literal).map(_literal)
    return _literal(text) + "\n\n" + cells.to_markdown(index=False, disable_numparse=True) + "\n"


def _literal(value: object) -> str:
    return as_markdown(str(value)).replace("*", "\\*")


def to_latex(layout: pd.DataFrame, text: str, label: str) -> str:
    """A laid-out table as a LaTeX table environment, for documents that load booktabs."""
    special = {character: f"\\{character}" for character in "&%_#${}"}
    special |= {"→": r"$\rightarrow$", "−": "$-$", "<": "$<$", "≥": r"$\geq$"}
    clean = str.maketrans(special)
    layout = layout.map(lambda cell: str(cell).translate(clean))
    return layout.to_latex(
        index=False, escape=False, caption=text.translate(clean), label=label, position="t"
    )


def _wide(table: pd.DataFrame, keys: dict[str, str]) -> pd.DataFrame:
    """One row per combination of keys, in order of appearance; one column per application, in the paper's
    order.

    UserError names applications without a column.
    """
    wide = table.pivot(index=list(keys), columns="application", values="cell")
    if unknown := sorted(set(wide) - set(LABELS)):
        raise UserError(f"the layout of Table 1 has no column for {', '.join(unknown)}")
    wide = wide.loc[list(table[list(keys)].drop_duplicates().itertuples(index=False, name=None))]
    wide = wide[[app for app in LABELS if app in wide.columns]].reset_index()
    return wide.rename(columns=keys | LABELS).rename_axis(columns=None)


def _cells(table: pd.DataFrame, column: str, sign: str = "") -> pd.Series:
    """`value [low, high]` with one decimal, the minus sign of typography and no minus zero."""
    form = f"{{:{sign}z.1f}} [{{:{sign}z.1f}}, {{:{sign}z.1f}}]"
    cells = [form.format(*row) for row in table[[column, "low", "high"]].itertuples(index=False)]
    return pd.Series(cells, index=table.index, dtype=str).str.replace("-", "−")


# ------------------------------------------------------------------------------------------------------------


def write_tables(folder: Path, table: pd.DataFrame, compared: pd.DataFrame, run: str) -> list[Path]:
    """Write table1, beside_paper and (unless empty) comparisons as csv, md and tex; return the files written."""
    tables = {"table1": table, "beside_paper": beside_paper(table)}
    if not compared.empty:
        tables["comparisons"] = compared
    contents = {}
    for name, tidy in tables.items():
        layout, text = _laid_out(name, tidy, run)
        contents[folder / f"{name}.csv"] = tidy.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        contents[folder / f"{name}.md"] = to_markdown(layout, text)
        contents[folder / f"{name}.tex"] = to_latex(layout, text, f"tab:{name}")
    for path, content in contents.items():
        write_text(path, content)
    return list(contents)


def _laid_out(name: str, table: pd.DataFrame, run: str) -> tuple[pd.DataFrame, str]:
    """A table of `write_tables` in its layout, and its caption."""
    match name:
        case "table1":
            return grid(table), caption(table, run)
        case "beside_paper":
            return beside_grid(table), f"{caption(table, run)} {beside_note(table)}"
    return comparisons_grid(table), caption(table, run, COMPARED)


def html_report(run_dir: Path) -> Path:
    """Write run_dir/report.html: tables, figures, manifest and wall times of a run in one file.

    The cells of tables are links to the episodes behind them in view.html, which `coda view` writes beside
    it.

    Reads tables/*.csv (those of `write_tables` and `LAYOUTS` are laid out, others shown as they are),
    figures/*.svg with the captions in their metadata, manifest.json and timings.json (seconds by stage); the
    report says where one of the last two is missing.  Raises UserError where there is no Table 1.
    """
    if not (run_dir / "tables" / "table1.csv").exists():
        raise UserError(f"{run_dir} has no tables/table1.csv: finish the run first")
    frames = {path.stem: pd.read_csv(path) for path in sorted((run_dir / "tables").glob("*.csv"))}
    run, provenance = run_dir.name, " and ".join(frames["table1"]["provenance"].unique())
    titles = {"table1": "Table 1", "beside_paper": "Beside the paper", "comparisons": "Comparisons"}
    sections = [
        (title, *_laid_out(name, frames[name], run), name) for name, title in titles.items() if name in frames
    ]
    for name in sorted(set(frames) - set(titles), key=lambda name: ([*LAYOUTS, name].index(name), name)):
        title, lay_out = LAYOUTS.get(name, (name.capitalize(), _as_it_is))
        sections.append(
            (title, lay_out(frames[name]), f"tables/{name}.csv of run {run}, {provenance}.", name)
        )
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    page = environment.get_template("report.html.j2").render(
        run=run, provenance=provenance,
        tables=[
            {"title": title, "caption": text, "columns": list(layout), "rows": _linked_rows(layout,
             _links(name, frames[name]))}
            for title, layout, text, name in sections
        ],
        figures=[_figure(path) for path in sorted((run_dir / "figures").glob("*.svg"))],
        manifest=_read_if_written(run_dir / "manifest.json"),
        timings=_read_if_written(run_dir / "timings.json"),
    )  # fmt: skip
    write_text(run_dir / "report.html", page)
    return run_dir / "report.html"


def _as_it_is(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns="provenance", errors="ignore")


LAYOUTS = {  # tables/NAME.csv: its title and layout in the report, in this order
    "claims": ("The paper's claims, differences in percentage points", claims_grid),
    "endings": ("How episodes end, percent of a system's episodes", endings_grid),
    "greedy": (
        "Without chance: success in percent, each task once at temperature 0",
        lambda table: grid(table),
    ),
    "sealed": ("Sealed tasks: success in percent", lambda table: grid(table)),
    "sealed_differences": (
        "Sealed tasks: differences in percentage points",
        lambda table: comparisons_grid(table),
    ),
    "table2": ("Table 2", lambda table: rules_grid(table).reset_index(names="rule")),
    "judge": ("The judge", _as_it_is),
    "votes": ("Voting rules", lambda table: rules_grid(table).reset_index(names="rule")),
    "labels": ("Labels of the ablations", _as_it_is),
    **{name: (title, ablation_layout) for name, title in ABLATION_TABLES.items()},
}


def _links(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """The laid-out table with the link of a cell in its place; columns and cells without one are left out or
    empty.
    """
    match name:
        case "table1" | "greedy":
            linked = grid(table, links.of_systems(table, "test" if name == "table1" else "greedy"))
        case "beside_paper":
            linked = beside_grid(table, links.of_systems(table))
            linked = linked.where(linked["Source"] != Provenance.PAPER)
        case "comparisons":
            linked = comparisons_grid(table, links.of_differences(table))
        case "endings":
            linked = endings_grid(table, links.of_endings(table))
        case "table2" | "votes":
            return links.of_rules(table, "mix" if name == "table2" else "train")
        case "judge":
            return pd.DataFrame({"value": links.of_judge(table)})
        case "claims":
            return pd.DataFrame({"This run": links.of_claims(table)})
        case _:
            return pd.DataFrame(index=table.index)
    return linked.drop(columns=["Metric", "System", "From", "To", "Source"], errors="ignore")


def _linked_rows(layout: pd.DataFrame, linked: pd.DataFrame) -> list[list[tuple[str, str | None]]]:
    """Each cell as text and the link behind it."""
    linked = linked.reindex(columns=layout.columns, index=layout.index).astype(object)
    texts, targets = (
        layout.map(_shown).to_numpy().tolist(),
        linked.where(linked.notna(), None).to_numpy().tolist(),
    )
    return [
        [(text, text and target) for text, target in zip(*row, strict=True)]
        for row in zip(texts, targets, strict=True)
    ]


def _shown(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return str(value)


def _figure(path: Path) -> dict[str, str]:
    """An SVG file in base64, with the caption in its metadata."""
    svg = path.read_bytes()
    description = ElementTree.fromstring(svg).find(".//{http://purl.org/dc/elements/1.1/}description")
    if description is None:
        raise ValueError(f"{path} has no caption: write figures with show.save(figure, path, caption)")
    return {"name": path.stem, "caption": description.text, "data": base64.b64encode(svg).decode("ascii")}


def _read_if_written(path: Path) -> dict | None:
    return read_json(path) if path.exists() else None
