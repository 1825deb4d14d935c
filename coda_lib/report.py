"""The tables of a run in the shape of the paper's, their captions and files, and the HTML evidence pack.

Everything is computed from evaluation tables: one row per episode with task_id, app, run, system, success, stop.
Tables are tidy data frames in percent; `grid` lays one out as the paper prints it, and the writers take it from there.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import jinja2
import numpy as np
import pandas as pd

from coda_lib import statistics
from coda_lib.config import APPS, SYSTEMS
from coda_lib.errors import UserError
from coda_lib.files import read_json, write_text
from coda_lib.paper import LABELS, OVERALL, Provenance, load_table1
from coda_lib.statistics import RESAMPLES, EpisodesError

SYSTEM_LABELS = {
    "base": "Base planner → executor",
    "executor": "Executor alone",
    "stage1": "Stage-1 specialists*",
    "stage2": "Stage-2 generalist",
}
PAPER_MODELS = {  # the row of the paper's Table 1 that each of our systems stands beside
    "base": "Qwen2.5-VL-32B",
    "executor": "UI-TARS-1.5-7B",
    "stage1": "CODA (Stage-1)",
    "stage2": "CODA (Stage-2)",
}
PAIRS = (("base", "stage1"), ("stage1", "stage2"), ("base", "stage2"))
CLAIMS = {  # of the paper, with its Table 1 as their evidence
    ("base", "stage1"): "Specialists beat the base planner",
    ("stage1", "stage2"): "The generalist beats the specialists",
    ("base", "stage2"): "The generalist beats the base planner",
}
SIDES = ("first", "second")  # of a comparison
FAMILIES = ("Average", "Pass")

SUCCESS = "Success in percent"
COMPARED = "Differences in percentage points between systems on the same tasks, with p values of a sign-flip test"
SPECIALISTS_NOTE = "* Four specialists, each evaluated on its own application."
SMOKE_NOTE = "Smoke: so few tasks and runs that the figures only show that the pipeline works."
BESIDE_NOTE = (
    "Ours is another benchmark (ScienceDesk, small embedded applications; in the laptop profile with tiny models of a few "
    "million parameters); the paper's is ScienceBoard with models of 7 and 32 billion parameters. The two are to be compared "
    "in shape only: which system comes before which, never how high a figure is."
)


# ------------------------------------------------------------------------------------------------------------- tables


def table1(
    episodes: pd.DataFrame,
    systems: Sequence[str] = SYSTEMS,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    apps: Sequence[str] = APPS,
    provenance: Provenance = Provenance.MEASURED,
) -> pd.DataFrame:
    """Table 1 of a run, a row per cell.

    Columns: metric, system, application, value, low, high, tasks, runs, interval, provenance.  Metrics are Average@k
    and Pass@k with k the number of runs found; value, low and high are percent, low to high the 95 % interval.
    `interval` says how it was made: Wilson's for Pass@k of one application (tasks are independent trials), a bootstrap
    over tasks for Average@k, stratified by application for Overall, the unweighted mean of `apps`.  Every cell draws
    from a generator of its own with the same seed, so no cell depends on which others are computed.

    Raises EpisodesError unless all systems have the same tasks and runs.
    """
    matrices = _matrices(episodes, systems, apps)
    rows = []
    for family, system, application in product(FAMILIES, systems, (*apps, OVERALL)):
        chosen = [matrices[system, app] for app in _members(application, apps)]
        scores = [_scores(family, matrix) for matrix in chosen]
        if family == "Pass" and application != OVERALL:
            estimate = statistics.wilson(scores[0].sum(), len(scores[0]))
        else:
            estimate = statistics.bootstrap_mean(scores, np.random.default_rng(seed), resamples)
        rows.append(
            {
                "metric": f"{family}@{chosen[0].shape[1]}",
                "system": system,
                "application": application,
                "value": 100 * estimate.value,
                **_evidence(estimate, chosen, provenance),
            }
        )
    return pd.DataFrame(rows)


def comparisons(
    episodes: pd.DataFrame,
    systems: Sequence[str] = SYSTEMS,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    apps: Sequence[str] = APPS,
    provenance: Provenance = Provenance.MEASURED,
) -> pd.DataFrame:
    """Paired differences between systems, a row per metric, pair and application or Overall.

    The pairs are those of PAIRS that `systems` contains.  Columns: metric, first, second, application, difference
    (second minus first, percentage points), p (sign-flip test over tasks), mcnemar_p (exact; Pass@k only, Overall
    pools all tasks), low, high (95 %, paired bootstrap over tasks), tasks, runs, interval, provenance.  The p values
    are not corrected for the number of comparisons.

    Raises EpisodesError unless all these systems have the same tasks and runs.
    """
    pairs = [pair for pair in PAIRS if set(pair) <= set(systems)]
    matrices = _matrices(episodes, [system for system in systems if any(system in pair for pair in pairs)], apps)
    rows = []
    for family, (first, second), application in product(FAMILIES, pairs, (*apps, OVERALL)):
        chosen = [[matrices[system, app] for app in _members(application, apps)] for system in (first, second)]
        before, after = ([_scores(family, matrix) for matrix in side] for side in chosen)
        result = statistics.paired_difference(before, after, np.random.default_rng(seed), resamples)
        solved = [np.concatenate(side) == 1 for side in (before, after)]
        rows.append(
            {
                "metric": f"{family}@{chosen[0][0].shape[1]}",
                "first": first,
                "second": second,
                "application": application,
                "difference": 100 * result.value,
                "p": result.p,
                "mcnemar_p": statistics.mcnemar_p(*solved) if family == "Pass" else np.nan,
                **_evidence(result, chosen[0], provenance),
            }
        )
    return pd.DataFrame(rows)


def beside_paper(table: pd.DataFrame) -> pd.DataFrame:
    """Our Table 1 with the paper's figure beside each of ours; show `BESIDE_NOTE` wherever this is shown.

    Adds paper_metric, paper_model, paper_value (percent) and paper_tasks to the rows of `table`.  Average@k stands
    beside the paper's Average@8 and Pass@k beside its Pass@8, whatever our k.  Its Overall is left out where ours does
    not cover the same four applications.
    """
    paper = load_table1()
    if not set(APPS) <= set(table["application"]):
        paper = paper[paper["application"] != OVERALL]
    paper = paper.rename(columns={name: f"paper_{name}" for name in ("metric", "model", "value", "tasks")})
    keys = ["paper_metric", "paper_model", "application"]
    ours = table.assign(
        paper_metric=table["metric"].str.split("@").str[0] + "@8", paper_model=table["system"].map(PAPER_MODELS)
    )
    return ours.merge(paper[[*keys, "paper_value", "paper_tasks"]], on=keys, how="left", validate="many_to_one")


def claims(compared: pd.DataFrame) -> pd.DataFrame:
    """What a run says about the paper's claims, a row per claim and metric: judged on Overall alone.

    `compared` is `comparisons`'.  Columns: claim, metric, reported (the paper's difference in percentage points),
    difference, low, high, p, verdict, provenance.  The verdict is `supported` where the whole 95 % interval lies above
    zero, `contradicted` where it lies below, `undecided` otherwise, and `not tested` in a smoke run.
    """
    columns = ["claim", "metric", "reported", "difference", "low", "high", "p", "verdict", "provenance"]
    if compared.empty:
        return pd.DataFrame(columns=columns)
    paper = load_table1().query("application == @OVERALL").set_index(["metric", "model"])["value"]
    rows = compared[compared["application"] == OVERALL]
    verdict = np.select([rows["low"] > 0, rows["high"] < 0], ["supported", "contradicted"], "undecided")
    families = rows["metric"].str.split("@").str[0] + "@8"
    before, after = ([paper[key] for key in zip(families, rows[side].map(PAPER_MODELS), strict=True)] for side in SIDES)
    named = rows.assign(
        claim=[CLAIMS[pair] for pair in zip(rows["first"], rows["second"], strict=True)],
        reported=np.subtract(after, before),
        verdict=np.where(rows["provenance"] == Provenance.SMOKE, "not tested", verdict),
    )
    return named[columns].reset_index(drop=True)


def judge_table(scores: dict[str, dict]) -> pd.DataFrame:
    """Precision and recall of the judge per application with Wilson's 95 % intervals, for `plotting.judge_bars`.

    `scores` maps applications to what notebook 04 wrote (`Run.judge_scores`).  Columns: application, measure, value,
    low, high (percent; empty where the judge said yes to nothing, or there was no success to find), of (trajectories).
    """
    rows = []
    for application, score in scores.items():
        said = score["true_positive"] + score["false_positive"]
        for measure, of in (("precision", said), ("recall", score["successes"])):
            found = statistics.wilson(score["true_positive"], of) if of else None
            low, value, high = (100 * found.low, 100 * found.value, 100 * found.high) if found else [np.nan] * 3
            rows.append((application, measure, value, low, high, of))
    return pd.DataFrame(rows, columns=["application", "measure", "value", "low", "high", "of"])


def _matrices(
    episodes: pd.DataFrame, systems: Sequence[str], apps: Sequence[str]
) -> dict[tuple[str, str], pd.DataFrame]:
    """Success matrices by (system, application), all systems with the same tasks and runs."""
    episodes = episodes[episodes["system"].isin(systems)]
    if unknown := sorted(set(episodes["app"]) - set(apps)):
        raise EpisodesError(f"episodes of applications that this table has no column for: {', '.join(unknown)}")
    app_of = dict(zip(episodes["task_id"], episodes["app"], strict=True))
    if systems and (absent := [app for app in apps if app not in app_of.values()]):
        raise EpisodesError(f"no episodes of any system for {', '.join(absent)}")
    matrices = {}
    for system in systems:
        of_system = episodes[episodes["system"] == system]
        matrix = statistics.success_matrix(of_system, app_of, episodes["run"].unique(), f"system {system!r}")
        matrices |= {(system, app): part for app, part in matrix.groupby(matrix.index.map(app_of))}
    return matrices


def _members(application: str, apps: Sequence[str]) -> Sequence[str]:
    return apps if application == OVERALL else (application,)


def _scores(family: str, matrix: pd.DataFrame) -> np.ndarray:
    return statistics.task_average(matrix) if family == "Average" else statistics.task_pass(matrix, matrix.shape[1])


def _evidence(estimate: statistics.Estimate, matrices: Sequence[pd.DataFrame], provenance: Provenance) -> dict:
    """The columns that say how sure a figure is and what it rests on."""
    tasks, runs = sum(len(matrix) for matrix in matrices), matrices[0].shape[1]
    interval = {"low": 100 * estimate.low, "high": 100 * estimate.high}
    return interval | {"tasks": tasks, "runs": runs, "interval": estimate.method, "provenance": str(provenance)}


# ------------------------------------------------------------------------------------------------ captions and layout


def caption(table: pd.DataFrame, run: str, what: str = SUCCESS) -> str:
    """What the figures of a tidy table are: subject, run, provenance, tasks, runs, interval."""
    tasks = table.groupby("application")["tasks"].first()
    apps = [app for app in LABELS if app in tasks and app != OVERALL]
    methods = " or ".join(sorted(table["interval"].unique(), key=str.lower))
    sentences = [
        f"{what}; run {run}, {' and '.join(table['provenance'].unique())}.",
        f"{tasks[apps].sum()} tasks ({', '.join(f'{LABELS[app]} {tasks[app]}' for app in apps)}),"
        f" {' or '.join(map(str, table['runs'].unique()))} runs per task.",
        f"Intervals are 95 % ({methods}, over tasks).",
    ]
    if OVERALL in tasks:
        sentences.append("Overall is the unweighted mean of the applications.")
    if "stage1" in table.to_numpy():
        sentences.append(SPECIALISTS_NOTE)
    if Provenance.SMOKE in table["provenance"].unique():
        sentences.append(SMOKE_NOTE)
    return " ".join(sentences)


def grid(table: pd.DataFrame) -> pd.DataFrame:
    """Table 1 as the paper prints it: a row per metric and system, a column per application, `12.9 [5.1, 22.4]`."""
    table = table.assign(cell=_cells(table, "value"), system=table["system"].replace(SYSTEM_LABELS))
    return _wide(table, {"metric": "Metric", "system": "System"})


def comparisons_grid(table: pd.DataFrame) -> pd.DataFrame:
    """Differences in the layout of Table 1: a row per metric and pair, `+4.8 [+1.6, +8.5], p = 0.004`."""
    p = table["p"].map(lambda p: "p < 0.001" if p < 0.001 else f"p = {p:.3f}")
    table = table.assign(cell=_cells(table, "difference", "+") + ", " + p)
    table = table.replace({"first": SYSTEM_LABELS, "second": SYSTEM_LABELS})
    return _wide(table, {"metric": "Metric", "first": "From", "second": "To"})


def beside_grid(table: pd.DataFrame) -> pd.DataFrame:
    """`beside_paper` laid out: for each metric and system a row of ours and, under it, the paper's."""
    table = table.assign(system=table["system"].replace(SYSTEM_LABELS))
    ours = table.assign(cell=_cells(table, "value"), source=f"ours, {table['provenance'].iloc[0]}")
    printed = table["paper_value"].map("{:.2f}".format, na_action="ignore").fillna("–")
    paper = table.assign(cell=printed, source=Provenance.PAPER.value, metric=table["paper_metric"])
    both = pd.concat([ours, paper]).sort_index(kind="stable")
    return _wide(both, {"metric": "Metric", "system": "System", "source": "Source"})


