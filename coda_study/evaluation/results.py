"""The files that notebooks 10 and 14 write: the tables of a run, its claims and manifest, and report.html.

In report.html the cells of tables are links to the episodes behind them, in the page that `coda view` writes
beside it: `view.html#/VIEW?FILTERS`, with the views and filters of `show/viewer/web`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlencode
from xml.etree import ElementTree

import jinja2
import pandas as pd

from coda_lib.errors import UserError
from coda_lib.files import read_json, records, write_json, write_text
from coda_study.evaluation import report
from coda_study.evaluation.ablations import TABLES as ABLATION_TABLES
from coda_study.evaluation.ablations import layout as ablation_layout
from coda_study.evaluation.claims import DifferenceTest, RulesTest, load_claims
from coda_study.evaluation.paper import OVERALL, Provenance, ledger
from coda_study.evaluation.provenance import code_state, write_manifest
from coda_study.run import Run

PAGE = "view.html"
COUNTED = {  # column of a table of voting rules: filters for the trajectories that it counts
    "accepted": {"judge": "accepted"}, "precision": {"judge": "accepted"}, "recall": {"outcome": "success"},
    "coverage": {}, "calls": {}, "small": {}, "labels": {"judge": "clean"},
    "wrong_labels": {"judge": "clean"},
}  # fmt: skip
FILTERS = {"application": "app", "planner": "system"}  # columns whose filter has another name


def save_results(
    run: Run, table: pd.DataFrame, compared: pd.DataFrame, claims: pd.DataFrame, **others: pd.DataFrame
) -> list[Path]:
    """Write the tables of a run (csv, md, tex), its claims, deviations and manifest, then report.html.

    `table` is that of `table1`, `compared` that of `comparisons`, `claims` that of `decide_claims`; `others`
    become tables/{name}.csv.  Returns the files of Table 1 and of the comparisons, and the page.
    """
    write_json(run.claims, records(claims))
    made = report.made_with(run.profile().model_dump(mode="json"), code_state())
    files = report.write_tables(run.tables, table, compared, run.folder.name, made)
    save_tables(run, claims=claims, **others)
    write_text(run.tables / "deviations.csv", ledger(run.profile()).to_csv(index=False))
    write_manifest(run, run.profile())
    return [*files, html_report(run.folder)]


def save_tables(run: Run, **tables: pd.DataFrame) -> None:
    """Write tables/{name}.csv for each table, with the run's provenance as its last column."""
    provenance = Provenance.of(run.profile())
    for name, table in tables.items():
        content = table.assign(provenance=provenance).to_csv(index=False, float_format="%.6g")
        write_text(run.tables / f"{name}.csv", content)


def html_report(run_dir: Path, linked: bool = True) -> Path:
    """Write run_dir/report.html: tables, figures, manifest and wall times of a run in one file.

    Reads tables/*.csv (those of `SECTIONS` are laid out, others shown as they are), figures/*.svg with the
    captions in their metadata, manifest.json and timings.json (seconds by stage); the report says where one
    of the last two is missing.  `linked`: cells lead into view.html, for a run that has or gets that page.
    Raises UserError where there is no Table 1.
    """
    if not (run_dir / "tables" / "table1.csv").exists():
        raise UserError(f"{run_dir} has no tables/table1.csv: finish the run first")
    frames = {path.stem: pd.read_csv(path) for path in sorted((run_dir / "tables").glob("*.csv"))}
    run, provenance = run_dir.name, " and ".join(frames["table1"]["provenance"].unique())
    names = [*filter(frames.__contains__, SECTIONS), *(name for name in frames if name not in SECTIONS)]
    captions = {name: f"tables/{name}.csv of run {run}, {provenance}." for name in names}
    manifest = _read_if_written(run_dir / "manifest.json")
    made = report.made_with(manifest["profile"], manifest["code"]) if manifest else ""
    for name in filter(frames.__contains__, report.CAPTIONED):
        captions[name] = report.CAPTIONED[name][1](frames[name], run, made)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    page = environment.get_template("report.html.j2").render(
        run=run,
        linked=linked,
        provenance=provenance,
        tables=[_section(name, frames[name], captions[name], linked) for name in names],
        figures=[_figure(path) for path in sorted((run_dir / "figures").glob("*.svg"))],
        manifest=manifest,
        timings=_read_if_written(run_dir / "timings.json"),
    )
    write_text(run_dir / "report.html", page)
    return run_dir / "report.html"


def _section(name: str, table: pd.DataFrame, caption: str, linked: bool) -> dict:
    """The part of the report about a table: its title, caption, columns, and rows of (text, link or "")."""
    title, lay_out, links_of = SECTIONS.get(name, (name.capitalize(), _as_it_is, None))
    layout, links = lay_out(table), links_of(table) if links_of and linked else pd.DataFrame()
    if isinstance(links, pd.Series):  # one of each row, which the layout puts where the row's cell is
        links = lay_out(table, links)
    links = links.reindex(columns=layout.columns, index=layout.index)
    links = links.map(lambda cell: cell if str(cell).startswith(PAGE) else "")
    rows = [list(zip(*row, strict=True)) for row in zip(layout.map(_shown).values, links.values, strict=True)]
    return {"title": title, "caption": caption, "columns": list(layout), "rows": rows}


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


