"""The committed reference runs: `python -m tools.reference RUN` copies a finished run and renews what README and docs/ show.

`python -m tools.reference` alone makes the tables of all committed runs again from their episodes and votes, after a change in
how figures or intervals are computed, and renews the same pages.

The parts between marks such as `<!-- results -->`: Table 1 over all committed seeds of `SHOWN`'s study,
Table 2, labels, rewards and grades, the ablations, and what the commands print about them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import torch
from safetensors.torch import load_file, save_file

from coda_lib.applications import APPS
from coda_lib.envs.sciencedesk.replay import without_screens
from coda_lib.errors import UserError
from coda_lib.evaluation.ablations import TABLES, committed_tables, executors, novel, variants
from coda_lib.evaluation.paper import LABELS, OVERALL
from coda_lib.evaluation.report import (
    BESIDE_NOTE,
    SYSTEM_LABELS,
    caption,
    comparisons_grid,
    grid,
    html_report,
    write_tables,
)
from coda_lib.evaluation.results import save_tables
from coda_lib.evaluation.tables import comparisons, load_episodes, load_seeds, over_seeds, siblings, table1, table_settings
from coda_lib.evaluation.votes import compare_rules, judge_table, load_table2_votes, load_votes, table2, voting_rules
from coda_lib.files import read_json, write_table, write_text
from coda_lib.formats.export import copy_planner, trained_planners
from coda_lib.paths import REFERENCE, REPO
from coda_lib.run import Run
from coda_lib.show.figures import judge_bars, save, table1_bars
from coda_lib.trajectory import load_trajectories, save_trajectories
from tools.artifact import artifact_section, run_lines

COMMITTED_FILES = (
    "tables/*", "figures/*", "manifest.json", "profile.yaml", "timings.json", "claims.json", "report.html",
    "judged/*/*.json", "judged/votes.parquet", "judges/*.parquet", "specialist/*/metrics.jsonl", "generalist/metrics.jsonl",
    "evaluation/*/[a-z]*.parquet", "ablations/*.parquet", "ablations/transfer/*.parquet", "ablations/*/*/metrics.jsonl",
)  # fmt: skip
SHOWN, NOTEBOOKS_OF = "laptop", "gis"
SHOWN_FILES = ("notebooks/*.ipynb", f"specialist/{NOTEBOOKS_OF}/groups/*.parquet")
COMMANDS = (  # shown in docs/commands.md with what they print; SEEDS stands for all committed runs of the study
    ("coda audit", "What the paper's own tables bear out"),
    ("coda claims SEEDS", "What runs say about each of the paper's claims, their seeds together"),
    ("coda seeds SEEDS", "Table 1 over runs that differ in the seed alone"),
    ("coda power 4", "How many tasks, runs and seeds would settle 4 percentage points"),
    ("coda judge votes results/reference/laptop", "What every voting rule makes of a run's votes, and what its labels are worth"),
    ("coda judge votes results/reference/laptop --table2", "The same for the judges and rules of Table 2, on a mix of attempts"),
    ("coda judge export results/reference/laptop --save arb", "The votes in AgentRewardBench's layout"),
    ("coda judge score --judgments arb/judgments --annotations arb/annotations.csv",
     "Judgments as that benchmark scores them, and strictly"),
)  # fmt: skip
WIDTH = 140  # columns of the commands' tables


def copy_run(run: Run) -> Path:
    """Copy the small files of a finished run to results/reference/RUN, with its test episodes as actions, without screenshots.

    Of the run `SHOWN` also the trained planners, in 16 bit, and the executed notebooks, those of one application.
    UserError if the run has no report yet.
    """
    if not run.report.exists():
        raise UserError(f"run {run.name} is not finished: {run.report} is missing; go on with coda reproduce --run {run.name}")
    write_table(run.votes, load_votes(run))
    target, profile = REFERENCE / run.folder.name, run.profile()
    patterns = (*COMMITTED_FILES, *(SHOWN_FILES if target.name == SHOWN else ()))
    others = tuple(f"-{app}.ipynb" for app in APPS if app != NOTEBOOKS_OF)
    with renewed(target) as temporary:
        if target.name == SHOWN:
            for name, checkpoint in trained_planners(run):
                copy_planner(run, name, checkpoint, copy := temporary / checkpoint.relative_to(run.folder))
                halve(copy / "model.safetensors")
        for path in sorted({path for pattern in patterns for path in run.folder.glob(pattern)}):
            if not path.name.endswith((".trajectories.parquet", *others)):
                copy = temporary / path.relative_to(run.folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
        for system, app in product(profile.systems, profile.apps):
            if (path := run.trajectories(system, app)).is_file():
                copy = temporary / run.actions(system, app).relative_to(run.folder)
                save_trajectories(copy, [without_screens(trajectory) for trajectory in load_trajectories(path)])
    return target


def halve(weights: Path) -> None:
    """Write a file of weights again in 16 bit; the network computes in what its config says."""
    save_file({name: tensor.to(torch.bfloat16) for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})


@contextmanager
def renewed(folder: Path) -> Iterator[Path]:
    """Give a new folder that takes the place of a committed one on success; the kit itself never removes one (`owned.remove`)."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".", dir=folder.parent) as scratch:
        (new := Path(scratch) / "new").mkdir()
        yield new
        if folder.exists():
            folder.rename(Path(scratch) / "old")
        new.rename(folder)


