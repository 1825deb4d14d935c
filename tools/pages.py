"""What README and docs/ show of the committed reference runs, between marks such as `<!-- results -->`.

Table 1 over all committed seeds of a study, differences, Table 2, labels, rewards and grades, the ablations,
what the commands print about them, and the study on real applications.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from coda_lib.applications import software
from coda_lib.config import EXPLORERS
from coda_lib.errors import UserError
from coda_lib.files import read_json, write_text
from coda_lib.judge import Rule
from coda_lib.paths import REFERENCE, REPO
from coda_study.evaluation.ablations import committed_tables
from coda_study.evaluation.paper import LABELS, OVERALL
from coda_study.evaluation.report import (
    comparisons_grid,
    factors_grid,
    grid,
    kinds_grid,
    marked_gaps,
    overall_grids,
    passes_grid,
    plain_name,
    value_cells,
)
from coda_study.evaluation.tables import siblings
from coda_study.evaluation.votes import load_table2_votes, table2
from coda_study.run import Run
from tools import figures
from tools.artifact import artifact_section, runs_section

# shown in docs/commands.md with what they print; SEEDS stands for all committed runs of the study
COMMANDS = (
    ("coda audit", "What the paper's own tables bear out"),
    ("coda claims SEEDS", "What runs say about each of the paper's claims, their seeds together"),
    ("coda power 4", "How many tasks, runs and seeds would settle 4 percentage points"),
    ("coda judge votes results/reference/laptop",
     "What every voting rule makes of a run's votes, and what its labels are worth"),
)  # fmt: skip
REAL = "desktop"  # the study on real applications, beside the one that the other parts show
WIDTH = 140  # columns of the commands' tables


def _table(rows: Iterable[Iterable[object]]) -> str:
    """Rows of cells in Markdown."""
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in rows)


def overall_section(folder: Path) -> str:
    """The README's part: Overall of each system over all seeds, beside the paper's, and the differences."""
    return "\n\n".join([_about(folder), *map(_markdown, overall_grids(_tables(folder), "**"))])


def _tables(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables of a study over its seeds, by name."""
    return {path.stem: pd.read_csv(path) for path in sorted((folder / "seeds").glob("*.csv"))}


def _markdown(grid: pd.DataFrame) -> str:
    return _table([grid.columns, ["---"] * grid.shape[1], *grid.itertuples(index=False)])


def _overall(path: Path) -> pd.DataFrame:
    """The rows of a table that are over all applications."""
    table = pd.read_csv(path)
    return table[table["application"] == OVERALL]


def _averages(path: Path) -> pd.DataFrame:
    """Of these, Average@k."""
    rows = _overall(path)
    return rows[rows["metric"].str.startswith("Average")]


def _about(folder: Path) -> str:
    """What a study's Overall rests on."""
    runs, more = siblings(Run(str(folder)), [REFERENCE]), _tables(folder)
    profile, seeds = runs[0].profile(), ", ".join(str(run.profile().seed) for run in runs)
    rows = _averages(folder / "seeds" / "beside_paper.csv")
    plural = "s" * (len(runs) > 1)
    text = (
        f"Overall of Table 1 on {software(profile.apps)}, with 95 % intervals: {len(runs)} committed "
        f"run{plural} (seed{plural} {seeds}), {int(rows['tasks'].iloc[0])} test tasks, "
        f"{profile.evaluation_runs} runs of each. *Average@k*: mean success over k runs of each task, "
        "sampled at temperature 1. *Pass@k*: share of tasks that one of k runs solves, at least."
    )
    if "sealed" in more:
        played = ", ".join(str(run.profile().seed) for run in runs if run.profile().sealed)
        which = "" if played == seeds else f" ({played})"
        count = int(_averages(folder / "seeds" / "sealed.csv")["tasks"].iloc[0])
        repeats = pd.read_csv(folder / "seeds" / "sealed_repeats.csv")
        text += (
            f" *Sealed*: {count:,} more tasks, drawn by a seed that was fixed before any training, and "
            f"played once by each run{which}; {len(repeats)} of them ask what one of the test tasks asks."
        )
    if "greedy" in more:
        text += " *At temperature 0*: each test task once in each run."
    return text


