"""The committed reference runs: `python -m tools.reference RUN` copies a finished run and renews what README
and docs/ show.

Its tables are made again from its episodes and votes.  `python -m tools.reference` alone makes those of all
committed runs again, after a change in how figures or intervals are computed, and renews the same pages.

`tools.pages` writes what the pages show.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import torch
from safetensors.torch import load_file, save_file

from coda_lib.applications import APPS, DESKTOP_APPS
from coda_lib.errors import UserError
from coda_lib.files import read_object, write_table, write_text
from coda_lib.paths import REFERENCE
from coda_lib.trajectory import load_trajectories, save_trajectories
from coda_study.evaluation.ablations import TABLES, executors, novel, variants
from coda_study.evaluation.replay import without_screens
from coda_study.evaluation.report import (
    beside_note,
    caption,
    made_with,
    write_tables,
)
from coda_study.evaluation.results import html_report, save_tables
from coda_study.evaluation.slices import blind, factors, kinds, passes
from coda_study.evaluation.tables import (
    comparisons,
    load_episodes,
    over_seeds,
    siblings,
    table1,
    table_settings,
)
from coda_study.evaluation.votes import (
    compare_rules,
    judge_table,
    load_table2_votes,
    load_votes,
    table2,
    voting_rules,
)
from coda_study.formats.export import copy_planner, trained_planners
from coda_study.run import Run
from coda_study.show.figures import judge_bars, save, table1_bars
from coda_study.stages import baselines
from coda_study.stages.curve import curve_table
from tools.pages import REAL, show

COMMITTED_FILES = (
    "tables/*", "figures/*", "manifest.json", "profile.yaml", "timings.json", "claims.json", "report.html",
    "judged/*/*.json", "judged/votes.parquet", "judges/*.parquet", "specialist/*/metrics.jsonl",
    "generalist/metrics.jsonl",
    "baselines/*.parquet",
    "evaluation/*/[A-Za-z]*.parquet", "ablations/*.parquet", "ablations/transfer/*.parquet",
    "ablations/*/*/metrics.jsonl",
    "curve/*.parquet",
)  # fmt: skip
LARGE = (".trajectories.parquet", "-judged.parquet")  # with screenshots
SHOWN = "laptop"  # the run that README and docs/ show
ONE_OF = {
    SHOWN: "gis",
    REAL: "PyMOL",
}  # of these runs also the trained planners, and the notebooks of one application
# tasks of a real application whose first episode keeps its screenshots: nothing draws these again
PICTURED = 10


def copy_run(run: Run) -> Path:
    """Copy the small files of a finished run to results/reference/RUN, with its test episodes as actions,
    without screenshots.

    Of real applications a few episodes keep theirs.  Of the runs of `ONE_OF` also the trained planners, in 16
    bit, and the executed notebooks, those of one application. UserError if the run has no report yet.
    """
    if not run.report.exists():
        raise UserError(
            f"run {run.name} is not finished: {run.report} is missing; go on with coda reproduce --run "
            f"{run.name}"
        )
    target, profile, votes = REFERENCE / run.folder.name, run.profile(), load_votes(run)
    if profile.explored and "base" not in set(votes["planner"]):
        raise UserError(
            f"run {run.name} has no votes on the base planner's attempts; they are in {run.explorer().folder}"
        )
    write_table(run.votes, votes)
    one = ONE_OF.get(target.name)
    patterns = (
        *COMMITTED_FILES,
        *(("notebooks/*.ipynb", f"specialist/{one}/groups/*.parquet") if one else ()),
    )
    others = tuple(f"-{app}.ipynb" for app in (*APPS, *profile.apps) if app != one)
    with renewed(target) as temporary:
        if one:
            for name, checkpoint in trained_planners(run):
                copy_planner(run, name, checkpoint, copy := temporary / checkpoint.relative_to(run.folder))
                halve(copy / "model.safetensors")
        for path in sorted({path for pattern in patterns for path in run.folder.glob(pattern)}):
            if not path.name.endswith((*LARGE, *others)):
                copy = temporary / path.relative_to(run.folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
        for system, app in product(profile.systems, profile.apps):
            if (path := run.trajectories(system, app)).is_file():
                played, copy = (
                    load_trajectories(path),
                    temporary / run.actions(system, app).relative_to(run.folder),
                )
                save_trajectories(copy, [without_screens(trajectory) for trajectory in played])
                if app in DESKTOP_APPS:
                    first = [trajectory for trajectory in played if trajectory.run == 0]
                    save_trajectories(temporary / path.relative_to(run.folder), first[:PICTURED])
    return target


def halve(weights: Path) -> None:
    """Write a file of weights again in 16 bit, which loses nothing of a trained planner.

    UserError for weights that were not rounded when they were saved: a copy would play other episodes.
    """
    whole = load_file(weights)
    half = {name: tensor.to(torch.bfloat16) for name, tensor in whole.items()}
    if any(not torch.equal(half[name].to(tensor.dtype), tensor) for name, tensor in whole.items()):
        raise UserError(f"{weights.parent.name} was played with weights of 32 bit: train it again")
    save_file(half, weights, {"format": "pt"})


@contextmanager
def renewed(folder: Path) -> Iterator[Path]:
    """Give a new folder that takes the place of a committed one on success; the kit itself never removes one
    (`owned.remove`).
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".", dir=folder.parent) as scratch:
        (new := Path(scratch) / "new").mkdir()
        yield new
        if folder.exists():
            folder.rename(Path(scratch) / "old")
        new.rename(folder)


