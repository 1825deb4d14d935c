"""Commands about the evidence of a result: the paper's tables and claims, seeds, power, and judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from coda_lib.errors import UserError
from coda_lib.files import read_text, records, safe_name
from coda_study.cli.console import (
    JsonOption,
    RunArgument,
    err,
    out,
    print_json,
    run_of,
    save_folder_option,
    show,
)

RunsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...", help="Runs that differ in the seed alone: names under results/, or folders."
    ),
]
judge_app = typer.Typer(
    help="Judges: the votes of a run, and judgments of AgentRewardBench.", no_args_is_help=True
)


def audit(as_json: JsonOption = False) -> None:
    """Check the paper's Tables 1 and 2: impossible figures, wrong means, differences within chance."""
    from coda_study.evaluation.audit import audit_paper, findings

    parts = audit_paper()
    if as_json:
        tables = {name: records(part) for name, part in parts.items()}
        print_json({"findings": findings(parts)} | tables)
        return
    for finding in findings(parts):
        out.print(f"* {finding}", markup=False, soft_wrap=True)
    out.print("\nAll tasks together (intervals over tasks):")
    rows = []
    for row in parts["pooled"].itertuples():
        share = f"{row.value:.1f} [{row.low:.1f}, {row.high:.1f}]" + (
            "" if row.whole else " (nearest to an impossible figure)"
        )
        rows.append((row.metric, row.model, row.successes, row.trials, share))
    show(("metric", "model", "solved", "of", "percent, 95 % interval"), rows)


def claims(runs: RunsArgument, as_json: JsonOption = False) -> None:
    """Decide the paper's claims by a run, or several seeds together: supported, contradicted or undecided,
    with the evidence.
    """
    from coda_study.evaluation.claims import decide_claims, load_claims, load_systems
    from coda_study.evaluation.paper import Provenance
    from coda_study.evaluation.votes import votes_and_rules

    folders = [run_of(run) for run in runs]
    episodes, systems, profile = load_systems(folders)
    # of several, the draws of `coda seeds`
    seed, k = (0, profile.evaluation_runs) if folders[1:] else (profile.seed, None)
    how = (profile.bootstrap_resamples, seed, Provenance.of(profile), k)
    table = decide_claims(load_claims(), episodes, *votes_and_rules(folders), systems, profile.apps, *how)
    if as_json:
        print_json(records(table))
        return
    rows = []
    for row in table.dropna(subset="difference").itertuples():
        paper = "no figure" if row.reported != row.reported else f"{row.reported:+.1f}"
        rows.append(
            (
                row.claim,
                row.metric,
                paper,
                f"{row.difference:+.1f} [{row.low:+.1f}, {row.high:+.1f}]",
                row.verdict,
            )
        )
    show(("claim", "metric", "paper", "these runs" if runs[1:] else "this run", "verdict"), rows)
    for row in table[table["difference"].isna()].itertuples():
        out.print(f"not tested ({row.rests_on}): {row.claim}", markup=False, soft_wrap=True)
    seeds = (
        f"; seeds {', '.join(str(folder.profile().seed) for folder in folders)} together" if runs[1:] else ""
    )
    out.print(
        f"percentage points, with 95 % intervals; not corrected for the number of claims{seeds}",
        soft_wrap=True,
    )