def pool(folder: Path) -> Path:
    """Write the tables over all committed seeds of a reference run's study to its folder `seeds`, and those of the committed
    ablations to `ablations`.
    """
    table, compared, spread, name = over_seeds(siblings(Run(str(folder)), [REFERENCE]))
    write_tables(folder / "seeds", table, compared, name)
    write_text(folder / "seeds" / "by_seed.csv", spread.to_csv(float_format="%.6g"))
    with renewed(folder / "ablations") as temporary:  # of the committed run `ablations`: shorter, and of one seed
        for path in sorted((REFERENCE / "ablations" / "tables").glob("*.csv")):
            if path.stem in TABLES:
                shutil.copyfile(path, temporary / path.name)
    return folder / "seeds"


def renew(run: Run) -> None:
    """Make again what a committed run says with intervals, from its episodes, votes and logs: tables, pictures, report.html.

    Its claims, deviations and manifest stay those of the run.
    """
    profile, name = run.profile(), run.folder.name
    how, setup = (profile.bootstrap_resamples, profile.seed), table_settings(profile)
    episodes, votes, rules = load_episodes(run), load_votes(run), voting_rules(profile.judge)
    table = table1(episodes, profile.systems, **setup)
    write_tables(run.tables, table, comparisons(episodes, profile.systems, *how, **setup), name)
    bars = {"table1": (table1_bars(table, text := caption(table, name)), f"{text} {BESIDE_NOTE}")}
    judge = {planner: judge_table(votes[votes["planner"] == planner], rules[-1]) for planner in ("base", "specialist")}
    for planner, who in {"base": "the base planner", "specialist": "the specialists"}.items():
        text = f"Run {name}, {setup['provenance']}: votes on rollouts of {who} at train tasks."
        file = "judge_base" if planner == "base" else "judge_specialists"
        bars[file] = (judge_bars(judge[planner], text), f"Precision and recall of the judge. {text}")
    for file, (figure, text) in bars.items():
        save(figure, run.figures / file, text)
    shares = {"judge": pd.concat([part.assign(planner=planner) for planner, part in judge.items()])}
    save_tables(run, votes=compare_rules(votes, rules), table2=table2(load_table2_votes(run), profile), **shares)
    if (run.tables / "ablations.csv").is_file():
        save_tables(run, ablations=variants(run, *how), executors=executors(run, *how), novel=novel(run, "spectra", *how))
    html_report(run.folder)


def overall_section(folder: Path) -> str:
    """The README's part: Overall Average@k of each system over all seeds, beside the paper's."""
    table = pd.read_csv(folder / "seeds" / "beside_paper.csv")
    rows = table[(table["application"] == OVERALL) & table["metric"].str.startswith("Average")]
    lines = [
        f"| {SYSTEM_LABELS[row.system].strip('*')} | {row.value:.1f} [{row.low:.1f}, {row.high:.1f}] | {row.paper_value:.2f} |"
        for row in rows.itertuples()
    ]
    runs = siblings(Run(str(folder)), [REFERENCE])
    seeds = ", ".join(str(run.profile().seed) for run in runs)
    about = (
        f"Table 1's Overall: {len(runs)} committed run{'s' * (len(runs) > 1)} (seed{'s' * (len(runs) > 1)} {seeds}), "
        f"{int(rows['tasks'].iloc[0])} test tasks, {int(rows['runs'].iloc[0]) // len(runs)} runs of each, 95 % intervals."
    )
    head = f"| {rows['metric'].iloc[0]}, percent | ours, measured (ScienceDesk) | reported by the paper (ScienceBoard) |"
    return "\n".join([about, "", head, "| --- | --- | --- |", *lines, "", differences(folder)])


