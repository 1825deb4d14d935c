"""Commands about the evidence of a result: the paper's tables and claims, seeds, power, and judges."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.progress import Progress
from typer import Argument, Exit, Option, Typer

from coda_lib.errors import UserError
from coda_lib.files import read_text, records, require_folder, safe_name
from coda_study.cli.console import err, print_json, print_message, print_text, run_of, runs_of, show
from coda_study.cli.options import JsonOption, RunArgument, save_option

RunsArgument = Annotated[
    list[str], Argument(metavar="RUN...", help="Runs that differ in the seed alone: names or folders.")
]
judge_app = Typer(help="Judges: the votes of a run, and judgments of AgentRewardBench.", no_args_is_help=True)


def audit(as_json: JsonOption = False) -> None:
    """Check the paper's Tables 1 and 2: impossible figures, wrong means, differences within chance."""
    from coda_study.evaluation.audit import audit_paper, findings

    parts = audit_paper()
    if as_json:
        tables = {name: records(part) for name, part in parts.items()}
        print_json({"findings": findings(parts)} | tables)
        return
    for finding in findings(parts):
        print_text(f"* {finding}")
    print_text("\nAll tasks together (intervals over tasks):")
    rows = []
    for row in parts["pooled"].itertuples():
        note = "" if row.whole else " (nearest to an impossible figure)"
        share = f"{row.value:.1f} [{row.low:.1f}, {row.high:.1f}]{note}"
        rows.append((row.metric, row.model, row.successes, row.trials, share))
    show(("metric", "model", "solved", "of", "percent, 95 % interval"), rows)


def claims(run_names: RunsArgument, as_json: JsonOption = False) -> None:
    """Decide the paper's claims by a run, or several seeds together, with the evidence."""
    import pandas as pd

    from coda_study.evaluation.claims import decide_claims, elsewhere, load_claims, load_systems
    from coda_study.evaluation.paper import Provenance
    from coda_study.evaluation.votes import votes_and_rules

    runs = runs_of(run_names)
    several = len(runs) > 1
    episodes, systems, profile = load_systems(runs)
    # of several, the draws of `coda seeds`
    seed, k = (0, profile.evaluation_runs) if several else (profile.seed, None)
    how = (profile.bootstrap_resamples, seed, Provenance.of(profile), k)
    table = decide_claims(load_claims(), episodes, *votes_and_rules(runs), systems, profile.apps, *how)
    table = pd.concat([table, *elsewhere(load_claims(), runs, *how[:3])], ignore_index=True)
    if as_json:
        print_json(records(table))
        return
    tested = table["difference"].notna()
    rows = []
    for row in table[tested].itertuples():
        paper = "no figure" if row.reported != row.reported else f"{row.reported:+.1f}"
        measured = f"{row.difference:+.1f} [{row.low:+.1f}, {row.high:+.1f}]"
        rows.append((row.claim, row.metric, paper, measured, row.verdict))
    show(("claim", "metric", "paper", "these runs" if several else "this run", "verdict"), rows)
    for row in table[~tested].itertuples():
        print_text(f"not tested ({row.rests_on}): {row.claim}")
    seeds = f"; seeds {', '.join(str(run.profile().seed) for run in runs)} together" if several else ""
    print_text(f"percentage points, with 95 % intervals; not corrected for the number of claims{seeds}")


