"""KAlgebra's screen by names, from its accessibility tree: for walks and tests, never for the agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coda_lib.environment import EnvironmentFault
from sciencedesk.real.accessibility import Control

if TYPE_CHECKING:
    from sciencedesk.desk.elements import Element

_ROLES = {
    "push button": "button", "check box": "toggle", "menu item": "menu", "page tab": "tab", "text": "field",
    "spin box": "field",
}  # fmt: skip

_EDGE = 3  # px beside a button that scrolls tabs, where a click is the button's


def scene(app: Any) -> tuple[list[Element], str | None, dict[str, Any]]:
    """The elements of the present screen, the field with the keyboard's focus, and the state."""
    with app.awake():
        controls = app.controls()
        boxes = app.accessibility.boxes([part for part in controls if part.showing or part.role == "tree"])
        named = list(_named(boxes, controls))
    open_menus = [menu for menu in controls.all("popup menu") if menu.showing]
    on_menu = {control.path for menu in open_menus for control in menu}
    found, typing = [], None
    for name, role, text, control, box in named:
        middle = box[0] + box[2] / 2, box[1] + box[3] / 2
        covered = control.path not in on_menu and any(_holds(boxes[menu.path], middle) for menu in open_menus)
        if covered or not _holds((0, 0, *app.size), middle):
            continue
        found.append((name, role, box, text))
        if role == "field" and control.focused and typing is None:
            typing = name
    return app.elements_at(found), typing, app.state_of(controls)


Boxes = Mapping[str, tuple[int, int, int, int]]  # by the paths of controls, px of the screen
# name, role, text, control, box on the screen
_Named = tuple[str, str, str, Control, tuple[int, int, int, int]]


def _named(boxes: Boxes, controls: Control) -> Iterator[_Named]:
    main, functions, operations = (controls.first("frame", name) for name in ("", "Functions", "Operations"))
    pages = view(controls).first("layered pane").children
    texts = {"Console": pages[0], "Surface": pages[2], "Look for": operations}
    fields = {control.path: name for name, page in texts.items() for control in page.all("text")[:1]}
    plot_fields = zip(("Plot name", "Plot"), functions.all("text"), strict=False)
    fields |= {control.path: name for name, control in plot_fields}
    scrolling = {button.path for tabs in functions.all("page tab list") for button in tabs.all("push button")}
    menus = {menu.path for menu in main.first("menu bar").children}
    for tabs in controls.all("page tab list"):
        if tabs.showing:
            bar = boxes[tabs.path]
            scrolling_buttons = [boxes[button.path] for button in tabs.all("push button") if button.showing]
            buttons = [(x - _EDGE, y, w + 2 * _EDGE, h) for x, y, w, h in scrolling_buttons if w]
            for tab in tabs.all("page tab"):
                box = boxes[tab.path]
                middle = box[0] + box[2] / 2, box[1] + box[3] / 2
                if _holds(bar, middle) and not any(_holds(button, middle) for button in buttons):
                    yield tab.name, "tab", "selected" if tab.name == tabs.name else "", tab, box
    for name, plot in pairs(_entries(boxes, functions.first("tree"))):
        left, top, _, height = boxes[name.path]
        mark = "on" if name.checked else ""
        yield f"box of {plot.name}", "toggle", mark, name, (left + 2, top, height, height)
        yield plot.name, "row", "", plot, boxes[plot.path]
    for name, value in pairs(_entries(boxes, controls.first("frame", "Variables").first("tree"))):
        yield name.name, "value", value.name, value, boxes[value.path]
    for control in controls:
        name = fields.get(control.path, control.name)
        if not control.showing or control.role not in _ROLES or name in ("", "|"):
            continue
        if control.role == "page tab" or (control.role == "text" and control.path not in fields):
            continue
        role = _ROLES[control.role]
        if control.path in menus:
            name = f"{name} menu"
        elif control.path in scrolling:
            name = f"{name} of Functions"
        elif control.role == "menu item":
            role = "toggle" if control.checked else "button"
        box = boxes[control.path]
        if box[2] > 0 and box[3] > 0:
            yield name, role, control.text or ("on" if control.checked else ""), control, box


def _entries(boxes: Boxes, tree: Control) -> list[Control]:
    """The entries of a table that is visible; they claim to be showing even where the table is not."""
    return tree.all("tree item") if boxes[tree.path][2] else []


def _holds(box: tuple[int, int, int, int], point: tuple[float, float]) -> bool:
    return box[0] <= point[0] < box[0] + box[2] and box[1] <= point[1] < box[1] + box[3]


def view(controls: Control) -> Control:
    """The control with the four pages and their tabs, which 'Full Screen' moves to another window."""
    for control in controls:
        tabs = [child for child in control.children if child.role == "page tab list"]
        if any(child.all("page tab", "Calculator") for child in tabs):
            return control
    raise EnvironmentFault("KAlgebra shows no pages")


def pairs(items: Sequence[Control]) -> list[tuple[Control, Control]]:
    """The rows of a table of two columns."""
    return list(zip(items[::2], items[1::2], strict=True))