def seeds_section(folder: Path) -> str:
    """Overall Average@k of each system with each seed."""
    runs = siblings(Run(str(folder)), [REFERENCE])
    by_seed = pd.read_csv(folder / "seeds" / "by_seed.csv", index_col="system")
    lines = [
        ["Overall Average@k, percent", *(f"seed {run.profile().seed}" for run in runs)],
        ["---"] * (1 + len(runs)),
    ]
    for system, row in by_seed.iterrows():
        lines.append([plain_name(system), *(f"{row[str(run.profile().seed)]:.1f}" for run in runs)])
    return _table(lines)


def results_section(folder: Path) -> str:
    """The tables of a reference run over all seeds as they are, word for word."""
    tables = [
        (folder / "seeds" / f"{name}.md").read_text().strip() for name in ("beside_paper", "comparisons")
    ]
    return "\n\n".join([tables[0], picture(folder), tables[1]])


def picture(folder: Path) -> str:
    """The figure of a reference run's Table 1."""
    path = (folder / "figures" / "table1.png").relative_to(REPO)
    return f"![Table 1 as a picture, ours beside the paper's](../{path})"


def greedy_section(folder: Path) -> str:
    """Success of all systems at temperature 0 over all seeds; and on sealed tasks, where they were played."""
    parts = []
    for path, about, layout in (
        ("greedy", "Temperature 0, each test task once a seed, all committed seeds", grid),
        ("greedy_differences", "Temperature 0, differences in percentage points", comparisons_grid),
        ("sealed", "Sealed tasks, each once a seed, the committed seeds that played them", grid),
        ("sealed_differences", "Sealed tasks, differences in percentage points", comparisons_grid),
    ):
        if (table := folder / f"seeds/{path}.csv").is_file():
            parts.append(f"{about}.\n\n{layout(pd.read_csv(table)).to_markdown(index=False)}")
    return "\n\n".join(parts) or "The run was made before systems were played at temperature 0 as well."


def slices_section(folder: Path) -> str:
    """What blindness earns, the runs of a task by temperature, success by kind and grade: over all seeds, or
    of the run alone where the other seeds have no such table.
    """
    parts = []
    for name, about, layout in (
        (
            "blind",
            "What blindness earns: mean over tasks of the share of their episodes that are solved",
            grid,
        ),
        ("passes", "Overall at each temperature", passes_grid),
        ("kinds", "Overall Average@k by kind and grade of the task", kinds_grid),
        ("factors", "Overall by factor of the perturbation", factors_grid),
    ):
        for place, whose in (("seeds", "all committed seeds"), ("tables", f"run {folder.name} alone")):
            if (table := folder / place / f"{name}.csv").is_file():
                parts.append(f"{about}; {whose}.\n\n{layout(pd.read_csv(table)).to_markdown(index=False)}")
                break
    return "\n\n".join(parts)


def judge_section(folder: Path) -> str:
    """Table 2 of a reference run beside the paper's figures on ScienceBoard."""
    run = Run(str(folder))
    table = table2(load_table2_votes(run), run.profile())
    lines = [
        f"| {row.rule} | {row.precision:.1f} [{row.precision_low:.1f}, {row.precision_high:.1f}] "
        f"| {row.paper_precision:.1f} | {row.recall:.1f} [{row.recall_low:.1f}, {row.recall_high:.1f}] "
        f"| {row.paper_recall:.1f} |"
        for row in table.itertuples()
    ]
    head = "| rule | precision, ours | precision, the paper | recall, ours | recall, the paper |"
    mix = load_table2_votes(run).drop_duplicates(["task_id", "run", "planner"])
    about = f"{len(mix)} trajectories, {int(mix['success'].sum())} of them solved."
    if (rule := Rule.of(run.profile().judge)).needed < rule.votes:
        about += f" In the paper's rules all votes must agree; here {rule.needed} of {rule.votes} is enough."
    return "\n".join([about, "", head, "| --- | --- | --- | --- | --- |", *lines])


