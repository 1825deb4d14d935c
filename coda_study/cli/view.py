"""The command `coda view`: the episodes of runs and logs as a page that opens from the disk."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from coda_lib.errors import UserError
from coda_lib.files import require_file, require_folder
from coda_study.cli.console import applications, bars, print_text, run_of

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def view(
    sources: Annotated[
        list[str], Argument(metavar="RUN|FILE...", help="Runs, files of trajectories, logs of others.")
    ],
    save: Annotated[
        Path | None, Option(metavar="FILE.html|DIR", help="One file, or a folder with pictures beside it.")
    ] = None,
    apps: Annotated[
        list[str] | None, Option("--app", help="Only this application of a run; may be given twice.")
    ] = None,
    train_tasks: Annotated[
        int, Option(metavar="N", min=-1, help="Train tasks a planner and application; -1: all.")
    ] = 50,
) -> None:
    """Write a page of episodes: screens, plans, actions, votes, outcomes. It opens by double click and needs
    no network.

    That of one run is view.html in its folder, beside its report; any other, without --save, is view.html
    here.
    """
    from coda_lib.paths import display
    from coda_study.show.viewer import Evidence, read_logs, read_run, write_beside, write_folder, write_page

    chosen = [name for app in apps or () for name in applications(app)]
    runs = {source: run_of(source) for source in sources if _is_run(Path(source))}
    home = runs[sources[0]] if save is None and len(sources) == len(runs) == 1 else None
    target = save or Path("view.html")
    require, write = (
        (require_file, write_page) if target.suffix == ".html" else (require_folder, write_folder)
    )
    require(target)
    names = [runs[source].folder.name if source in runs else Path(source).name for source in sources]
    evidence, limit = Evidence(", ".join(names)), None if train_tasks < 0 else train_tasks
    with bars() as progress:
        for source, name in zip(sources, names, strict=True):
            prefix, bar = f"{name}: " if sources[1:] else "", progress.add_task(name, total=None)
            if source in runs:
                moved = partial(_move, progress, bar)
                read_run(runs[source], evidence, chosen, prefix, limit, moved)
            else:
                read_logs(Path(source), evidence, prefix)
    if not evidence.episodes:
        of_apps = f" of {', '.join(chosen)}" if chosen else ""
        raise UserError(f"{', '.join(sources)}: no episodes are kept there{of_apps}")
    page = write_beside(evidence, home) if home else write(evidence, target)
    for text in evidence.lacks:
        print_text(text)
    played = sum("steps" in episode for episode in evidence.episodes)
    counts = f"{len(evidence.episodes):,} episodes, {played:,} of them step by step"
    size = f"{len(evidence.pictures):,} screenshots, {page.stat().st_size / 1e6:.1f} MB"
    print_text(f"{display(page)}: {counts}, {size}")


def _move(progress: Progress, bar: TaskID, done: int, total: int) -> None:
    progress.update(bar, completed=done, total=total)


def _is_run(path: Path) -> bool:
    """Whether a source names a run: a folder with a profile, or no path at all."""
    return (path / "profile.yaml").is_file() or not path.exists()