def to_markdown(layout: pd.DataFrame, text: str) -> str:
    """A laid-out table under its caption, as GitHub Markdown."""
    cells = layout.map(lambda cell: str(cell).replace("*", "\\*"))
    return text.replace("*", "\\*") + "\n\n" + cells.to_markdown(index=False, disable_numparse=True) + "\n"


def to_latex(layout: pd.DataFrame, text: str, label: str) -> str:
    """A laid-out table as a LaTeX table environment, for documents that load booktabs."""
    special = {character: f"\\{character}" for character in "&%_#${}"}
    special |= {"→": r"$\rightarrow$", "−": "$-$", "<": "$<$", "≥": r"$\geq$"}
    clean = str.maketrans(special)
    layout = layout.map(lambda cell: str(cell).translate(clean))
    return layout.to_latex(index=False, escape=False, caption=text.translate(clean), label=label, position="t")


def _wide(table: pd.DataFrame, keys: dict[str, str]) -> pd.DataFrame:
    """One row per combination of keys, in order of appearance; one column per application, in the paper's order."""
    wide = table.pivot(index=list(keys), columns="application", values="cell")
    wide = wide.loc[list(table[list(keys)].drop_duplicates().itertuples(index=False, name=None))]
    wide = wide[[app for app in LABELS if app in wide.columns]].reset_index()
    return wide.rename(columns=keys | LABELS).rename_axis(columns=None)