def seeds(
    run_names: RunsArgument,
    save: Annotated[
        Path | None, save_option("DIR", "Write table1 and comparisons (csv, md, tex) there.", require_folder)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show Table 1 over several seeds of the same study, beside the paper's; sealed tasks; temperature 0."""
    from coda_study.evaluation import report
    from coda_study.evaluation.tables import BESIDE, over_seeds

    tables, name = over_seeds(runs_of(run_names))
    if save:
        report.write_tables(save, tables["table1"], tables["comparisons"], name)
    if as_json:
        print_json({key: records(part) for key, part in tables.items()})
        return
    systems, differences = report.overall_grids(tables)
    grids = {f"Overall of {name}, beside the paper's": systems, "Differences of Overall": differences}
    for key, table in tables.items():
        if key == "by_seed":
            grids["Overall Average@k of each seed, percent"] = table.round(1)
            continue
        of, compared = BESIDE.get(key.partition("_")[0]), "difference" in table
        text = report.caption(table, name, report.COMPARED if compared else report.SUCCESS)
        lay_out = report.comparisons_grid if compared else report.grid
        grids[f"{of.capitalize()}. {text}" if of else text] = lay_out(table)
    for title, grid in grids.items():
        print_text(f"\n{title}")
        show(map(str, grid.columns), grid.itertuples(index=False))


@judge_app.command("votes")
def judge_votes(
    run_name: RunArgument,
    by: Annotated[list[str] | None, Option(help="A row for each app or planner; may be given twice.")] = None,
    table2: Annotated[
        bool, Option("--table2", help="The rules of Table 2, on the mix that all its judges saw.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Apply every voting rule to the votes of a run: precision, recall, labels."""
    from coda_study.evaluation import votes as voting

    by = by or []
    if unknown := set(by) - {"app", "planner"}:
        raise UserError(f"--by {' '.join(sorted(unknown))}: choose app or planner")
    run = run_of(run_name)
    settings = run.profile().judge
    votes = voting.load_table2_votes(run) if table2 else voting.load_votes(run)
    rules = voting.table2_rules(settings) if table2 else voting.voting_rules(settings)
    compared = voting.grouped(votes, by, rules) if by else voting.compare_rules(votes, rules)
    if as_json:
        print_json(records(compared))
        return
    rows = []
    for row in compared.itertuples():
        precision = f"{row.precision:.1f} [{row.precision_low:.1f}, {row.precision_high:.1f}]"
        recall = f"{row.recall:.1f} [{row.recall_low:.1f}, {row.recall_high:.1f}]"
        counts = (row.trajectories, row.successes, row.accepted)
        costs = (f"{row.coverage:.1f}", f"{row.calls:.2f}", row.labels, f"{row.wrong_labels:.1f}")
        groups = (getattr(row, name) for name in by)
        rows.append((*groups, row.rule, *counts, precision, recall, *costs))
    counts = ("n", "solved", "accepted")
    costs = ("coverage", "calls", "labels", "wrong labels")
    show((*by, "rule", *counts, "precision", "recall", *costs), rows)
    print_text(
        "percent, with 95 % intervals over tasks; calls: votes asked for each; labels: steps to be trained on"
    )


@judge_app.command("score")
def judge_score(
    judgments: Annotated[Path, Option(metavar="DIR", help="{benchmark}/{agent}/{judge}/{task_id}.json.")],
    annotations: Annotated[Path, Option(metavar="FILE", help="AgentRewardBench's annotations.csv.")],
    split: Annotated[str | None, Option(help="Only this split: test or dev. Default: all.")] = None,
    splits: Annotated[Path | None, Option(metavar="FILE", help="splits.csv; --split needs it.")] = None,
    agents: Annotated[bool, Option("--agents", help="The published figures of each agent too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Score judgments of AgentRewardBench as the benchmark does, and with no verdict as a wrong one."""
    from coda_study.formats import judgments as arb

    if split and not splits:
        raise UserError("--split needs the benchmark's splits.csv: name it with --splits")
    labels, repeated = arb.load_annotations(annotations)
    scored = arb.score(judgments, labels, repeated, arb.load_split(splits, split) if split else None)
    if as_json:
        print_json(arb.record(scored))
        return
    rows = []
    for score in scored.scores:
        if score.agent == arb.ALL:
            shares = [arb.percent(share) for share in score.shares()]
            shares.insert(2, f"{100 * score.coverage:.1f}")
            missing = ", ".join(f"{problem} {count}" for problem, count in score.problems.items())
            rows.append((score.judge, score.benchmark, len(score.judged), *shares, missing))
    measures = ("precision", "recall", "coverage", "strict precision", "strict recall", "no verdict")
    show(("judge", "benchmark", "n", *measures), rows)
    print_text("percent, with 95 % intervals over tasks")
    print_text("\nAs the published scorer counts and rounds, without intervals:")
    names = {
        "total": "n", "accuracy": "accuracy", "precision": "precision", "recall": "recall", "f1": "F1",
        "npv": "NPV", "tnr": "TNR",
    }  # fmt: skip
    rows = []
    for score in scored.scores:
        if agents or score.agent == arb.ALL:
            figures = score.published_figures()
            rows.append((score.judge, score.benchmark, score.agent, *(figures[name] for name in names)))
    show(("judge", "benchmark", "agent", *names.values()), rows)
    unsure = f"{scored.unsure} trajectories that people are unsure of"
    print_text(f"not used: {unsure}, {scored.repeated} further annotations")
    for judge, count in scored.unknown.items():
        print_text(f"{judge}: {count} judgments of trajectories without annotation")


@judge_app.command("run")
def judge_run(
    trajectories: Annotated[Path, Option(metavar="DIR", help="{benchmark}/{agent}/.../{task_id}.json.")],
    endpoint: Annotated[str, Option(metavar="URL", help="Chat API, e.g. http://localhost:8000/v1.")],
    model: Annotated[str, Option(help="The model's name there.")],
    save: Annotated[Path, save_option("DIR", "Where the judgments go.", require_folder)] = Path("judgments"),
    api_key_file: Annotated[Path | None, Option(metavar="FILE", help="File with the server's key.")] = None,
) -> None:
    """Judge AgentRewardBench's trajectories with a served model; `coda judge score` scores what it writes."""
    from coda_lib.models.endpoint import EndpointModel
    from coda_study.formats.judging import judge_folder

    key = read_text(api_key_file).strip() if api_key_file else None
    if key == "":
        raise UserError(f"{api_key_file} holds no API key")
    served, name = EndpointModel(endpoint, model, key), safe_name(model.replace("/", "_"))
    with Progress(console=err, transient=True) as progress:
        bar = progress.add_task(model, total=None)

        def on_progress(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        counts, problems = judge_folder(trajectories, save, served, name, progress=on_progress)
    for problem in problems:
        print_message(problem)
    usage = served.usage
    print_text(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    tokens = f"{usage.prompt_tokens} tokens read, {usage.completion_tokens} written"
    print_text(f"{usage.requests} requests, {tokens}")
    if problems:
        raise Exit(1)


def power(
    difference: Annotated[float, Argument(help="Of Overall Average@k, in percentage points.")],
    run_names: Annotated[
        list[str] | None, Option("--run", help="Runs to estimate the spread from. Default: the reference.")
    ] = None,
    second: Annotated[str, Option(help="The system beside the base planner.")] = "stage1",
    as_json: JsonOption = False,
) -> None:
    """Estimate how many tasks, runs and training seeds detect a difference between two systems."""
    from coda_lib.paths import REFERENCE
    from coda_study.evaluation.power import POWER, designs, estimate, load_pairs

    if not 0 < abs(difference) <= 100:
        fault = f"a difference of {difference} percentage points cannot be detected"
        raise UserError(f"{fault}: give one up to 100, not 0")
    runs = [run_of(name) for name in run_names or [str(REFERENCE / "laptop")]]
    pairs = [load_pairs(run, "base", second) for run in runs]
    spread = estimate(pairs)
    tasks, runs_of_task = sum(len(a) for a, _ in pairs[0]), pairs[0][0][0].shape[1]
    detectable = 100 * spread.detectable(tasks, runs_of_task, len(runs))
    table = designs(spread, abs(difference) / 100)
    if as_json:
        about = {"first": "base", "second": second, "power": POWER, "spread": asdict(spread)}
        needed = json.loads(table.to_json(orient="index"))
        print_json(about | {"detectable": detectable, "tasks": needed})
        return
    design = f"{tasks} tasks, {runs_of_task} runs and {len(runs)} seed{'s' * (len(runs) > 1)}"
    chance = f"a difference of {detectable:.1f} points with a chance of {100 * POWER:.0f} %"
    print_text(f"base against {second}: {design} find {chance}")
    rows = (
        (row[0], *("never" if cell == float("inf") else f"{cell:,.0f}" for cell in row[1:]))
        for row in table.itertuples()
    )
    show((f"tasks for {abs(difference):g} points", *table.columns), rows)
    if spread.seeds is None:
        print_text("From one training: the effect of another training seed is unknown and not counted.")
