"""Biochem: a viewer of small molecules (`molecules.py`); ASE computes what is measured.

What the interface does not say: a molecule must be opened (double click, or mark it and press Open) before
anything can be done with it, and opening one forgets the selection, colours, styles, charge and measurements
of the last; colours and styles apply to the selection only; a distance needs exactly two selected atoms and
an angle exactly three, the second one being its vertex; atoms can be clicked only while their labels are
shown; hidden hydrogens leave the selection and cannot be selected.

Which molecules, colours, elements, commands and fields there are is in the settings `library`, `palette`,
`kinds`, `files`, `tools` and `fields`, the ticks of the slider in `turns`, the largest charge in
`charge_limit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from PySide6.QtGui import QBrush
from PySide6.QtWidgets import QLabel

from sciencedesk.apps.biochem import pictures
from sciencedesk.apps.biochem.molecules import ELEMENTS, MOLECULES, SHOWN, Structure, element
from sciencedesk.apps.biochem.pictures import length_or_angle, opened, shown_atoms
from sciencedesk.desk.desk import TAB_TOP, Desk
from sciencedesk.desk.entries import Refusal
from sciencedesk.desk.widgets import Field, Popup, Rows, Slider, shade

_PALETTE = (  # the colours that a menu may offer; Qt knows those of no value above by name
    "Red", "Green", "Blue", "Orange", "Purple", "Yellow", "Cyan", "Pink", "Brown", "Teal", "Lime", "Navy",
    "Gold", "Violet", "Maroon", "Olive", "Coral", "Indigo", "Salmon", "Magenta", "Turquoise", "Khaki", "Plum",
    "Crimson", "Tan", "Orchid",
)  # fmt: skip


class Biochem(Desk):
    app = "biochem"
    title = "Biochem"
    defaults = {
        "tab": "Structure", "molecule": "", "marked": "", "pinned": "", "selected": [], "colors": {},
        "styles": {}, "charge": 0, "measured": [], "labels": True, "hydrogens": True, "bonds": True,
        "axes": False, "dark": False, "units": "Angstrom", "turn": 0, "title": "", "saved": {},
        "library": SHOWN, "turns": [0, 60, 120, 180], "charge_limit": 3, "palette": ["Red", "Green", "Blue"],
        "kinds": ["Carbon", "Hydrogen", "Oxygen"], "files": ["Save", "Title", "Charge"],
        "tools": ["Distance", "Angle"], "fields": [], "note": "", "sample": 0,
    }  # fmt: skip

    def build(self) -> None:
        save = self.add_dialog("Save", 84, self._set_name, ["Name"])
        charge = self.add_entry("Charge", "Charge", "charge", self._charge_of)
        self._files = self.add_menu("File", {
            "Save": partial(self._ask, save), "Title": self.add_entry("Title", "Text", "title", str),
            "Charge": partial(self._ask, charge),
            "Find": self.add_dialog("Find", 84, self._open_named, ["Molecule"]),
        })  # fmt: skip
        view = ("Labels", "Hydrogens", "Bonds", "Axes", "Dark")
        self.add_menu("View", {name: (name.lower(), True) for name in view})
        self._kinds = self._menu_of("Select", ("All", "None", *ELEMENTS.values()), self._select)
        self._menu_of("Style", pictures.RADIUS, partial(self._paint, "styles"))
        self._palette = self._menu_of("Color", ("Element", *_PALETTE), partial(self._paint, "colors"))
        self.add_menu("Units", {name: ("units", name) for name in ("Angstrom", "Picometer")})
        self.shortcuts = {"ctrl a": partial(self._select, "All")}
        self.heading = self._place(QLabel(self), 274, 1, 60, 19)
        self.badge = self._place(QLabel(self), 274, TAB_TOP + 3, 60, 18)

        scene = self.picture("Scene", pictures.draw_scene, pictures.boxes)
        self.scene = self.add("Structure", scene, 6, 4, 324, 156)
        self.on(self.scene.clicked, self._pick)
        self.on(self.scene.dragged, self._turn)
        self.add("Structure", QLabel("Turn", self), 8, 160, 30, 20)
        self.slider = self.add("Structure", Slider("Turn", self.defaults["turns"], self), 38, 162, 292, 28)
        self.on(self.slider.changed, partial(self.set, "turn"))

        self.list = self.add("Molecules", Rows("Molecule list", self, sortable=True), 6, 6, 196, 102)
        self.list.setSpacing(3)
        self.on(self.list.chosen, partial(self.set, "marked"))
        self.on(self.list.opened, self._open)
        self.on(self.list.context, self._pin)
        self.add("Molecules", self.button("Open", lambda: self._open(self.values["marked"])), 212, 6, 118, 26)
        self.now = self.add("Molecules", QLabel(self), 6, 120, 324, 28)
        self.pin = self.add("Molecules", QLabel(self), 6, 154, 324, 28)
        self.fields: dict[str, tuple[QLabel, Field]] = {}  # what was entered last, and the field itself
        for i, name in enumerate(("Note", "Sample")):
            shown = self.add("Molecules", QLabel(self), 212, 34 + 38 * i, 122, 16)
            field = self.field(name, partial(self._enter, name))
            self.fields[name] = shown, self.add("Molecules", field, 212, 50 + 38 * i, 118, 20)

        self.tools = []
        for i, (name, count) in enumerate({"Distance": 2, "Angle": 3, "Torsion": 4}.items()):
            button = self.button(name, partial(self._measure, count))
            self.tools.append(self.add("Measure", button, 6 + 84 * i, 6, 78, 26))
        self.chosen = self.add("Measure", QLabel(self), 6, 38, 324, 22)
        self.add("Measure", self.picture("Measured", pictures.draw_measured), 6, 64, 324, 96)
        self.result = self.add("Measure", self.label("Result"), 6, 164, 324, 26)

        names = ("Name", "Formula", "Atom count", "Mass")
        self.info = [self.add("Info", self.label(n), 6, 6 + 28 * i, 324, 26) for i, n in enumerate(names)]
        self.ion = self.add("Info", QLabel(self), 6, 118, 324, 26)
        self.add("Info", self.picture("Mass shares", pictures.draw_shares), 6, 150, 324, 40)
        for label in (self.now, self.pin, self.result, self.ion, *self.info):
            label.setStyleSheet("font-size: 17px; background: white; color: black; padding-left: 4px;")

    def refresh(self) -> None:
        v, s = self.values, self._structure
        self.offer(self._files, v["files"])
        self.offer(self._kinds, ["All", "None", *v["kinds"]])
        self.offer(self._palette, ["Element", *v["palette"]])
        for button in self.tools:
            button.setVisible(v["tab"] == "Measure" and button.text() in v["tools"])
        for name, (shown, field) in self.fields.items():
            for widget in (shown, field):
                widget.setVisible(v["tab"] == "Molecules" and name in v["fields"])
            shown.setText(f"{name}: {v[name.lower()] or '-'}")
        self.list.fill(v["library"], v["marked"])
        for item in self.list.items():
            pinned = item.text() == v["pinned"]
            item.setBackground(QBrush(shade(self, "#ffd000", "#7a5c00")) if pinned else QBrush())
        self.now.setText(f"Opened: {v['molecule'] or '-'}")
        self.pin.setText(f"Pinned: {v['pinned'] or '-'}")
        self.chosen.setText(f"Selected: {' '.join(v['selected']) or '-'}")
        self.show_value(self.result, self._result() or "-")
        texts = (v["molecule"], s.formula, len(s.names), s.mass) if s else ("-",) * 4
        for label, text in zip(self.info, texts, strict=True):
            self.show_value(label, str(text))
        self.ion.setText(f"Charge: {v['charge']:+d}" if s else "Charge: -")
        self._badge(self.heading, v["title"], "#8250df")
        self._badge(self.badge, next(reversed(v["saved"]), ""), "#1a7f37")
        self.slider.ticks, self.slider.value = sorted({0, v["turn"], *v["turns"]}), v["turn"]
        saved = f", saved {' '.join(v['saved'])}" if v["saved"] else ""
        self.message(f"{v['molecule'] or 'No molecule'}, {len(v['selected'])} selected, {v['units']}{saved}")

    def facts(self) -> dict[str, Any]:
        v, s = self.values, self._structure
        shown = shown_atoms(v)
        symbols = {*"CHON", *map(element, s.names if s else ())}
        words = {symbol: word for symbol, word in ELEMENTS.items() if symbol in symbols}
        atoms = {word: [n for n in shown if element(n) == symbol] for symbol, word in words.items()}
        atoms = {"All": shown, **atoms}
        formula, count, mass = (s.formula, len(s.names), s.mass) if s else ("", 0, 0)
        return {
            "formula": formula, "count": count, "mass": mass,
            "chosen": len(v["selected"]), "result": self._result(),
            "tint": {word: _common(v["colors"], names, "Element") for word, names in atoms.items()},
            "look": {word: _common(v["styles"], names, "Stick") for word, names in atoms.items()},
        }  # fmt: skip

    def set(self, key: str, value: Any) -> None:
        if key == "hydrogens" and not value:
            self.values["selected"] = [name for name in self.values["selected"] if name[0] != "H"]
        super().set(key, value)

    def _menu_of(self, title: str, names: Iterable[str], act: Callable[[str], None]) -> Popup:
        """A menu whose entries carry out the same command, each with its name."""
        return self.add_menu(title, {name: partial(act, name) for name in names})

    @property
    def _structure(self) -> Structure | None:
        return opened(self.values)

    def _result(self) -> str:
        """The last measurement as the screen shows it."""
        v = self.values
        return length_or_angle(*v["measured"][-1], v["units"]) if v["measured"] else ""

    @staticmethod
    def _badge(label: QLabel, text: str, color: str) -> None:
        label.setText(text)
        label.setStyleSheet(f"background: {color}; color: white; padding-left: 4px;" if text else "")

    # -- commands -------------------------------------------------------------------------------------------

    def _open(self, name: str) -> None:
        if not name:
            raise Refusal("No molecule marked")
        fresh = {"selected": [], "colors": {}, "styles": {}, "charge": 0, "measured": []}
        self.change(**fresh, molecule=name, marked=name, tab="Structure")

    def _open_named(self, texts: dict[str, str]) -> None:
        names = {name.lower(): name for name in MOLECULES}
        if texts["Molecule"].lower() not in names:
            raise Refusal("There is no molecule of that name")
        self._open(names[texts["Molecule"].lower()])

    def _pin(self, name: str) -> None:
        self.set("pinned", "" if name == self.values["pinned"] else name)

    def _pick(self, name: str, button: str) -> None:
        if name:
            rest = [other for other in self.values["selected"] if other != name]
            self.set("selected", rest if name in self.values["selected"] else rest + [name])

    def _select(self, what: str) -> None:
        names = [n for n in shown_atoms(self.values) if what in ("All", ELEMENTS[element(n)])]
        if not names and what != "None":
            raise Refusal(f"{what}: nothing to select")
        self.set("selected", names)

    def _paint(self, key: str, value: str) -> None:
        if not self.values["selected"]:
            raise Refusal("Nothing is selected")
        self.set(key, self.values[key] | dict.fromkeys(self.values["selected"], value))

    def _turn(self, start: str, end: str, dx: float, dy: float) -> None:
        ticks = self.slider.ticks
        place = ticks.index(self.values["turn"]) + (1 if dx > 0 else -1)
        self.set("turn", ticks[min(max(place, 0), len(ticks) - 1)])

    def _measure(self, count: int) -> None:
        names, s = self.values["selected"], self._structure
        if s is None or len(names) != count:
            raise Refusal(f"{count} atoms are needed")
        atoms = s.index(names)
        if count == 4 and not all(1 < s.atoms.get_angle(*three) < 179 for three in (atoms[:3], atoms[1:])):
            raise Refusal("Three of these atoms lie on a line")  # there is no torsion
        value = {2: s.atoms.get_distance, 3: s.atoms.get_angle, 4: s.atoms.get_dihedral}[count](*atoms)
        ordered = names if names[0] < names[-1] else names[::-1]
        self.set("measured", self.values["measured"] + [["-".join(ordered), round(float(value), 3)]])

    def _ask(self, dialog: Popup) -> None:
        if not self._structure:
            raise Refusal("No molecule")
        self.open_dialog(dialog)

    def _set_name(self, texts: dict[str, str]) -> None:
        if not texts["Name"].isalnum():
            raise Refusal("Name is one word")
        rest = {name: what for name, what in self.values["saved"].items() if name != texts["Name"]}
        self.set("saved", rest | {texts["Name"]: self.values["molecule"]})

    def _charge_of(self, text: str) -> int:
        limit = self.values["charge_limit"]
        charges = range(-limit, limit + 1)
        if text not in {str(n) for n in charges} | {f"{n:+d}" for n in charges if n}:
            raise Refusal(f"Charge is a number from {-limit} to {limit}")
        return int(text)

    def _enter(self, name: str) -> None:
        text = self.fields[name][1].text().strip()
        if name == "Sample" and not (text.isascii() and text.isdigit() and len(text) < 6):
            raise Refusal("Sample is a number of at most 5 digits")
        self.set(name.lower(), int(text) if name == "Sample" else text)


def _common(values: dict[str, str], names: list[str], default: str) -> str:
    """The value that all these atoms share; 'mixed' if they differ, '' without atoms."""
    found = {values.get(name, default) for name in names}
    return found.pop() if len(found) == 1 else "mixed" if found else ""