def _cells(table: pd.DataFrame, column: str, sign: str = "") -> pd.Series:
    """`value [low, high]` to one decimal, with a true minus sign and no minus zero."""
    form = f"{{:{sign}z.1f}} [{{:{sign}z.1f}}, {{:{sign}z.1f}}]"
    cells = [form.format(*row) for row in table[[column, "low", "high"]].itertuples(index=False)]
    return pd.Series(cells, index=table.index, dtype=str).str.replace("-", "−")


# -------------------------------------------------------------------------------------------------------------- files


def write_tables(folder: Path, table: pd.DataFrame, compared: pd.DataFrame, run: str) -> list[Path]:
    """Write table1, beside_paper and (unless empty) comparisons as csv, md and tex; return the files written."""
    beside = beside_paper(table)
    layouts = {
        "table1": (table, grid(table), caption(table, run)),
        "beside_paper": (beside, beside_grid(beside), f"{caption(table, run)} {BESIDE_NOTE}"),
    }
    if not compared.empty:
        layouts["comparisons"] = (compared, comparisons_grid(compared), caption(compared, run, COMPARED))
    contents = {}
    for name, (tidy, layout, text) in layouts.items():
        contents[folder / f"{name}.csv"] = tidy.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        contents[folder / f"{name}.md"] = to_markdown(layout, text)
        contents[folder / f"{name}.tex"] = to_latex(layout, text, f"tab:{name}")
    for path, content in contents.items():
        write_text(path, content)
    return list(contents)