def pool(folder: Path) -> Path:
    """Write the tables over all committed seeds of a reference run's study to its folder `seeds`."""
    runs = siblings(Run(str(folder)), [REFERENCE])
    tables, name = over_seeds(runs)
    tables |= slices(runs)
    write_tables(folder / "seeds", tables.pop("table1"), tables.pop("comparisons"), name)
    for name, table in tables.items():
        save_table(folder / "seeds" / f"{name}.csv", table)
    return folder / "seeds"


def slices(runs: Sequence[Run]) -> dict[str, pd.DataFrame]:
    """The tables of notebooks 10 and 18 that slice a study's episodes, as far as the runs have them."""
    profile, tables = runs[0].profile(), {"kinds": kinds(runs)}
    if all(run.greedy(*pair).is_file() for run in runs for pair in product(profile.systems, profile.apps)):
        tables["passes"] = passes(runs)
    if all(run.baselines(app).is_file() for run in runs for app in profile.apps):
        tables["blind"] = blind(runs)
    return tables | ({"factors": factors(runs)} if profile.perturb else {})


def play_blind(run: Run) -> None:
    """Let blind agents play the test tasks of a committed run that was made before there were some.

    Its attempts at train tasks are not committed, so nothing is repeated of these.
    """
    for app in run.profile().apps:
        if app not in DESKTOP_APPS and not run.baselines(app).is_file():
            write_table(run.baselines(app), baselines.blind(run, app, run.actions("base", app)))


def put_ablations(folder: Path) -> None:
    """Write the tables of the committed ablations over all their seeds, and all their tables beside those of
    a reference run.
    """
    studied = siblings(Run(str(REFERENCE / "ablations")), [REFERENCE])
    if len(studied) > 1:
        table = variants(
            *studied, resamples=studied[0].profile().bootstrap_resamples, seed=studied[0].profile().seed
        )
        save_table(studied[0].folder / "seeds" / "ablations.csv", table)
    with renewed(folder / "ablations") as temporary:  # of the committed run `ablations`, which is shorter
        for place in ("tables", "seeds"):
            for path in sorted((REFERENCE / "ablations" / place).glob("*.csv")):
                if path.stem in TABLES:
                    shutil.copyfile(path, temporary / path.name)


def save_table(path: Path, table: pd.DataFrame) -> None:
    write_text(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def renew(run: Run) -> None:
    """Make again what a committed run says with intervals, from its episodes, votes and logs: tables,
    pictures, report.html.

    Its claims, deviations and manifest stay those of the run.
    """
    profile, name = run.profile(), run.folder.name
    how, setup = (profile.bootstrap_resamples, profile.seed), table_settings(profile)
    episodes, votes, rules = load_episodes(run), load_votes(run), voting_rules(profile.judge)
    table = table1(episodes, profile.systems, **setup)
    manifest = read_object(run.manifest, "profile", "code")
    made = made_with(manifest["profile"], manifest["code"])
    write_tables(run.tables, table, comparisons(episodes, profile.systems, *how, **setup), name, made)
    bars = {"table1": (table1_bars(table, text := caption(table, name)), f"{text} {beside_note(table)}")}
    judge = {
        planner: judge_table(votes[votes["planner"] == planner], rules[-1])
        for planner in ("base", "specialist")
    }
    for planner, who in {"base": "the base planner", "specialist": "the specialists"}.items():
        text = f"Run {name}, {setup['provenance']}: votes on rollouts of {who} at train tasks."
        file = "judge_base" if planner == "base" else "judge_specialists"
        bars[file] = (judge_bars(judge[planner], text), f"Precision and recall of the judge. {text}")
    for file, (figure, text) in bars.items():
        save(figure, run.figures / file, text)
    shares = {"judge": pd.concat([part.assign(planner=planner) for planner, part in judge.items()])}
    save_tables(
        run, votes=compare_rules(votes, rules), table2=table2(load_table2_votes(run), profile), **shares
    )
    if (run.tables / "ablations.csv").is_file():
        tables = {
            "ablations": variants(run, resamples=how[0], seed=how[1]),
            "executors": executors(run, *how),
        }
        save_tables(run, **tables, novel=novel(run, "spectra", *how))
    if (run.tables / "curve.csv").is_file():
        save_tables(run, curve=curve_table(run))
    save_tables(run, **slices([run]))
    html_report(run.folder, linked=run.view.is_file())  # the page itself is too large to commit


if __name__ == "__main__":
    copied = [copy_run(Run(name)) for name in sys.argv[1:]]
    play_blind(Run(str(REFERENCE / SHOWN)))
    for folder in copied or sorted(table.parents[1] for table in REFERENCE.glob("*/tables/table1.csv")):
        renew(Run(str(folder)))  # a run of older code has older tables
    for name in (SHOWN, REAL):
        if (REFERENCE / name / "tables").is_dir():
            pool(REFERENCE / name)
    put_ablations(REFERENCE / SHOWN)
    show(REFERENCE / SHOWN)
