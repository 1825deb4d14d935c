"""ScienceBoard's own task files of KAlgebra, of both editions, as they are, on the local KAlgebra."""

from __future__ import annotations

import pytest
from app_tests import installed
from board_files import FILES, names

from coda_lib.action import Action
from coda_lib.trajectory import StopReason
from sciencedesk.board.tasks import app_task
from sciencedesk.real.kalgebra import KAlgebra

FOLDERS = {edition: folder for (edition, app), folder in FILES.items() if app == "KAlgebra"}
pytestmark = [
    pytest.mark.skipif(not installed("KAlgebra"), reason="KAlgebra is not installed"),
    pytest.mark.skipif(not FOLDERS, reason="SCIENCEBOARD_TASKS names no folder with KAlgebra's files"),
]
UNSOLVABLE = "B-02"  # KAlgebra 22.12 lets nobody remove a constant; the check itself works


def click(x: int, y: int) -> Action:
    return Action.click(x / 640, y / 480)


def edit(x: int, y: int) -> Action:
    return Action.double_click(x / 640, y / 480)


TYPE = Action.type_text
CONSOLE, PLANE, SPACE, TO_PLANE = click(150, 430), click(490, 60), click(300, 430), click(140, 37)
LOAD = [Action.hotkey("ctrl l"), TYPE("script.kal\n")]


def console(*lines: str) -> list[Action]:
    return [CONSOLE, *(TYPE(f"{line}\n") for line in lines)]


def plane(*plots: str) -> list[Action]:
    return [action for plot in plots for action in (click(427, 442), PLANE, TYPE(f"{plot}\n"))][1:]


def space(plot: str) -> list[Action]:
    return [SPACE, Action.hotkey("ctrl a"), TYPE(f"{plot}\n")]


SCRIPTS = {
    "A-01": console("p:=conjugate(1+i)"),
    "A-02": plane("ln(x)^2"),
    "A-03": space("x^2+y^2-z^2=1"),
    "A-04": [Action.fail()],
    "B-01": [TO_PLANE, *plane("x^2")],
    "B-03": [edit(460, 74), click(568, 413)],
    "B-04": [edit(460, 74), click(490, 95), click(490, 127), click(420, 413)],
    "B-05": [click(203, 10), click(210, 278)],
    "B-06": [click(283, 10), click(290, 111)],
    "B-07": space("(x,y)->sin(x^2)+sin(y^2)-e^(sin(x)+sin(y))"),
    "C-01": console("p:=log(3)/log(2)"),
    "C-02": console("p:=e^pi"),
    "C-03": [Action.answer("46368")],
    "C-04": console("p:=sum(1/n:n=1..20)"),
    "C-05": [*LOAD, *console("c:=scalarproduct(a,vector{root(3,2),2})", "p:=c[1]+c[2]")],
    "C-06": console("p:=abs(6-(-1))/root(3^2+4^2+5^2,2)"),
    "C-07": plane("diff(ln(x^2+1)+x^2-x:x)"),
    "C-08": plane("x^2-ln(x)-1", "x-1"),
    "C-09": [*LOAD, TO_PLANE, *plane("q->(r(2))(q)")],
    "C-10": plane("x->(x->1/x-ln(x))((x->(1+x^2)*e^x-1)(x))"),
    "C-11": plane("x=(y+2)*ln(y)"),
    "C-12": plane("(x^2+y^2)^2=32*(x^2-y^2)"),
    "C-13": plane("x->piecewise{x<=0?(x^2-x)*e^x-1,?(x^2+x)*e^(-x)-1}"),
    "C-14": space("x^2+y^2+z^2=8"),
    "C-15": space("x+y/2+z/3=1"),
    "C-16": space("3*x+y-z=2"),
    "C-17": space("x^2+y^2+z^2+2*x*z=1"),
    "D-01": [click(45, 37), *console("M:=ln(3)/3")],
    "D-02": [click(45, 37), *console("area:=pi*3*4")],
    "D-03": [Action.answer("4")],
}
CORRECTED = {  # what solves the tasks whose keys are wrong in the release
    "C-07": plane("diff(ln(x+1)+x^2-x:x)"),
    "C-12": plane("((x-1)^2+y^2)*((x+1)^2+y^2)=256"),
    "C-14": space("x^2+y^2+z^2=2"),
}


@pytest.fixture(scope="module")
def env():
    made = KAlgebra()
    yield made
    made.close()


def script(edition: str, name: str) -> list[Action]:
    return (SCRIPTS | CORRECTED if edition == "verified" else SCRIPTS)[name]


@pytest.mark.parametrize("edition", FOLDERS)
def test_all_files_are_accounted_for(edition):
    assert names(edition, "KAlgebra") == {*SCRIPTS, UNSOLVABLE}


@pytest.mark.parametrize("name", [*SCRIPTS, UNSOLVABLE])
@pytest.mark.parametrize("edition", FOLDERS)
def test_doing_nothing_fails_and_the_solution_counts(env, edition, name):
    if edition == "verified" and "release" in FOLDERS and name not in CORRECTED:
        pytest.skip("the same file as in the release")
    task = app_task(FOLDERS[edition] / f"{name}.json")
    env.reset(task)
    assert not env.check(StopReason.DONE)
    if name == UNSOLVABLE:
        return
    scripts = [(script(edition, name), True)]
    if edition == "verified" and name in CORRECTED:  # what the release's key wants is wrong now
        scripts.append((SCRIPTS[name], False))
    for actions, solves in scripts:
        env.reset(task)
        stop, answer = StopReason.DONE, None
        for action in actions:
            *_, info = env.step(action)
            stop, answer = info["stop"] or stop, info.get("answer")
        assert env.check(stop, answer) is solves, env.now()
