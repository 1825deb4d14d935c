"""The commands `coda episode` and `coda desk`: one task, played by the agent or by hand."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, prompt

from coda_lib.applications import ALL_APPS, DESKTOP_APPS
from coda_lib.errors import UserError
from coda_study.cli.console import applications, find_task, print_json, print_message, print_text
from coda_study.cli.evaluate import chosen_agent
from coda_study.cli.options import JsonOption, PlannerOption, ProfileOption, SeedOption, save_option

if TYPE_CHECKING:
    from coda_lib.task import Task
    from coda_lib.trajectory import Trajectory


def episode(
    task: Annotated[str, Argument(metavar="APP/TASK", help="As algebra/A-01; see `coda tasks list`.")],
    planner: PlannerOption = None,
    beside: Annotated[str | None, Option(help="A second planner, which plays the task as well.")] = None,
    profile: ProfileOption = "laptop",
    seed: SeedOption = None,
    save: Annotated[
        Path | None,
        save_option(
            "PNG|WEBP", "Write a picture of every step; as .webp a recording, two planners side by side."
        ),
    ] = None,
    watch: Annotated[
        Path | None, save_option("HTML", "Write a page that shows the episode while it is played.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Play one task and show plan and actions of each step."""
    from coda_lib.agent import resize_rule_of
    from coda_lib.config import load_profile
    from coda_lib.rollout import rollout
    from sciencedesk.make import environment

    settings, wanted = load_profile(profile), find_task(task)
    filmed = save is not None and save.suffix == ".webp"
    if beside and beside == planner:
        raise UserError(f"--planner and --beside are both {beside}: name two planners")
    if beside and save and not filmed:
        raise UserError(
            "two planners are shown side by side in a recording: give --save a name that ends with .webp"
        )
    if beside and watch:
        raise UserError("one episode can be watched: leave out --beside or --watch")
    seed, trajectories = settings.seed if seed is None else seed, {}
    for name in (planner, beside) if beside else (planner,):
        agent = chosen_agent(settings, name)
        make = partial(environment, wanted.app, resize_rule_of(agent) if wanted.app in DESKTOP_APPS else None)
        if watch:
            from coda_study.show.watch import Watched

            agent = Watched(agent, wanted, watch)
            print_message(f"open {watch} in a browser after the first step")
        (played,) = rollout(agent, [(wanted, 0)], make, seed, step_limit=settings.step_limit)
        trajectories[agent.name] = played
        if watch:
            agent.end(played)
    if as_json:
        first, *second = map(_record, trajectories.values())
        print_json({"task": wanted.id, "seed": seed} | first | ({"beside": second[0]} if second else {}))
    else:
        print_text(f"{wanted.id}: {wanted.instruction}")
        for name, trajectory in trajectories.items():
            if beside:
                print_text(f"planner {name}")
            for number, step in enumerate(_record(trajectory)["steps"], 1):
                print_text(f"{number:3} {step['plan']}\n    → {step['error'] or step['action']}")
            print_text(f"ended with {trajectory.stop}: {_outcome(wanted, trajectory.success)}")
    if save:
        from coda_lib.files import atomic_path, write_bytes
        from coda_study.show.film import film
        from coda_study.show.pictures import strip

        if filmed:
            write_bytes(save, film(trajectories))
        else:
            with atomic_path(save) as temporary:
                strip(next(iter(trajectories.values()))).savefig(temporary, format="png")
        print_message(f"wrote {save}")


def _record(trajectory: Trajectory) -> dict[str, Any]:
    """Stop, success, and plan, action and fault of each step of an episode."""
    from coda_lib.grammar import action_text

    steps = [
        {"plan": step.plan, "action": action_text(step.actions, step.image.size), "error": step.error}
        for step in trajectory.steps
    ]
    return {"stop": str(trajectory.stop), "success": trajectory.success, "steps": steps}


def desk(
    app_name: Annotated[str, Argument(metavar="APP", help=f"One of {', '.join(ALL_APPS)}.")],
    task: Annotated[
        str | None,
        Option(help="Start in the first state of this task, and say whether it is solved in the end."),
    ] = None,
) -> None:
    """Open an application of ScienceDesk as a window, to use it by hand."""
    (name,), wanted = applications(app_name, ALL_APPS), find_task(task) if task else None
    if wanted and wanted.app != name:
        raise UserError(f"task {wanted.id} is for {wanted.app}, not {name}")
    from sciencedesk.env import desk_class

    desk_class(name)  # UserError if Qt cannot be loaded
    from sciencedesk.env import by_hand

    if wanted:
        print_text(f"{wanted.id}: {wanted.instruction}\nclose the window when you have finished")
    solved = by_hand(name, wanted, ask=lambda: prompt("your answer", default="", show_default=False))
    if wanted:
        print_text(_outcome(wanted, solved))


def _outcome(task: Task, solved: bool | None) -> str:
    return "solved" if solved else f"not solved; the answer is {task.ans}" if task.ans else "not solved"
