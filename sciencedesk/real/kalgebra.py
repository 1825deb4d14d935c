"""KAlgebra 22.12 of Debian 12: its state from AT-SPI, the points of its plots from its calculator."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

from coda_lib.errors import UserError
from sciencedesk.board.files import Equation
from sciencedesk.pyautogui import Call
from sciencedesk.real.accessibility import Accessibility, Control
from sciencedesk.real.app import App, number_or_text
from sciencedesk.real.kalgebra_scene import pairs, scene, view
from sciencedesk.real.themes import QT_STYLES

RESOLUTIONS = {"Poor": 416, "Normal": 832, "Fine": 1664, "Very Fine": 3328}  # menu entry: points of a plot
TABS = ("Calculator", "2D Graph", "3D Graph", "Dictionary")
STYLES = {"Lines": 2}  # the only one in ScienceBoard's task files
NEAR = 1e-6  # greatest distance of a point from a plot, relative to its coordinates
CALCULATE_S = 10.0  # for the calculator; a plot that takes longer counts as missing every point
_MARK = 731_593_000  # and up to 999 more: numbers between the answers
_PARAMETERS = re.compile(r"\(?([\w\s,]+?)\)?\s*->")
_EQUALS = re.compile(r"(?<![<>!:=])=(?!=)")
_MIXED = 0.3  # share of the selection's color
_SWATCH = 30  # px from the left edge of a plot's entry to the middle of its color


class KAlgebra(App):
    """State: tab, console (pairs of input and result), variables, plots (in the plane), shown (names of
    visible plots), surface, mode, resolution, style, grid, search (in the dictionary).
    """

    kind = "KAlgebra"
    sleeps = True  # its web view has timers
    needs = {
        "/usr/bin/kalgebra": "kalgebra", "/usr/bin/calgebra": "kalgebra",
        "/usr/libexec/at-spi-bus-launcher": "at-spi2-core",
    }  # fmt: skip
    defaults = {
        "tab": "Calculator", "mode": "Evaluate", "resolution": "Normal", "grid": True, "style": "Solid",
        "surface": "", "search": "",
    }  # fmt: skip
    accessibility: Accessibility | None = None  # of the display
    _list: Control | None = None  # the frame of the plots' list, read once a start

    def launch(self) -> int:
        if self.accessibility is None:
            self.accessibility = Accessibility(self.display.env["DBUS_SESSION_BUS_ADDRESS"])
        bus = self.accessibility
        # No sandbox, which root cannot have; a fixed order of the variables; AT-SPI for the console's page.
        env = {
            "QTWEBENGINE_DISABLE_SANDBOX": "1", "QT_HASH_SEED": "0",
            "QTWEBENGINE_CHROMIUM_FLAGS": "--force-renderer-accessibility",
        }  # fmt: skip
        command = ["/usr/bin/kalgebra"]
        if style := QT_STYLES[self.view.get("theme", "light")]:
            file = self.home / "run" / "style.qss"
            file.write_text(style)
            command += ["-stylesheet", str(file)]
        pid = self.display.start(command, env)

        def registered() -> tuple[str, str] | None:
            if (program := bus.program(pid)) and bus.controls(*program, depth=2).all("status bar"):
                return program
            bus.switch(False)  # a program that starts meanwhile may have missed the signal
            bus.switch(True)

        self.program, self._list = self.wait_until(registered, pid), None
        return pid

    def close(self) -> None:
        if self.accessibility:
            self.accessibility.close()
            self.accessibility = None
        super().close()

    def prepare(self, item: Any) -> None:
        match item.func:
            case "tab":
                self._turn_to(item.index)
            case "func_2d":
                self._plot(item.expr)
            case "func_3d":
                self._write(self._page(2).first("text"), item.expr)
            case "touch":
                self.place(item.path).write_text(item.text, encoding="utf-8")
            case _:
                super().prepare(item)

    def _plot(self, expression: str) -> None:
        """Add a plot in the plane, whose page is open."""
        self.accessibility.press(self._functions().first("page tab", "Add"))  # after a plot, the list is open
        self.settled()
        self._write(self._functions().all("text")[1], expression)

    def _write(self, control: Control, text: str) -> None:
        left, top, width, height = self.accessibility.box(control)
        if not text.isascii() or not text.isprintable():
            raise UserError(f"task {self.task.id}: {text!r} cannot be typed")
        calls: list[Call] = [
            ("click", (left + width // 2, top + height // 2), {}), ("hotkey", ("ctrl", "a"), {}),
            ("write", (text,), {}), ("press", ("enter",), {}),
        ]  # fmt: skip
        self.display.act(calls)
        self.settled()

    def set(self, key: str, value: Any) -> None:
        """`plots`, `surface`, `variables` (lines like a:=5), `tab`, `grid`, `resolution`, `style`, `mode`."""
        match key, value:
            case "plots", list():
                self._turn_to(1)
                for plot in value:
                    self._plot(str(plot))
            case "surface", str():
                self._turn_to(2)
                self._write(self._page(2).first("text"), value)
            case "variables", list():
                tab = TABS.index(self.state()["tab"])
                if tab:  # elsewhere its field takes nothing
                    self._turn_to(0)
                for line in value:
                    self._write(self._page(0).all("text")[0], str(line))
                if tab:
                    self._turn_to(tab)
            case "tab", str() if value in TABS:
                self._turn_to(TABS.index(value))
            case ("grid", bool()) | ("resolution" | "style" | "mode", str()):
                entry = "Grid" if key == "grid" else value
                self.accessibility.press(self.controls().first("menu item", entry))
                self.settled()
            case _:
                super().set(key, value)

    def _turn_to(self, tab: int) -> None:
        self.accessibility.press(view(self.controls()).first("page tab list").all("page tab")[tab])
        self.settled()

    def facts(self) -> dict[str, Any]:
        """The state, with the variables' values as numbers where they are numbers."""
        state = self.now()
        variables = state.get("variables", {})
        return state | {"variables": {name: number_or_text(value) for name, value in variables.items()}}

    def named(self) -> tuple[list[Any], str | None]:
        """Its controls, as it tells them to assistive technology; the state is read along with them."""
        elements, typing, self._state = scene(self)
        return elements, typing

    def way_to(self, name: str) -> dict[str, str] | None:
        """In a small window some tabs are scrolled away."""
        if name not in TABS:
            return None
        shown = [TABS.index(part.name) for part in self.elements() if part.name in TABS]
        if not shown or TABS.index(name) in shown:
            return None
        return {"click": "Scroll Right" if TABS.index(name) > max(shown) else "Scroll Left"}

    # -- state -----------------------------------------------------------------------------------------
    def controls(self) -> Control:
        """All its controls, without the entries of lists."""
        return self.accessibility.controls(*self.program, without=("list",))

    def _page(self, index: int) -> Control:
        return view(self.controls()).first("layered pane").children[index]

    def _functions(self) -> Control:
        self._list = self._list or self.controls().first("frame", "Functions")
        # not the whole window: it takes long
        return self.accessibility.controls(self._list.owner, self._list.path, without=("list",))

    def state(self) -> dict[str, Any]:
        return self.state_of(self.controls())

    @staticmethod
    def state_of(controls: Control) -> dict[str, Any]:
        """The state as its controls show it."""
        main, functions, variables = (controls.first("frame", f) for f in ("", "Functions", "Variables"))
        pages = view(controls).first("layered pane").children
        menus = {menu.name: menu.all("menu item") for menu in main.first("menu bar").children}
        chosen = {name: [entry.name for entry in menu if entry.checked] for name, menu in menus.items()}
        entries = pairs(functions.first("tree").all("tree item"))
        only = lambda names, among: next((name for name in names if name in among), None)  # noqa: E731
        return {
            "tab": view(controls).first("page tab list").name,
            "console": [_pair(paragraph) for paragraph in pages[0].all("paragraph")],
            "variables": {name.name: value.name for name, value in pairs(variables.all("tree item"))},
            "plots": [plot.name for _, plot in entries],
            "shown": [plot.name for name, plot in entries if name.checked],
            "surface": pages[2].first("text").text,
            "mode": only(("Calculate", "Evaluate"), chosen["Calculator"]),
            "resolution": only(RESOLUTIONS, chosen["2D Graph"]),
            "grid": "Grid" in chosen["2D Graph"],
            "style": only(("Dots", "Lines", "Solid"), chosen["3D Graph"]),
            "search": controls.first("frame", "Operations").first("text").text,
        }

    def variables(self) -> Mapping[str, str]:
        """Values from the table, complex ones from the console: the table shows their real part alone."""
        console = self.now().get("console", ())
        results = {line.partition(":=")[0]: result for line, result in console if ":=" in line}
        is_complex = {name: re.search(r"\bi\b", result) for name, result in results.items()}
        values = self.now().get("variables", {}).items()
        return {name: results[name] if is_complex.get(name) else value for name, value in values}

    def plots(self) -> int:
        return len(self.now().get("plots", ()))

    def functions(self, points: Sequence[Sequence[float]]) -> Sequence[Mapping[str, Any]]:
        """For each plot whether it goes through each point, and its style, as from ScienceBoard's server."""
        state = self.now()
        if not state:
            return []
        known = [f"{name}:={value}" for name, value in self.variables().items() if "->" in value]
        if len(points[0]) == 3:
            return [self._passes(state["surface"], points, known) | {"style": STYLES.get(state["style"])}]
        equations = [item for item in self.task.board.evaluate if isinstance(item, Equation) and item.value]
        colored = any("color" in equation.value for equation in equations)
        colors = self._colors() if colored else [None] * len(state["plots"])
        about, plots = {"res": RESOLUTIONS.get(state["resolution"])}, zip(state["plots"], colors, strict=True)
        return [self._passes(plot, points, known) | about | {"color": color} for plot, color in plots]

    def _passes(self, plot: str, points: Sequence[Sequence[float]], known: Sequence[str]) -> dict[str, bool]:
        if not re.search("->|=", plot):  # perhaps one that gives a function, such as diff(x^2:x)
            result = calculate([*known, plot])[-1]
            plot = result if "->" in result else plot
        questions = [question(plot, point) for point in points]
        answers = calculate([*known, *(line for line, _ in questions)])[len(known) :]
        rows = zip(points, answers, questions, strict=True)
        return {str(tuple(point)): _near(answer, expected) for point, answer, (_, expected) in rows}

    def _colors(self) -> list[str]:
        """The colors of the plots, from the picture of their list, which is opened for it."""
        self.accessibility.press(self._functions().first("page tab", "List"))
        picture = self.settled().astype(float)
        colors = []
        for name, plot in pairs(self._functions().first("tree").all("tree item")):
            left, top, _, height = self.accessibility.box(name)
            right = sum(self.accessibility.box(plot)[::2]) - 2
            color, behind = picture[top + height // 2, [left + _SWATCH, right]]
            if (behind < 255).any():  # Qt mixes the color of the selection into the icon of a selected entry
                color = (color - _MIXED * behind) / (1 - _MIXED)
            colors.append("#{:02x}{:02x}{:02x}".format(*(int(round(part)) for part in color.clip(0, 255))))
        return colors


def question(plot: str, point: Sequence[float]) -> tuple[str, float]:
    """A question for the calculator, and its answer if the plot goes through the point.

    A plot is a function (`x->x^2`, `y->y^2`, `(x, y)->x*y`) or an equation of x, y and z.
    """
    at = dict(zip("xyz", point, strict=False))
    if "->" not in plot and not _EQUALS.search(plot):  # KAlgebra's short form of a function
        names = [name for name in list(at)[:-1] if re.search(rf"\b{name}\b", plot)]
        plot = f"({', '.join(names)})->{plot}" if len(names) > 1 else f"{(names or 'x')[0]}->{plot}"
    if parameters := _PARAMETERS.match(plot):
        names = [name.strip() for name in parameters[1].split(",")]
        if not set(names) <= set(at):  # a function of an angle is evaluated as one of x
            names = list("xyz"[: len(names)])
        given = {name: at.get(name, 0.0) for name in names}
        expected = next((at[name] for name in at if name not in given), 0.0)
        return f"({plot})({', '.join(map(str, given.values()))})", expected
    left, _, right = _EQUALS.sub("\n", plot, count=1).partition("\n")
    # where there is no z, the equation gives the height of the surface
    free = len(point) == 3 and not re.search(r"\bz\b", plot)
    line = f"(({', '.join(at)})->({left})-({right or 0}))({', '.join(map(str, point))})"
    return line, point[-1] if free else 0.0


def calculate(lines: Sequence[str]) -> list[str]:
    """The answers of KAlgebra's calculator, one a line; empty texts if it takes too long."""
    if any("\n" in line for line in lines):
        raise ValueError("one line each")
    source = "".join(f"{line}\n{_MARK + index}\n" for index, line in enumerate(lines))
    try:
        program = ["/usr/bin/calgebra"]
        done = subprocess.run(program, input=source, capture_output=True, text=True, timeout=CALCULATE_S)
    except subprocess.TimeoutExpired:
        return [""] * len(lines)
    answers = re.split(rf"^{str(_MARK)[:-3]}\d\d\d$", done.stderr, flags=re.MULTILINE)  # it answers on stderr
    return [answer.strip() for answer in answers[:-1]]


def _near(answer: str, expected: float) -> bool:
    number = number_or_text(answer)  # a text is an error message
    return not isinstance(number, str) and isclose(number, expected, rel_tol=NEAR, abs_tol=NEAR)


def _pair(paragraph: Control) -> tuple[str, str]:
    """Input and result of an entry of the console."""
    links = [link.name for link in paragraph.all("link")]
    return links[0] if links else paragraph.name, links[1] if len(links) > 1 else ""
