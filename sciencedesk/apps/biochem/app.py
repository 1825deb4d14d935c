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

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from PySide6.QtGui import QBrush, QColor
from PySide6.QtWidgets import QFrame, QLabel, QPushButton

from sciencedesk.apps.biochem.molecules import ELEMENTS, MOLECULES, SHOWN, Structure, element
from sciencedesk.apps.biochem.pictures import (
    RADIUS,
    boxes,
    draw_measured,
    draw_scene,
    draw_shares,
    length_or_angle,
    opened,
    shown_atoms,
)
from sciencedesk.desk.desk import TAB_TOP, Desk
from sciencedesk.desk.widgets import Rows, Slider

_PALETTE = (  # the colours that a menu may offer; Qt knows those of no value above by name
    "Red", "Green", "Blue", "Orange", "Purple", "Yellow", "Cyan", "Pink", "Brown", "Teal", "Lime", "Navy", "Gold", "Violet",
    "Maroon", "Olive", "Coral", "Indigo", "Salmon", "Magenta", "Turquoise", "Khaki", "Plum", "Crimson", "Tan", "Orchid",
)  # fmt: skip


class Biochem(Desk):
    app = "biochem"
    title = "Biochem"
    defaults = {
        "tab": "Structure", "molecule": "", "marked": "", "pinned": "", "selected": [], "colors": {}, "styles": {},
        "charge": 0, "measured": [], "labels": True, "hydrogens": True, "bonds": True, "axes": False, "dark": False,
        "units": "Angstrom", "turn": 0, "title": "", "saved": {}, "library": SHOWN, "turns": [0, 60, 120, 180], "charge_limit": 3,
        "palette": ["Red", "Green", "Blue"], "kinds": ["Carbon", "Hydrogen", "Oxygen"], "files": ["Save", "Title", "Charge"],
        "tools": ["Distance", "Angle"], "fields": [], "note": "", "sample": 0,
    }  # fmt: skip

    def build(self) -> None:
        files = {"Save": lambda: self._ask(self._save), "Title": lambda: self.open_dialog(self._title),
                 "Charge": lambda: self._ask(self._charge), "Find": lambda: self.open_dialog(self._find)}  # fmt: skip
        self._files = self.add_menu("File", files)
        self.add_menu("View", {"Labels": ("labels", True), "Hydrogens": ("hydrogens", True), "Bonds": ("bonds", True),
                               "Axes": ("axes", True), "Dark": ("dark", True)})  # fmt: skip
        self._kinds = self._menu_of("Select", ("All", "None", *ELEMENTS.values()), self._select)
        self._menu_of("Style", RADIUS, lambda style: self._paint("styles", style))
        self._palette = self._menu_of(
            "Color", ("Element", *_PALETTE), lambda color: self._paint("colors", color)
        )
        self.add_menu("Units", {name: ("units", name) for name in ("Angstrom", "Picometer")})
        self.shortcuts = {"ctrl a": lambda: self._select("All")}
        self._save = self.add_dialog("Save", 84, self._set_name, ["Name"])
        self._title = self.add_dialog("Title", 84, lambda texts: self.set("title", texts["Text"]), ["Text"],
                                      lambda: {"Text": self.values["title"]})  # fmt: skip
        self._charge = self.add_dialog(
            "Charge", 84, self._set_charge, ["Charge"], lambda: {"Charge": self.values["charge"]}
        )
        self._find = self.add_dialog("Find", 84, self._open_named, ["Molecule"])
        self.heading = self._place(QLabel(self), 274, 1, 60, 19)
        self.badge = self._place(QLabel(self), 274, TAB_TOP + 3, 60, 18)

        self.scene = self.add("Structure", self.picture("Scene", draw_scene, boxes), 6, 4, 324, 156)
        self.scene.clicked.connect(lambda name, button: self._pick(name))
        self.scene.dragged.connect(lambda a, b, dx, dy: self._turn(dx))
        self.add("Structure", QLabel("Turn", self), 8, 160, 30, 20)
        self.slider = self.add("Structure", Slider("Turn", self.defaults["turns"], self), 38, 162, 292, 28)
        self.slider.changed.connect(lambda value: self.set("turn", value))

        self.list = self.add("Molecules", Rows("Molecule list", self), 6, 6, 196, 102)
        self.list.setSpacing(3)
        self.list.itemClicked.connect(lambda item: self.set("marked", item.text()))
        self.list.opened.connect(self._open)
        self.list.context.connect(
            lambda name: self.set("pinned", "" if name == self.values["pinned"] else name)
        )
        self.add("Molecules", self.button("Open", lambda: self._open(self.values["marked"])), 212, 6, 118, 26)
        self.now = self.add("Molecules", QLabel(self), 6, 120, 324, 28)
        self.pin = self.add("Molecules", QLabel(self), 6, 154, 324, 28)
        self.fields = {}  # by name: what was entered last, and the field itself
        for i, (name, enter) in enumerate({"Note": self._set_note, "Sample": self._set_sample}.items()):
            shown = self.add("Molecules", QLabel(self), 212, 34 + 38 * i, 122, 16)
            self.fields[name] = (
                shown,
                self.add("Molecules", self.field(name, enter), 212, 50 + 38 * i, 118, 20),
            )

        self.tools = [
            self.add(
                "Measure", self.button(name, lambda count=count: self._measure(count)), 6 + 84 * i, 6, 78, 26
            )
            for i, (name, count) in enumerate({"Distance": 2, "Angle": 3, "Torsion": 4}.items())
        ]
        self.chosen = self.add("Measure", QLabel(self), 6, 38, 324, 22)
        self.add("Measure", self.picture("Measured", draw_measured), 6, 64, 324, 96)
        self.result = self.add("Measure", self.label("Result"), 6, 164, 324, 26)

        rows = ("Name", "Formula", "Atom count", "Mass")
        self.info = [
            self.add("Info", self.label(name), 6, 6 + 28 * i, 324, 26) for i, name in enumerate(rows)
        ]
        self.ion = self.add("Info", QLabel(self), 6, 118, 324, 26)
        self.add("Info", self.picture("Mass shares", draw_shares), 6, 150, 324, 40)
        for label in (self.now, self.pin, self.result, self.ion, *self.info):
            label.setStyleSheet("font-size: 17px; background: white; padding-left: 4px;")

    def refresh(self) -> None:
        v, s = self.values, self._structure
        self._offer(self._files, v["files"])
        self._offer(self._kinds, ["All", "None", *v["kinds"]])
        self._offer(self._palette, ["Element", *v["palette"]])
        for button in self.tools:
            button.setVisible(v["tab"] == "Measure" and button.text() in v["tools"])
        for name, (shown, field) in self.fields.items():
            for widget in (shown, field):
                widget.setVisible(v["tab"] == "Molecules" and name in v["fields"])
            shown.setText(f"{name}: {v[name.lower()] or '-'}")
        self.list.fill(v["library"], v["marked"])
        for i, name in enumerate(v["library"]):
            self.list.item(i).setBackground(QBrush(QColor("#ffd000")) if name == v["pinned"] else QBrush())
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
        shown = shown_atoms(self.values)
        there = {*"CHON", *(element(name) for name in s.names)} if s else {*"CHON"}
        kinds = {"All": shown} | {
            word: [n for n in shown if element(n) == e] for e, word in ELEMENTS.items() if e in there
        }
        return {
            "formula": s.formula if s else "", "count": len(s.names) if s else 0, "mass": s.mass if s else 0,
            "chosen": len(v["selected"]), "result": self._result(),
            "tint": {k: _common(v["colors"], names, "Element") for k, names in kinds.items()},
            "look": {k: _common(v["styles"], names, "Stick") for k, names in kinds.items()},
        }  # fmt: skip

    def set(self, key: str, value: Any) -> None:
        if key == "hydrogens" and not value:
            self.values["selected"] = [name for name in self.values["selected"] if name[0] != "H"]
        super().set(key, value)

    def _menu_of(self, title: str, names: Iterable[str], act: Callable[[str], None]) -> QFrame:
        """A menu whose entries call the same function, each with its name."""
        return self.add_menu(title, {name: lambda name=name: act(name) for name in names})

    @staticmethod
    def _offer(menu: QFrame, names: Sequence[str]) -> None:
        """Show these entries of a menu, in this order, and hide the others."""
        for item in menu.findChildren(QPushButton):
            place = names.index(item.accessibleName()) if item.accessibleName() in names else None
            item.setVisible(place is not None)
            item.move(1, 1 + 19 * (place or 0))
        menu.resize(menu.width(), 2 + 19 * len(names))

    @property
    def _structure(self) -> Structure | None:
        return opened(self.values)

    def _result(self) -> str:
        """The last measurement as the screen shows it."""
        return (
            length_or_angle(*self.values["measured"][-1], self.values["units"])
            if self.values["measured"]
            else ""
        )

    @staticmethod
    def _badge(label: QLabel, text: str, color: str) -> None:
        label.setText(text)
        label.setStyleSheet(f"background: {color}; color: white; padding-left: 4px;" if text else "")

    # -- commands ----------------------------------------------------------------------------------------------------

    def _open(self, name: str) -> None:
        if not name:
            self.message("No molecule marked")
        else:
            fresh = {"selected": [], "colors": {}, "styles": {}, "charge": 0, "measured": []}
            self.change(**fresh, molecule=name, marked=name, tab="Structure")

    def _pick(self, name: str) -> None:
        if name:
            rest = [other for other in self.values["selected"] if other != name]
            self.set("selected", rest if name in self.values["selected"] else rest + [name])

    def _select(self, what: str) -> None:
        names = [
            name for name in shown_atoms(self.values) if what == "All" or ELEMENTS[element(name)] == what
        ]
        if names or what == "None":
            self.set("selected", names)
        else:
            self.message(f"{what}: nothing to select")

    def _paint(self, key: str, value: str) -> None:
        if not self.values["selected"]:
            self.message("Nothing is selected")
        else:
            self.set(key, self.values[key] | dict.fromkeys(self.values["selected"], value))

    def _turn(self, dx: float) -> None:
        ticks = self.slider.ticks
        place = ticks.index(self.values["turn"]) + (1 if dx > 0 else -1)
        self.set("turn", ticks[min(max(place, 0), len(ticks) - 1)])

    def _measure(self, count: int) -> None:
        names, s = self.values["selected"], self._structure
        if s is None or len(names) != count:
            self.message(f"{count} atoms are needed")
            return
        places = s.index(names)
        if count == 4 and not all(1 < s.atoms.get_angle(*three) < 179 for three in (places[:3], places[1:])):
            self.message("Three of these atoms lie on a line")  # there is no torsion
            return
        value = {2: s.atoms.get_distance, 3: s.atoms.get_angle, 4: s.atoms.get_dihedral}[count](*places)
        ends = names if names[0] < names[-1] else names[::-1]
        self.set("measured", self.values["measured"] + [["-".join(ends), round(float(value), 3)]])

    def _ask(self, dialog: QFrame) -> None:
        self.open_dialog(dialog) if self._structure else self.message("No molecule")

    def _set_name(self, texts: dict[str, str]) -> str | None:
        if not texts["Name"].isalnum():
            return "Name is one word"
        rest = {name: what for name, what in self.values["saved"].items() if name != texts["Name"]}
        self.set("saved", rest | {texts["Name"]: self.values["molecule"]})
        return None

    def _set_charge(self, texts: dict[str, str]) -> str | None:
        limit, text = self.values["charge_limit"], texts["Charge"]
        if text not in {f"{n:{sign}}" for n in range(-limit, limit + 1) for sign in ("", "+")} - {"+0"}:
            return f"Charge is a number from {-limit} to {limit}"
        self.set("charge", int(text))
        return None

    def _set_note(self) -> None:
        self.set("note", self.fields["Note"][1].text().strip())

    def _set_sample(self) -> None:
        text = self.fields["Sample"][1].text().strip()
        if text.isascii() and text.isdigit() and len(text) < 6:
            self.set("sample", int(text))
        else:
            self.message("Sample is a number of at most 5 digits")

    def _open_named(self, texts: dict[str, str]) -> str | None:
        name = {name.lower(): name for name in MOLECULES}.get(texts["Molecule"].lower())
        return self._open(name) if name else "There is no molecule of that name"


def _common(values: dict[str, str], names: list[str], default: str) -> str:
    """The value that all these atoms share; 'mixed' if they differ, '' without atoms."""
    found = {values.get(name, default) for name in names}
    return found.pop() if len(found) == 1 else "mixed" if found else ""