def labels_section(folder: Path) -> str:
    """What the judge made of each planner's attempts at train tasks: from the scores that stage `judge` has
    written, and its votes.
    """
    profile, parts = Run(str(folder)).profile(), []
    failed = figures.labels(folder).set_index(["planner", "application"])["failed"]
    names = {name: f"{name.replace('round', 'round-')} planners" for name in EXPLORERS}
    for planner, who in (names | {"base": "base planner", "specialist": "specialists"}).items():
        scores = [
            read_json(path)
            for app in profile.apps
            if (path := folder / "judged" / planner / f"{app}.json").is_file()
        ]
        if scores:
            accepted = [one["true_positive"] + one["false_positive"] for one in scores]
            rows = {
                f"{who} at train tasks": [LABELS[one["app"]] for one in scores],
                "---": ["---"] * len(scores),
                "attempts solved, by the application's check": [
                    f"{one['successes']} of {one['trajectories']}" for one in scores
                ],
                "accepted by the judge": accepted,
                "accepted and solved": [one["true_positive"] for one in scores],
                "labelled steps": [one["positive_actions"] for one in scores],
                "of these of failed attempts, %": [f"{failed[planner, one['app']]:.0f}" for one in scores],
            }
            parts.append(_table((name, *cells) for name, cells in rows.items()))
    return "\n\n".join(parts)


def rewards_section(folder: Path) -> str:
    """Mean training reward of stage 1, first and last ten optimizer steps, from the trainings' logs."""
    profile = Run(str(folder)).profile()
    rewards = [
        pd.read_json(folder / "specialist" / app / "metrics.jsonl", lines=True)["reward"]
        for app in profile.apps
    ]
    lines = [["", *(LABELS[app] for app in profile.apps)], ["---"] * (1 + len(rewards))]
    lines.append(["first ten steps", *(f"{one.head(10).mean():.2f}" for one in rewards)])
    lines.append(["last ten steps", *(f"{one.tail(10).mean():.2f}" for one in rewards)])
    return _table(lines)


def grades_section(folder: Path) -> str:
    """Solved test episodes by the grade of their task, of all seeds."""
    table = figures.grades(folder)
    of = table.groupby("grade")["of"].first()
    solved = table.pivot(index="system", columns="grade", values="solved").loc[table["system"].unique()]
    head = ["system", *(f"{grade} (of {of[grade]})" for grade in solved.columns)]
    rows = ([plain_name(system), *counts] for system, *counts in solved.itertuples())
    return _table([head, ["---"] * len(head), *rows])


def ablations_section(folder: Path) -> str:
    """The tables of the committed ablations."""
    over = "with 95 % intervals over tasks; of differences with several seeds over these too"
    parts = [f"{about}, in percent (points) {over}.\n\n{table.to_markdown(index=False)}"
             for about, table in committed_tables().items()]  # fmt: skip
    return "\n\n".join(parts)


def curve_section(folder: Path) -> str:
    """Success by the number of distinct train tasks, and what labels there were: tables of the committed run
    `ablations`.
    """
    tables = REFERENCE / "ablations" / "tables"
    solved, supply = (
        pd.read_csv(tables / f"{name}.csv").drop(columns="provenance") for name in ("curve", "curve_labels")
    )
    lines = [
        [
            "train tasks",
            "labels by",
            "labelled attempts",
            "labelled tasks",
            "of these solved, %",
            "Average@k",
        ],
        ["---"] * 6,
    ]
    for row in solved.merge(supply, how="left", on=["tasks", "labels"]).itertuples(index=False):
        tasks, labels, value, low, high, *counts = row
        told = (
            ["", "", ""]
            if pd.isna(counts[0])
            else [f"{counts[0]:.0f}", f"{counts[1]:.0f}", f"{counts[2]:.0f}"]
        )
        lines.append(
            [
                tasks or "none: the base planner",
                labels if tasks else "",
                *told,
                f"{value:.1f} [{low:.1f}, {high:.1f}]",
            ]
        )
    return _table(lines)


def real_section(folder: Path) -> str:
    """The study on real applications: Table 1 of each application, differences, grades, labels and judge."""
    study = folder.with_name(REAL)
    if not (study / "seeds").is_dir():
        return "No run of the study on real applications is committed."
    tables = [(study / "seeds" / f"{name}.md").read_text().strip() for name in ("table1", "comparisons")]
    seed = Run(str(study)).profile().seed
    parts = [
        *tables,
        f"Solved test episodes by the grade of their task:\n\n{grades_section(study)}",
        f"What the judge made of the attempts at train tasks, seed {seed}:\n\n{labels_section(study)}",
        f"The judge, same seed: {judge_section(study)}",
    ]
    return "\n\n".join(parts)


def real_overall_section(folder: Path) -> str:
    """Overall of the study on real applications, beside the paper's, with a picture of its Table 1."""
    study = folder.with_name(REAL)
    if not (study / "seeds").is_dir():
        return "No run of the study on real applications is committed."
    return f"{overall_section(study)}\n\n{picture(study)}"


