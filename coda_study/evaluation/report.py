"""The tables of a run in the layout of the paper's, with their captions, as Markdown, LaTeX and CSV.

`tables` computes tidy data frames in percent; the functions `*_grid` lay them out as the paper does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from coda_lib.applications import DESKTOP_APPS
from coda_lib.errors import UserError
from coda_lib.files import write_text
from coda_study.evaluation.paper import LABELS, OVERALL, Provenance
from coda_study.evaluation.statistics import format_interval, settles
from coda_study.evaluation.tables import BESIDE, beside_paper
from coda_study.markup import as_markdown

SYSTEM_LABELS = {
    "base": "Base planner → executor", "executor": "Executor alone", "stage1": "Stage-1 specialists*",
    "stage2": "Stage-2 generalist",
    "replay": "Blind replay, run chosen by outcome", "nearest": "Blind replay of the nearest train task",
    "random": "Random clicks",
}  # fmt: skip
AGENT = ("planner", "executor")  # models that a success rate is of
SUCCESS = "Success in percent"
COMPARED = "Differences in percentage points between systems on the same tasks"
SPECIALISTS_NOTE = "* {} specialist{}, each evaluated on its own application."
_NUMBERS = ("No", "One", "Two", "Three", "Four")
SMOKE_NOTE = "Smoke: so few tasks and runs that the figures only show that the pipeline works."
_BESIDE_NOTE = (
    "Ours is another benchmark ({}; in the {} profile with tiny models of a few million parameters); the "
    "paper's is ScienceBoard with models of 7 and 32 billion parameters. The two are to be compared in shape "
    "only: which system comes before which, never how high a figure is."
)


def made_with(profile: Mapping[str, Any], code: Mapping[str, Any]) -> str:
    """What a score is repeated with: models, where they ran, the kit's revision, the command.

    `profile` and `code` are those of a run's manifest.
    """
    models, serving = profile["models"], profile["serving"]
    ran = ", ".join(f"{role} {models[role]}{', served' * (serving[role] != 'local')}" for role in AGENT)
    revision = f"revision {code['commit'][:12]}" if code["commit"] else "an unknown revision"
    revision += " and changes" if code["changed"] else ""
    command = f"coda reproduce --profile {profile['name']} --set seed={profile['seed']}"
    return f"Models: {ran}. Made by {revision}: {command}; all settings: profile.yaml of the run."


def caption(table: pd.DataFrame, run: str, what: str = SUCCESS, made: str = "") -> str:
    """The caption of a tidy table: subject, run, provenance, tasks, runs, interval, `made_with`."""
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
    return " ".join([*sentences, *filter(None, [made])])


def beside_note(table: pd.DataFrame) -> str:
    """What to keep in mind where a tidy table stands beside the paper's."""
    if set(table["application"]) & set(DESKTOP_APPS):
        note = _BESIDE_NOTE.format("tasks of our own in real applications", "desktop")
        return f"{note} The paper's Overall is over the four applications of ScienceBoard."
    return _BESIDE_NOTE.format("ScienceDesk, small embedded applications", "laptop")