def differences(folder: Path) -> str:
    """Overall differences between systems over all seeds, beside the paper's, as a table; bold where the interval excludes 0."""
    paper = pd.read_csv(folder / "seeds" / "beside_paper.csv").query("application == @OVERALL")
    paper = paper.set_index([paper["metric"].str.partition("@")[0], "system"])["paper_value"]
    compared = pd.read_csv(folder / "seeds" / "comparisons.csv").query("application == @OVERALL")
    rows: dict[tuple[str, str], list[str]] = {}
    for row in compared.itertuples():
        text = f"{row.difference:+.1f} [{row.low:+.1f}, {row.high:+.1f}]"
        theirs = paper[row.metric.partition("@")[0], row.second] - paper[row.metric.partition("@")[0], row.first]
        rows.setdefault((row.first, row.second), []).extend([f"**{text}**" if row.low * row.high > 0 else text, f"{theirs:+.2f}"])
    metrics = list(dict.fromkeys(compared["metric"]))
    names = {system: SYSTEM_LABELS[system].strip("*").partition(" →")[0] for pair in rows for system in pair}
    head = ["difference, points", *(f"{metric}, {whose}" for metric in metrics for whose in ("ours", "the paper"))]
    lines = [head, ["---"] * len(head), *([f"{names[b]} − {names[a].lower()}", *cells] for (a, b), cells in rows.items())]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def runs_section(folder: Path) -> str:
    """Which runs the results are of, and the Overall Average@k of each system with each seed."""
    runs = siblings(Run(str(folder)), [REFERENCE])
    by_seed = pd.read_csv(folder / "seeds" / "by_seed.csv", index_col="system")
    lines = [["Overall Average@k, percent", *(f"seed {run.profile().seed}" for run in runs)], ["---"] * (1 + len(runs))]
    for system, row in by_seed.iterrows():
        lines.append([SYSTEM_LABELS[system].strip("*"), *(f"{row[str(run.profile().seed)]:.1f}" for run in runs)])
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join(["\n".join(run_lines([run.folder for run in runs])), "", table, "", differences(folder)])


def results_section(folder: Path) -> str:
    """The tables of a reference run over all seeds as they are, word for word."""
    tables = [(folder / "seeds" / f"{name}.md").read_text().strip() for name in ("beside_paper", "comparisons")]
    picture = f"![Table 1 as a picture, ours beside the paper's](../{(folder / 'figures' / 'table1.png').relative_to(REPO)})"
    return "\n\n".join([tables[0], picture, tables[1]])


def greedy_section(folder: Path) -> str:
    """The success of all systems without chance, each test task once; and what holds at sealed tasks, where they were played."""
    parts = []
    for name, about, layout in (
        ("greedy", "Without chance (temperature 0), each test task once", grid),
        ("sealed", "Sealed tasks", grid),
        ("sealed_differences", "Sealed tasks, differences in percentage points", comparisons_grid),
    ):
        if (path := folder / "tables" / f"{name}.csv").is_file():
            parts.append(f"{about}; run {folder.name}.\n\n{layout(pd.read_csv(path)).to_markdown(index=False)}")
    return "\n\n".join(parts) or "The run was made before systems were played without chance as well."


def judge_section(folder: Path) -> str:
    """Table 2 of a reference run beside the paper's figures on ScienceBoard."""
    run = Run(str(folder))
    table = table2(load_table2_votes(run), run.profile())
    lines = [
        f"| {row.rule} | {row.precision:.1f} [{row.precision_low:.1f}, {row.precision_high:.1f}] | {row.paper_precision:.1f} "
        f"| {row.recall:.1f} [{row.recall_low:.1f}, {row.recall_high:.1f}] | {row.paper_recall:.1f} |"
        for row in table.itertuples()
    ]
    head = "| rule | precision, ours | precision, the paper | recall, ours | recall, the paper |"
    mix = load_table2_votes(run).drop_duplicates(["task_id", "run", "planner"])
    about = f"{len(mix)} trajectories, {int(mix['success'].sum())} of them solved."
    return "\n".join([about, "", head, "| --- | --- | --- | --- | --- |", *lines])


def labels_section(folder: Path) -> str:
    """What the judge made of each planner's attempts at train tasks: from the scores that stage `judge` has written."""
    profile, parts = Run(str(folder)).profile(), []
    for planner, who in {"base": "base planner", "novice": "novices", "specialist": "specialists"}.items():
        scores = [read_json(path) for app in profile.apps if (path := folder / "judged" / planner / f"{app}.json").is_file()]
        if scores:
            accepted = [one["true_positive"] + one["false_positive"] for one in scores]
            rows = {
                f"{who} at train tasks": [LABELS[one["app"]] for one in scores],
                "---": ["---"] * len(scores),
                "attempts solved, by the application's check": [f"{one['successes']} of {one['trajectories']}" for one in scores],
                "accepted by the judge": accepted,
                "accepted and solved": [one["true_positive"] for one in scores],
                "labelled steps": [one["positive_actions"] for one in scores],
            }
            parts.append("\n".join(f"| {' | '.join(map(str, (name, *cells)))} |" for name, cells in rows.items()))
    return "\n\n".join(parts)


