"""The commands `coda check`, `coda doctor` and `coda grounding`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit

from coda_lib.errors import UserError
from coda_study.cli.console import err, out, print_json, print_text, run_of, show
from coda_study.cli.options import JsonOption, ProfileOption, SettingsOption

if TYPE_CHECKING:
    from coda_lib.config import Profile
    from coda_study.run import Run


def check(
    run: Annotated[
        str | None, Argument(metavar="[RUN]", help="Compare this finished run of the check; do not make one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a tiny study in results/check, and compare it and the committed tables with expected values.

    Each line says ok or off; exit code 1 if one is off.
    """
    from coda_study.evaluation import check as values

    expected = values.load_expected(values.EXPECTED)
    made = run_of(run) if run else make()
    if made.profile() != wanted():
        raise UserError(
            f"run {made.name} has other settings than the check: leave its name out, and a run is made"
        )
    lines = [*values.compare_tables(), *values.compare(expected, values.measure(made))]
    off = sum(not line.ok for line in lines)
    if as_json:
        print_json([line._asdict() for line in lines])
    else:
        rows = (("ok" if line.ok else "off", *line[:4]) for line in lines)
        show(("", "what", "expected", "measured", "tolerance"), rows)
        out.print(f"\n{f'{off} of ' if off else 'all '}{len(lines)} lines are {'off' if off else 'ok'}")
        if off:
            note = (
                "off after others are ok: docs/reproducibility.md, 'A quick check', says what the lines mean"
            )
            print_text(f"expected values: commit {expected['commit']}, {expected['processor']}; {note}")
    if off:
        raise Exit(1)


def wanted() -> Profile:
    """The settings of the check."""
    from coda_lib.config import load_profile
    from coda_study.evaluation.check import PROFILE, SETTINGS

    return load_profile(PROFILE, SETTINGS)


def make() -> Run:
    """Run the study of the check from the beginning, in results/check; progress goes to standard error."""
    from coda_study.pipeline import drive
    from coda_study.run import Run
    from sciencedesk.env import desk_class

    desk_class("algebra")  # UserError now, not in the middle of the run, if Qt cannot be loaded
    made = Run("check")
    try:
        drive.reproduce(made, wanted(), drive.usable_cores(), fresh=True, console=err)
    except KeyboardInterrupt:
        err.print("stopped; the same command starts over")
        raise Exit(130) from None
    return made


def doctor(as_json: JsonOption = False) -> None:
    """Look at this host before an hour is spent: what it has, what each thing gives, how to get the others.

    Exit code 1 if something is missing that every profile needs.
    """
    from coda_study.doctor import findings

    found = list(findings())
    if as_json:
        print_json([finding._asdict() for finding in found])
    else:
        rows = []
        for one in found:
            state = "ok" if one.there else "missing" if one.needed else "without"
            rows.append((state, one.name, one.found, one.gives, "" if one.there else one.get))
        show(("", "what", "found", "gives", "how to get it"), rows)
    if any(one.needed and not one.there for one in found):
        raise Exit(1)


def grounding(
    profile: ProfileOption = "paper", settings: SettingsOption = None, as_json: JsonOption = False
) -> None:
    """Ask an executor to click known buttons: how many it hits, and if few, in which coordinates it writes.

    Exit code 1 if it does not write pixels of the picture that it is sent.
    """
    from coda_lib.config import load_profile
    from coda_lib.executor import Executor
    from coda_study.grounding import ADVICE, RIGHT, check_grounding

    model = Executor.load(load_profile(profile, tuple(settings or ())))
    found = check_grounding(model, model.model.resize_rule)
    advice = ADVICE.get(found.verdict, "no reading fits: is it an executor, and does it see the picture?")
    if as_json:
        print_json(asdict(found) | {"verdict": found.verdict, "advice": advice})
    else:
        rows = ((name, f"{hits} of {found.asked}") for name, hits in found.hits.items())
        show(("coordinates read as", "hits"), rows)
        print_text(f"{found.verdict or 'nothing fits'}: {advice}")
    if found.verdict != RIGHT:
        raise Exit(1)