# ---- links -----------------------------------------------------------------------------------------------


def link(view: str, **filters: object) -> str:
    """The address of a view of the page with these filters; those that are None or `overall` are left out.

    >>> link("episodes", set="test", system="stage2", app="gis")
    'view.html#/episodes?set=test&system=stage2&app=gis'
    """
    chosen = {name: value for name, value in filters.items() if value not in (None, OVERALL)}
    return f"{PAGE}#/{view}?{urlencode(chosen)}"


def _links(
    table: pd.DataFrame, columns: Sequence[str], view: str = "episodes", of: str | None = "test", **more: str
) -> pd.Series:
    """For each row of a tidy table a view of a set of episodes, filtered by its `columns` and by `more`."""
    if "metric" in columns:
        table = table.assign(metric=table["metric"].str.split("@").str[0])
    rows = table[list(columns)].rename(columns=FILTERS).to_dict("records")
    return pd.Series([link(view, set=of, **row, **more) for row in rows], table.index, dtype=object)


def _rule_links(table: pd.DataFrame, of: str) -> pd.DataFrame:
    """The trajectories counted: of="mix" those of Table 2, "train" a run's own."""
    columns = {name: _links(table, ["rule"], of=of, **counted) for name, counted in COUNTED.items()}
    return pd.DataFrame(columns)


def _judge_links(table: pd.DataFrame) -> pd.DataFrame:
    """The trajectories that each share of `judge_table` by planner counts, by the run's own rule."""
    columns, parts = ("planner", "application"), table.groupby("measure")
    links = [_links(part, columns, of="train", **COUNTED[measure]) for measure, part in parts]
    return pd.DataFrame({"value": pd.concat(links)})


def _claim_links(table: pd.DataFrame) -> pd.DataFrame:
    """The tasks or votes that each decided claim rests on."""
    tests, links = {claim.claim: claim.test for claim in load_claims()}, {}
    for row in table[table["difference"].notna()].itertuples():
        match tests.get(row.claim):
            case DifferenceTest(first=first, second=second):
                cell = {"app": row.application, "metric": row.metric.split("@")[0]}
                links[row.Index] = link("difference", first=first, second=second, **cell)
            case RulesTest(first=first, second=second, measure=measure):
                links[row.Index] = link("judges", set="mix", first=first, second=second, measure=measure)
    return pd.DataFrame({"This run": pd.Series(links, dtype=object)})


def _as_it_is(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns="provenance", errors="ignore")


def _rules(table: pd.DataFrame) -> pd.DataFrame:
    return report.rules_grid(table).reset_index(names="rule")


_cell_links = partial(_links, columns=("system", "application", "metric"))
_PAIR = ("first", "second", "application", "metric")
_pair_links = partial(_links, columns=_PAIR, view="difference", of=None)
SECTIONS = {  # tables/NAME.csv: its title, its layout, and the links of its rows (or cells), in this order
    "table1": ("Table 1", report.grid, _cell_links),
    "beside_paper": ("Beside the paper", report.beside_grid, _cell_links),
    "comparisons": ("Comparisons", report.comparisons_grid, _pair_links),
    "claims": ("The paper's claims, differences in percentage points", report.claims_grid, _claim_links),
    "endings": (
        "How episodes end, percent of a system's episodes", report.endings_grid,
        partial(_links, columns=("system", "ending")),
    ),
    "greedy": (
        "At temperature 0: success in percent, each task once", report.grid,
        partial(_cell_links, of="greedy"),
    ),
    "blind": ("What blindness earns: success in percent", report.grid, None),
    "passes": ("Average, Pass@k, Pass^k and tasks that flip, by temperature", report.passes_grid, None),
    "temperatures": ("The base planner at development tasks, by temperature", report.temperatures_grid, None),
    "kinds": ("By kind and grade of the task: Average@k, Overall", report.kinds_grid, None),
    "factors": ("By factor of the perturbation: Average, Overall", report.factors_grid, None),
    "sealed": ("Sealed tasks: success in percent", report.grid, None),
    "sealed_differences": ("Sealed tasks: differences in percentage points", report.comparisons_grid, None),
    "table2": ("Table 2", _rules, partial(_rule_links, of="mix")),
    "judge": ("The judge", _as_it_is, _judge_links),
    "votes": ("Voting rules", _rules, partial(_rule_links, of="train")),
    "labels": ("Labels of the ablations", _as_it_is, None),
    **{name: (title, ablation_layout, None) for name, title in ABLATION_TABLES.items()},
}  # fmt: skip