def _runs(table: pd.DataFrame) -> str:
    """`8 runs per task`, or with several seeds `8 runs per task and seed, 3 seeds`."""
    k = table["metric"].str.split("@").str[1].astype(int)
    seeds = (table["runs"] // k).unique()
    runs = f"{' or '.join(map(str, k.unique()))} runs per task"
    return runs if set(seeds) == {1} else f"{runs} and seed, {' or '.join(map(str, seeds))} seeds"


def grid(table: pd.DataFrame, cells: pd.Series | None = None) -> pd.DataFrame:
    """A row per metric and system, a column per application: `12.9 [5.1, 22.4]`, or other `cells`."""
    cells = _cells(table, "value") if cells is None else cells
    table = table.assign(cell=cells, system=table["system"].replace(SYSTEM_LABELS))
    return _wide(table, {"metric": "Metric", "system": "System"})


def comparisons_grid(table: pd.DataFrame, cells: pd.Series | None = None) -> pd.DataFrame:
    """A row per metric and pair of systems: `+4.8 [+1.6, +8.5]`, or other `cells`."""
    table = table.assign(cell=_cells(table, "difference", "+") if cells is None else cells)
    table = table.replace({"first": SYSTEM_LABELS, "second": SYSTEM_LABELS})
    return _wide(table, {"metric": "Metric", "first": "From", "second": "To"})


def beside_grid(table: pd.DataFrame, cells: pd.Series | None = None) -> pd.DataFrame:
    """For each metric and system our row, or other `cells`, and below it the paper's."""
    cells = _cells(table, "value") if cells is None else cells
    table = table.assign(system=table["system"].replace(SYSTEM_LABELS))
    ours = table.assign(cell=cells, source=f"ours, {table['provenance'].iloc[0]}")
    printed = table["paper_value"].map("{:.2f}".format, na_action="ignore").fillna("–")
    paper = table.assign(cell=printed, source=Provenance.PAPER.value, metric=table["paper_metric"])
    both = pd.concat([ours, paper]).sort_index(kind="stable")
    return _wide(both, {"metric": "Metric", "system": "System", "source": "Source"})


def overall_grids(tables: dict[str, pd.DataFrame], mark: str = "") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Overall of a study (`over_seeds`) beside the paper's: of each system, and the differences of systems.

    `mark` stands before and after a difference that `settles`.
    """
    tables = {name: table for name, table in tables.items() if "application" in table}
    tables["table1"] = beside_paper(tables["table1"])
    rows = {name: table[table["application"] == OVERALL] for name, table in tables.items()}
    ours = rows["table1"]
    average = ours[ours["metric"].str.startswith("Average")]
    metric, printed = average[["metric", "paper_metric"]].iloc[0]
    systems = {"percent": [plain_name(system) for system in average["system"]],
               f"{metric}, ours": [*_cells(average, "value")]}  # fmt: skip
    for name, title in BESIDE.items():
        if name in rows:
            same = rows[name].set_index("system").loc[average["system"]].reset_index()
            systems[title] = [*_cells(same, "value")]
    systems[f"{printed}, the paper (ScienceBoard)"] = [*average["paper_value"].map("{:.2f}".format)]
    gaps, paper = rows["comparisons"], ours.set_index(["metric", "system"])
    pairs = gaps[["first", "second"]].drop_duplicates()
    names = [f"{_short(second)} − {_short(first).lower()}" for first, second in pairs.itertuples(index=False)]
    differences: dict[str, list[str]] = {"difference, points": names}
    for metric, part in gaps.groupby("metric", sort=False):
        differences[f"{metric}, ours"] = marked_gaps(pairs.merge(part), mark)
        theirs, printed = paper.loc[metric, "paper_value"], paper.loc[metric, "paper_metric"].iloc[0]
        differences[f"{printed}, the paper"] = [
            f"{theirs[second] - theirs[first]:+.2f}".replace("-", "−")
            for first, second in pairs.itertuples(index=False)
        ]
    for name, title in BESIDE.items():
        if f"{name}_differences" in rows:
            differences[f"{title}, ours"] = marked_gaps(pairs.merge(rows[f"{name}_differences"]), mark)
    return pd.DataFrame(systems), pd.DataFrame(differences)


def value_cells(table: pd.DataFrame) -> pd.Series:
    """Values as `12.9 [5.1, 22.4]`."""
    return _cells(table, "value")


def marked_gaps(table: pd.DataFrame, mark: str) -> list[str]:
    """Differences as `+4.8 [+1.6, +8.5]`, between marks where they settle."""
    settled = [settles(low, high) for low, high in table[["low", "high"]].itertuples(index=False)]
    cells = zip(_cells(table, "difference", "+"), settled, strict=True)
    return [f"{mark}{cell}{mark}" if sure else cell for cell, sure in cells]


def plain_name(system: str) -> str:
    """The label of a system without the mark of a note."""
    return SYSTEM_LABELS[system].strip("*")


def _short(system: str) -> str:
    return plain_name(system).partition(" →")[0]


def overall_grid(table: pd.DataFrame, rows: Sequence[str], column: str) -> pd.DataFrame:
    """Overall of a tidy table, a row for each combination of `rows`, a column for each value of `column`."""
    part = table[table["application"] == OVERALL]
    part = part.assign(cell=_cells(part, "value")).replace({"system": SYSTEM_LABELS})
    wide = part.pivot(index=list(rows), columns=column, values="cell")
    order = part[list(rows)].drop_duplicates().itertuples(index=False, name=None)
    wide = wide.loc[list(order), part[column].unique()].fillna("").reset_index()
    return wide.rename(columns={name: name.capitalize() for name in rows}).rename_axis(columns=None)


passes_grid = partial(overall_grid, rows=("system", "temperature"), column="metric")
factors_grid = partial(overall_grid, rows=("factor", "slice", "tasks", "episodes"), column="system")


def kinds_grid(table: pd.DataFrame) -> pd.DataFrame:
    """Overall Average@k of `slices.kinds`: a row for each slice, with its tasks, a column for each system."""
    return overall_grid(table[table["metric"].str.startswith("Average")], ("slice", "tasks"), "system")


def temperatures_grid(table: pd.DataFrame) -> pd.DataFrame:
    """`slices.temperatures` laid out: a row for each temperature, a column for each application."""
    cells = _cells(table, "value").where(~table["chosen"], _cells(table, "value") + " chosen")
    return _wide(table.assign(cell=cells), {"temperature": "Temperature"})


def endings_grid(table: pd.DataFrame, cells: pd.Series | None = None) -> pd.DataFrame:
    """`endings` laid out: a row per system, a column per ending."""
    cells = _cells(table, "value") if cells is None else cells
    wide = table.assign(cell=cells).pivot(index="system", columns="ending", values="cell")
    wide = wide.loc[table["system"].unique(), table["ending"].unique()].rename(index=SYSTEM_LABELS)
    return wide.reset_index().rename(columns={"system": "System"}).rename_axis(columns=None)


def rules_grid(table: pd.DataFrame) -> pd.DataFrame:
    """`compare_rules` or `table2` laid out: a row per rule, shares as `60.0 [49.4, 70.4]`."""
    shares = {name: _cells(table, name, prefix=f"{name}_") for name in ("precision", "recall")}
    paper = [name for name in table if name.startswith("paper_")]
    columns = ["accepted", *shares, "calls", "small", "labels", "wrong_labels", *paper]
    return table.assign(**shares).set_index("rule").rename_axis(None)[columns].round(1)


def claims_grid(table: pd.DataFrame) -> pd.DataFrame:
    """`decide_claims` laid out: percentage points, `+4.8 [+1.6, +8.5]`; empty where nothing was tested."""
    paper = table["reported"].map("{:+.1f}".format, na_action="ignore")
    shown = table.assign(ours=_cells(table, "difference", "+"), paper=paper)
    names = ("Claim", "Metric", "Paper", "This run", "Verdict")
    columns = dict(zip(("claim", "metric", "paper", "ours", "verdict"), names, strict=True))
    return shown[list(columns)].fillna("").rename(columns=columns)


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
    layout, text = layout.map(lambda cell: str(cell).translate(clean)), text.translate(clean)
    return layout.to_latex(index=False, escape=False, caption=text, label=label, position="t")


def _wide(table: pd.DataFrame, keys: dict[str, str]) -> pd.DataFrame:
    """A row per combination of keys, in order of appearance; a column per application, in the paper's order.

    UserError names applications without a column.
    """
    wide = table.pivot(index=list(keys), columns="application", values="cell")
    if unknown := sorted(set(wide) - set(LABELS)):
        raise UserError(f"the layout of Table 1 has no column for {', '.join(unknown)}")
    order = table[list(keys)].drop_duplicates()
    wide = wide.loc[pd.MultiIndex.from_frame(order) if len(keys) > 1 else order.iloc[:, 0]]
    wide = wide[[app for app in LABELS if app in wide.columns]].reset_index()
    return wide.rename(columns=keys | LABELS).rename_axis(columns=None)


def _cells(table: pd.DataFrame, column: str, sign: str = "", prefix: str = "") -> pd.Series:
    """`value [low, high]` with one decimal, the minus sign of typography and no minus zero; empty for NaN."""
    columns = [column, f"{prefix}low", f"{prefix}high"]
    cells = [format_interval(*row, f"{sign}z.1f") for row in table[columns].itertuples(index=False)]
    return pd.Series(cells, table.index, dtype=str).str.replace("-", "−").mask(table[column].isna(), "")


CAPTIONED = {  # a table of `write_tables`: its layout, and its caption from table, run and `made_with`
    "table1": (grid, lambda table, run, made: caption(table, run, made=made)),
    "beside_paper": (
        beside_grid,
        lambda table, run, made: f"{caption(table, run, made=made)} {beside_note(table)}",
    ),
    "comparisons": (comparisons_grid, lambda table, run, made: caption(table, run, COMPARED, made)),
}


def write_tables(
    folder: Path, table: pd.DataFrame, compared: pd.DataFrame, run: str, made: str = ""
) -> list[Path]:
    """Write table1, beside_paper and (unless empty) comparisons as csv, md and tex; return the files."""
    tables = {"table1": table, "beside_paper": beside_paper(table)}
    if not compared.empty:
        tables["comparisons"] = compared
    contents = {}
    for name, tidy in tables.items():
        lay_out, describe = CAPTIONED[name]
        layout, text = lay_out(tidy), describe(tidy, run, made)
        contents[folder / f"{name}.csv"] = tidy.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        contents[folder / f"{name}.md"] = to_markdown(layout, text)
        contents[folder / f"{name}.tex"] = to_latex(layout, text, f"tab:{name}")
    for path, content in contents.items():
        write_text(path, content)
    return list(contents)