def real_table(folder: Path) -> str:
    """The README's table of the study on real applications."""
    study = folder.with_name(REAL)
    if not (study / "seeds").is_dir():
        return "No run of the study on real applications is committed."
    runs, profile = siblings(Run(str(study)), [REFERENCE]), Run(str(study)).profile()
    seeds = f"seed{'s' * (len(runs) > 1)} {', '.join(str(run.profile().seed) for run in runs)}"
    solved, greedy, gains, greedy_gains = (
        _averages(study / "seeds" / f"{name}.csv")
        for name in ("table1", "greedy", "comparisons", "greedy_differences")
    )
    columns = {solved["metric"].iloc[0]: [plain_name(system) for system in solved["system"]]}
    for values, differences, where in ((solved, gains, ""), (greedy, greedy_gains, " at temperature 0")):
        differences = differences[differences["first"] == "base"]
        above = dict(zip(differences["second"], marked_gaps(differences, "**"), strict=True))
        same = values.set_index("system").loc[solved["system"]].reset_index()
        columns[f"percent{where}"] = [*value_cells(same)]
        columns[f"points above the base planner{where}"] = [above.get(name, "") for name in solved["system"]]
    about = (
        f"**On real software** ({', '.join(profile.apps)}; `coda reproduce --profile {REAL}`; {seeds}; "
        f"{int(solved['tasks'].iloc[0])} test tasks, {profile.evaluation_runs} runs of each, "
        "95 % intervals over tasks, of differences over seeds too; "
        "[docs/real-software.md](docs/real-software.md)):"
    )
    return f"{about}\n\n{_markdown(pd.DataFrame(columns))}"


def commands_section(folder: Path) -> str:
    """Each command with all that it prints.  CalledProcessError if one fails."""
    runs = " ".join(str(run.folder.relative_to(REPO)) for run in siblings(Run(str(folder)), [REFERENCE]))
    parts = []
    with TemporaryDirectory() as scratch:  # where they may write
        (Path(scratch) / "results").symlink_to(REPO / "results")
        for command, about in COMMANDS:
            typed = command.replace("SEEDS", runs)
            line = [sys.executable, "-m", "coda_study.cli.main", *shlex.split(typed)[1:]]
            env = os.environ | {"COLUMNS": str(WIDTH), "PYTHONPATH": str(REPO)}
            output = subprocess.run(
                line, capture_output=True, text=True, check=True, cwd=scratch, env=env
            ).stdout
            output = "\n".join(text.rstrip() for text in output.strip("\n").splitlines())
            parts.append(f"### {about}\n\n`{typed}`\n\n```text\n{output}\n```")
    return "\n\n".join(parts)


PARTS: dict[str, dict[str, Callable[[Path], str]]] = {  # page -> the parts of it that are renewed
    "README.md": {"overall": overall_section, "desktop": real_table},
    "docs/results.md": {
        "overall": overall_section,
        "seeds": seeds_section,
        "judge": judge_section,
        "labels": labels_section,
        "rewards": rewards_section,
        "grades": grades_section,
        "curve": curve_section,
    },
    "docs/tables.md": {
        "results": results_section,
        "greedy": greedy_section,
        "slices": slices_section,
        "ablations": ablations_section,
        "desktop": real_section,
    },
    "docs/real-software.md": {"desktop": real_overall_section},
    "docs/commands.md": {"commands": commands_section},
    "docs/expected-values.md": {"artifact": artifact_section, "runs": runs_section},
}


def marked(name: str, text: str) -> str:
    """A renewed part between its marks."""
    return f"<!-- {name} -->\n\n{text}\n\n<!-- /{name} -->"


def show(folder: Path, root: Path = REPO) -> None:
    """Renew the marked parts of the pages under `root`, and the marked figures of README and docs.

    UserError if a page lacks the mark of a part, and of a figure that no table has.
    """
    for page, parts in PARTS.items():
        text = (root / page).read_text()
        for name, part in parts.items():
            before, opening, rest = text.partition(f"<!-- {name} -->")
            _, closing, after = rest.partition(f"<!-- /{name} -->")
            if not closing:
                raise UserError(f"{page} has no part between <!-- {name} --> and <!-- /{name} -->")
            text = before + marked(name, part(folder)) + after
        write_text(root / page, text)
    for path in sorted({*(root / page for page in PARTS), *(root / "docs").glob("*.md")}):
        write_text(path, figures.renewed(path.read_text()))