def seeds(
    runs: RunsArgument,
    save: Annotated[
        Path | None, save_folder_option("DIR", "Write table1 and comparisons (csv, md, tex) there.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show Table 1 over several seeds of the same study: means over the seeds, and their spread."""
    from coda_study.evaluation import report
    from coda_study.evaluation.tables import over_seeds

    table, compared, spread, name = over_seeds([run_of(run) for run in runs])
    spread = spread.reset_index()
    if save:
        report.write_tables(save, table, compared, name)
    if as_json:
        parts = {"table1": table, "comparisons": compared, "by_seed": spread}
        print_json({key: records(part) for key, part in parts.items()})
        return
    layouts = {
        report.caption(table, name): report.grid(table), report.COMPARED: report.comparisons_grid(compared),
        "Overall Average@k of each seed, percent": spread.round(1),
    }  # fmt: skip
    for title, layout in layouts.items():
        out.print(f"\n{title}", markup=False, soft_wrap=True)
        show(map(str, layout.columns), layout.itertuples(index=False))


@judge_app.command("votes")
def judge_votes(
    run: RunArgument,
    by: Annotated[
        list[str] | None, typer.Option(help="A row for each app or planner; may be given twice.")
    ] = None,
    table2: Annotated[
        bool, typer.Option("--table2", help="The rules of Table 2, on the mix that all its judges saw.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Apply every voting rule to the votes of a run: precision, recall, labels."""
    from coda_study.evaluation.votes import (
        compare_rules,
        grouped,
        load_table2_votes,
        load_votes,
        table2_rules,
        voting_rules,
    )

    if unknown := set(by or ()) - {"app", "planner"}:
        raise UserError(f"--by {' '.join(sorted(unknown))}: choose app or planner")
    run = run_of(run)
    profile = run.profile()
    votes = load_table2_votes(run) if table2 else load_votes(run)
    rules = table2_rules(profile.judge) if table2 else voting_rules(profile.judge)
    compared = grouped(votes, by, rules) if by else compare_rules(votes, rules)
    if as_json:
        print_json(records(compared))
        return
    columns = (
        "n",
        "solved",
        "accepted",
        "precision",
        "recall",
        "coverage",
        "calls",
        "labels",
        "wrong labels",
    )
    rows = []
    for row in compared.itertuples():
        intervals = (
            (row.precision, row.precision_low, row.precision_high),
            (row.recall, row.recall_low, row.recall_high),
        )
        shares = [f"{value:.1f} [{low:.1f}, {high:.1f}]" for value, low, high in intervals]
        costs = (f"{row.coverage:.1f}", f"{row.calls:.2f}", row.labels, f"{row.wrong_labels:.1f}")
        groups = (getattr(row, name) for name in by or ())
        rows.append((*groups, row.rule, row.trajectories, row.successes, row.accepted, *shares, *costs))
    show((*(by or ()), "rule", *columns), rows)
    note = (
        "percent, with 95 % intervals over tasks; calls: votes asked for each; labels: steps to be trained on"
    )
    out.print(note, markup=False, soft_wrap=True)


@judge_app.command("score")
def judge_score(
    judgments: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of {benchmark}/{agent}/{judge}/{task_id}.json.")
    ],
    annotations: Annotated[
        Path, typer.Option(metavar="FILE", help="People's labels: AgentRewardBench's annotations.csv.")
    ],
    split: Annotated[
        str | None, typer.Option(help="Only this split: test or dev. Default: all trajectories.")
    ] = None,
    splits: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The benchmark's splits.csv; --split needs it.")
    ] = None,
    agents: Annotated[
        bool, typer.Option("--agents", help="The published figures of each agent too, as in --json.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Score judgments of AgentRewardBench as the benchmark does, and strictly: a missing verdict is a wrong
    one.
    """
    from coda_study.formats import judgments as arb

    if split and not splits:
        raise UserError("--split needs the benchmark's splits.csv: name it with --splits")
    labels, repeated = arb.load_annotations(annotations)
    scored = arb.score(judgments, labels, repeated, arb.load_split(splits, split) if split else None)
    if as_json:
        print_json(arb.record(scored))
        return
    rows = []
    for one in (score for score in scored.scores if score.agent == arb.ALL):
        shares = [arb.percent(share) for share in one.shares()]
        missing = ", ".join(f"{problem} {count}" for problem, count in one.problems.items())
        rows.append(
            (
                one.judge,
                one.benchmark,
                len(one.judged),
                *shares[:2],
                f"{100 * one.coverage:.1f}",
                *shares[2:],
                missing,
            )
        )
    measures = ("precision", "recall", "coverage", "strict precision", "strict recall", "no verdict")
    show(("judge", "benchmark", "n", *measures), rows)
    out.print("percent, with 95 % intervals over tasks", markup=False)
    out.print("\nAs the published scorer counts and rounds, without intervals:", markup=False)
    names = {
        "total": "n",
        **{name: name for name in ("accuracy", "precision", "recall")},
        "f1": "F1",
        "npv": "NPV",
        "tnr": "TNR",
    }
    found = [(one, one.published_figures()) for one in scored.scores if agents or one.agent == arb.ALL]
    cells = (
        (one.judge, one.benchmark, one.agent, *(figures[name] for name in names)) for one, figures in found
    )
    show(("judge", "benchmark", "agent", *names.values()), cells)
    out.print(
        f"not used: {scored.unsure} trajectories that people are unsure of, {scored.repeated} further "
        "annotations"
    )
    for judge, count in scored.unknown.items():
        out.print(f"{judge}: {count} judgments of trajectories without annotation", markup=False)


@judge_app.command("run")
def judge_run(
    trajectories: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of {benchmark}/{agent}/{experiment}/{task_id}.json.")
    ],
    endpoint: Annotated[
        str, typer.Option(metavar="URL", help="Server with OpenAI's chat API, e.g. http://localhost:8000/v1.")
    ],
    model: Annotated[str, typer.Option(help="The model's name there.")],
    save: Annotated[Path, save_folder_option("DIR", "Where the judgments go.")] = Path("judgments"),
    judge: Annotated[
        str | None, typer.Option(help="The judge's name in the layout. Default: the model's.")
    ] = None,
    screenshot: Annotated[bool, typer.Option(help="Show the last screenshot.")] = True,
    axtree: Annotated[bool, typer.Option(help="Show the last accessibility tree.")] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests side by side.")] = 8,
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the server's key.")
    ] = None,
) -> None:
    """Judge AgentRewardBench's trajectories with a served model; `coda judge score` scores what it writes."""
    from coda_lib.models.endpoint import EndpointModel
    from coda_study.formats.judging import View, judge_folder

    key = read_text(api_key_file).strip() if api_key_file else "none"
    if not key:
        raise UserError(f"{api_key_file} holds no API key")
    served = EndpointModel(endpoint, model, key, concurrency)
    with Progress(console=err, transient=True) as progress:
        bar = progress.add_task(model, total=None)
        counts, problems = judge_folder(
            trajectories, save, served, safe_name((judge or model).replace("/", "_")), View(screenshot,
            axtree),
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )  # fmt: skip
    for problem in problems:
        err.print(problem, markup=False, soft_wrap=True)
    usage = served.usage
    out.print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())), markup=False)
    out.print(
        f"{usage.requests} requests, {usage.prompt_tokens} tokens read, {usage.completion_tokens} written",
        markup=False,
    )
    if problems:
        raise typer.Exit(1)


def power(
    difference: Annotated[
        float, typer.Argument(help="Difference of Overall Average@k to detect, in percentage points.")
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="Run to estimate the spread from; may be repeated for other seeds. Default: the reference."
        ),
    ] = None,
    first: Annotated[
        str, typer.Option(help="The system compared with: base, executor, stage1 or stage2.")
    ] = "base",
    second: Annotated[str, typer.Option(help="The other system.")] = "stage1",
    chance: Annotated[
        float, typer.Option("--power", min=0.5, max=0.999, help="Chance of detecting it if it exists.")
    ] = 0.8,
    as_json: JsonOption = False,
) -> None:
    """Estimate how many tasks, runs and training seeds detect a difference between two systems."""
    from dataclasses import asdict

    from coda_lib.paths import REFERENCE
    from coda_study.evaluation.power import designs, estimate, load_pairs

    if not 0 < abs(difference) <= 100:
        raise UserError(
            f"a difference of {difference} percentage points cannot be detected: give one up to 100, not 0"
        )
    folders = [run_of(name) for name in run or [str(REFERENCE / "laptop")]]
    pairs = [load_pairs(folder, first, second) for folder in folders]
    spread = estimate(pairs)
    tasks, runs = sum(len(a) for a, _ in pairs[0]), pairs[0][0][0].shape[1]
    detectable = 100 * spread.detectable(tasks, runs, len(folders), chance)
    table = designs(spread, abs(difference) / 100, chance)
    if as_json:
        print_json({"first": first, "second": second, "power": chance, "spread": asdict(spread),
        "detectable": detectable,
                    "tasks": json.loads(table.to_json(orient="index"))})  # fmt: skip
        return
    design = f"{tasks} tasks, {runs} runs and {len(folders)} seed{'s' * (len(folders) > 1)}"
    note = f"{first} against {second}: {design} find a difference of {detectable:.1f} points with a chance of"
    out.print(note, f"{100 * chance:.0f} %", markup=False, soft_wrap=True)
    rows = (
        (row[0], *("never" if cell == float("inf") else f"{cell:,.0f}" for cell in row[1:]))
        for row in table.itertuples()
    )
    show((f"tasks for {abs(difference):g} points", *table.columns), rows)
    if spread.seeds is None:
        out.print(
            "From one training: the effect of another training seed is unknown and not counted.",
            soft_wrap=True,
        )