def rewards_section(folder: Path) -> str:
    """Mean training reward of stage 1, first and last ten optimizer steps, from the trainings' logs."""
    profile = Run(str(folder)).profile()
    rewards = [pd.read_json(folder / "specialist" / app / "metrics.jsonl", lines=True)["reward"] for app in profile.apps]
    lines = [["", *(LABELS[app] for app in profile.apps)], ["---"] * (1 + len(rewards))]
    lines.append(["first ten steps", *(f"{one.head(10).mean():.2f}" for one in rewards)])
    lines.append(["last ten steps", *(f"{one.tail(10).mean():.2f}" for one in rewards)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def grades_section(folder: Path) -> str:
    """Solved test episodes by the grade of their task, of all seeds."""
    episodes, profile = load_seeds(siblings(Run(str(folder)), [REFERENCE]))
    grades = episodes["task_id"].str.extract(r"/(\w)", expand=False)
    solved = episodes.assign(grade=grades).groupby(["grade", "system"])["success"].agg(["sum", "count"])
    names = sorted(grades.unique())
    lines = [["system", *(f"{grade} (of {solved.loc[grade, 'count'].iloc[0]})" for grade in names)], ["---"] * (1 + len(names))]
    for system in profile.systems:
        lines.append([SYSTEM_LABELS[system].strip("*"), *(str(int(solved.loc[(grade, system), "sum"])) for grade in names)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def ablations_section(folder: Path) -> str:
    """The tables of the committed ablations."""
    parts = [f"{about}, in percent (points) with 95 % intervals over tasks.\n\n{table.to_markdown(index=False)}"
             for about, table in committed_tables().items()]  # fmt: skip
    return "\n\n".join(parts)


def commands_section(folder: Path) -> str:
    """Each command with all that it prints.  CalledProcessError if one fails."""
    runs = " ".join(str(run.folder.relative_to(REPO)) for run in siblings(Run(str(folder)), [REFERENCE]))
    parts = []
    with TemporaryDirectory() as scratch:  # where they may write
        (Path(scratch) / "results").symlink_to(REPO / "results")
        for command, about in COMMANDS:
            typed = command.replace("SEEDS", runs)
            line = [sys.executable, "-m", "coda_lib.cli.main", *shlex.split(typed)[1:]]
            env = os.environ | {"COLUMNS": str(WIDTH), "PYTHONPATH": str(REPO)}
            output = subprocess.run(line, capture_output=True, text=True, check=True, cwd=scratch, env=env).stdout
            output = "\n".join(text.rstrip() for text in output.strip("\n").splitlines())
            parts.append(f"### {about}\n\n`{typed}`\n\n```text\n{output}\n```")
    return "\n\n".join(parts)


PARTS: dict[str, dict[str, Callable[[Path], str]]] = {  # page -> the parts of it that are renewed
    "README.md": {"overall": overall_section},
    "docs/results.md": {
        "runs": runs_section,
        "results": results_section,
        "greedy": greedy_section,
        "judge": judge_section,
        "labels": labels_section,
        "rewards": rewards_section,
        "grades": grades_section,
        "ablations": ablations_section,
    },
    "docs/commands.md": {"commands": commands_section},
    "docs/reproducibility.md": {"artifact": artifact_section},
}


def marked(name: str, text: str) -> str:
    """A renewed part between its marks."""
    return f"<!-- {name} -->\n\n{text}\n\n<!-- /{name} -->"


def show(folder: Path, root: Path = REPO) -> None:
    """Renew the marked parts of the pages under `root`.  UserError if a page has no such mark."""
    for page, parts in PARTS.items():
        text = (root / page).read_text()
        for name, part in parts.items():
            before, opening, rest = text.partition(f"<!-- {name} -->")
            _, closing, after = rest.partition(f"<!-- /{name} -->")
            if not closing:
                raise UserError(f"{page} has no part between <!-- {name} --> and <!-- /{name} -->")
            text = before + marked(name, part(folder)) + after
        write_text(root / page, text)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"copied to {copy_run(Run(name))}")
    for table in sorted(REFERENCE.glob("*/tables/table1.csv")) if not sys.argv[1:] else ():
        renew(Run(str(table.parents[1])))
    pool(REFERENCE / SHOWN)
    show(REFERENCE / SHOWN)
