"""Tasks on real applications, in ScienceBoard's format: its own files, and ours under data/tasks/apps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from coda_lib.action import Action, ActionError
from coda_lib.applications import APPLICATION_OF
from coda_lib.errors import UserError
from coda_lib.grammar import parse_actions
from coda_lib.paths import DATA
from coda_lib.task import GRADES, Task
from sciencedesk.board.files import BoardTask, load_board_task

FOLDER = DATA / "tasks" / "apps"


@dataclass(frozen=True)
class AppTask(Task):
    """A task in ScienceBoard's format; `board` is its file."""

    board: BoardTask | None = field(default=None, compare=False)


def board_task(board: BoardTask, name: str) -> AppTask:
    """The task of a file's content; the name, such as A-01, begins with its grade."""
    app, identity = APPLICATION_OF[board.type], f"{board.type}/{name}"
    about = (identity, app, name[:1], board.instruction, board.steps, (), (), board.ans)
    return AppTask(*about, board=board)


def app_task(path: Path) -> AppTask:
    """The task of a file such as KAlgebra/A-01.json.  UserError as in `load_board_task`, or for no grade."""
    board = load_board_task(path)
    if path.stem[:1] not in GRADES:
        raise UserError(f"{path}: the name must begin with the grade, one of {', '.join(GRADES)}")
    return board_task(board, path.stem)


def app_tasks(kind: str, folder: Path = FOLDER) -> list[AppTask]:
    """All tasks of an application such as KAlgebra, sorted by name."""
    return [app_task(path) for path in sorted((folder / kind).glob("*.json"))]


def solution(task: AppTask, size: tuple[int, int]) -> list[Action]:
    """The actions of a task's script on a screen (width, height).  UserError names an invalid task."""
    try:
        return [action for line in task.board.solution for action in parse_actions(line, size)]
    except ActionError as error:
        raise UserError(f"task {task.id}: solution: {error}") from error