def html_report(run_dir: Path) -> Path:
    """Write run_dir/report.html: tables, figures, manifest and wall times of a run in one file that needs no other.

    Reads tables/*.csv as `write_tables` left them (others are shown as they are), figures/*.svg with the captions that
    `plotting.save` put into them, manifest.json and timings.json (seconds by stage); where one of the last two is not
    there yet, the report says so.  Raises UserError where there is no Table 1.
    """
    if not (run_dir / "tables" / "table1.csv").exists():
        raise UserError(f"{run_dir} has no tables/table1.csv: let the run finish its evaluation and its results first")
    frames = {path.stem: pd.read_csv(path) for path in sorted((run_dir / "tables").glob("*.csv"))}
    own, beside, run = frames.pop("table1"), frames.pop("beside_paper"), run_dir.name
    provenance = " and ".join(own["provenance"].unique())
    sections = [
        ("Table 1", grid(own), caption(own, run)),
        ("Beside the paper", beside_grid(beside), f"{caption(own, run)} {BESIDE_NOTE}"),
    ]
    if "comparisons" in frames:
        compared = frames.pop("comparisons")
        sections.append(("Comparisons", comparisons_grid(compared), caption(compared, run, COMPARED)))
    sections += [(name, frame, f"tables/{name}.csv of run {run}, {provenance}.") for name, frame in frames.items()]
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.get_template("report.html.j2").render(
        run=run,
        provenance=provenance,
        tables=[
            {"title": title, "caption": text, "columns": list(layout), "rows": layout.map(_shown).to_numpy().tolist()}
            for title, layout, text in sections
        ],
        figures=[_figure(path) for path in sorted((run_dir / "figures").glob("*.svg"))],
        manifest=_read_if_written(run_dir / "manifest.json"),
        timings=_read_if_written(run_dir / "timings.json"),
    )
    write_text(run_dir / "report.html", page)
    return run_dir / "report.html"


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _figure(path: Path) -> dict[str, str]:
    """An SVG file in base64, with the caption in its metadata."""
    svg = path.read_bytes()
    description = ElementTree.fromstring(svg).find(".//{http://purl.org/dc/elements/1.1/}description")
    if description is None:
        raise ValueError(f"{path} carries no caption: write figures with plotting.save(figure, path, caption)")
    return {"name": path.stem, "caption": description.text, "data": base64.b64encode(svg).decode("ascii")}


def _read_if_written(path: Path) -> dict | None:
    return read_json(path) if path.exists() else None
