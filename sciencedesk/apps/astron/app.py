"""Astron: sky and solar system at a date and place (`ephemeris.py`, `skychart.py`), for the naked-eye bodies.

What the interface does not say: the date can be set only while time is paused and stepped only while it runs,
a place is refused while places are locked (they are at the start), the chart centres on and marks only a
*selected* body above the horizon, and rise and set are shown once computed for the selected body, until body,
date or place change.

Which stars have a name, the cities of the menu and the ticks of the field of view are settings.  A search
names any star of the catalogue; with `atlas`, the menu has an entry for any place; with `entries`, there are
fields for a date and for a place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QPushButton

from sciencedesk.apps.astron import ephemeris
from sciencedesk.apps.astron.pictures import chart_boxes, draw_chart, draw_curve, draw_orbits, orbit_boxes
from sciencedesk.apps.astron.skychart import HEIGHT, WIDTH, View, targets
from sciencedesk.desk.desk import Desk
from sciencedesk.desk.widgets import Rows, Slider

_SLOTS = 8  # entries of the Place menu, at most, below its lock
_STEPS = {"hourly": timedelta(hours=1), "daily": timedelta(days=1), "weekly": timedelta(days=7)}


def _distance(place: ephemeris.Place) -> str:
    return "-" if place.distance is None else f"{place.distance:.3g} au"


class Astron(Desk):
    app = "astron"
    title = "Astron"
    defaults = {
        "tab": "Sky", "place": "Paris", "year": 2025, "month": 2, "day": 4, "hour": 18, "paused": False,
        "rate": "hourly", "locked": True, "constellations": False, "labels": True, "grid": False, "horizon": True,
        "ecliptic": False, "night": False, "limit": 4, "field": 180, "center": "", "selected": "", "marked": [],
        "measured": [], "computed": "", "scale": "inner", "show": "all", "stars": list(ephemeris.STARS),
        "cities": list(ephemeris.CITIES), "atlas": False, "entries": False, "fields": [30, 60, 120, 180],
    }  # fmt: skip

    def build(self) -> None:
        self.add_menu("File", {"Reset": lambda: self.reset({})})
        self.add_menu("View", {"Constellations": ("constellations", True), "Labels": ("labels", True),
                               "Grid": ("grid", True), "Horizon": ("horizon", True), "Ecliptic": ("ecliptic", True),
                               "Night mode": ("night", True),
                               "Limit": lambda: self.open_dialog(self._limit)})  # fmt: skip
        self.add_menu("Time", {"Pause": ("paused", True), "Hourly": ("rate", "hourly"), "Daily": ("rate", "daily"),
                               "Weekly": ("rate", "weekly"),
                               "Set date": lambda: self.open_dialog(self._date)})  # fmt: skip
        slots = {f"Place {i}": partial(self._choose_place, i) for i in range(_SLOTS)}
        self._place_menu = self.add_menu("Place", {"Lock place": ("locked", True)} | slots)
        self._body_menu = self.add_menu("Body", {"Mark": self._mark, "Center": self._center})
        self.shortcuts = {"ctrl p": lambda: self.set("paused", not self.values["paused"]),
                          "ctrl g": lambda: self.set("grid", not self.values["grid"])}  # fmt: skip
        self._limit = self.add_dialog("Faintest stars", 84, self._set_limit, ["Magnitude"],
                                      lambda: {"Magnitude": self.values["limit"]})  # fmt: skip
        self._atlas = self.add_dialog(
            "Place", 84, self._look_up, ["City"], lambda: {"City": self.values["place"]}
        )
        parts = ["Year", "Month", "Day", "Hour"]
        self._date = self.add_dialog("Date and hour (UT)", 152, self._set_date, parts,
                                     lambda: {name: self.values[name.lower()] for name in parts})  # fmt: skip

        self.chart = self.add("Sky", self.picture("Sky chart", draw_chart, chart_boxes), 4, 4, WIDTH, HEIGHT)
        self.chart.clicked.connect(self._pick)
        self.chart.dragged.connect(lambda a, b, dx, dy: self._measure(a, b))
        self.add("Sky", self.button("Step", self._step), 230, 4, 100, 24)
        self.angle = self.add("Sky", self.label("Angle"), 232, 38, 98, 18)
        self.chosen = self.add("Sky", self.label("Object"), 232, 60, 98, 18)
        self.marks = self.add("Sky", self.label("Marks"), 232, 82, 98, 54)
        self.marks.setWordWrap(True)
        self.marks.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.date = self.add("Sky", self.field("Date", self._enter_date), 232, 132, 98, 22)
        self.view_field = self.add("Sky", Slider("Field", self.defaults["fields"], self), 228, 158, 106, 28)
        self.view_field.changed.connect(lambda value: self.set("field", value))

        solar = self.add("Orbits", self.picture("Orbit map", draw_orbits, orbit_boxes), 4, 4, 240, HEIGHT)
        solar.clicked.connect(lambda name, button: self._select(name) if name in ephemeris.SOLAR else None)
        self.add("Orbits", self.choice("Inner", "scale", "inner"), 252, 4, 78, 24)
        self.add("Orbits", self.choice("Outer", "scale", "outer"), 252, 32, 78, 24)

        self.search = self.add("Objects", self.field("Search", self._find), 6, 6, 160, 24)
        self.search.setPlaceholderText("Search")
        self.list = self.add("Objects", Rows("Bodies", self), 6, 36, 160, 152)
        self.list.itemClicked.connect(lambda item: self._select(item.text()))
        self.list.opened.connect(self._open)
        for i, name in enumerate(("All", "Planets", "Stars", "Up now")):
            self.add(
                "Objects",
                self.choice(name, "show", name.lower()),
                176 + 78 * (i % 2),
                6 + 28 * (i // 2),
                74,
                24,
            )
        self.count = self.add("Objects", self.label("Count"), 178, 74, 150, 18)
        self.found = self.add("Objects", self.label("Object"), 178, 96, 150, 18)

        self.info = {name: self.add("Info", self.label(name), 8, 6 + 22 * i, 158, 18) for i, name in enumerate(
            ("Object", "In", "Magnitude", "Distance", "Above", "Rise", "Set"))}  # fmt: skip
        self.site = self.add("Info", self.field("Site", self._enter_site), 8, 160, 158, 24)
        self.add("Info", self.button("Compute", self._compute), 172, 6, 158, 24)
        self.add("Info", self.picture("Day curve", draw_curve), 172, 36, 158, 150)

    def reset(self, settings: Mapping[str, Any]) -> None:
        """Begin a new episode; the ticks of the field of view may be given in any order."""
        if "fields" in settings:
            ticks = {*settings["fields"], settings.get("field", self.defaults["field"])}
            settings = {**settings, "fields": sorted(ticks)}
        super().reset(settings)

    def refresh(self) -> None:
        v, here = self.values, ephemeris.here_of(self.values)
        self.show_value(self.angle, f"{self._angle()}°" if v["measured"] else "-")
        self.show_value(self.chosen, v["selected"] or "-")
        self.show_value(self.found, v["selected"] or "-")
        self.show_value(self.marks, ", ".join(v["marked"]) or "-")
        rows = self._listed()
        self.list.fill(rows, v["selected"])
        for i, name in enumerate(rows):
            color = "#b45309" if name in v["marked"] else "#111111" if here[name].altitude > 0 else "#9a9a9a"
            self.list.item(i).setForeground(QColor(color))
        self.show_value(self.count, str(len(rows)))
        self._show_info(here.get(v["selected"]))
        self.view_field.ticks, self.view_field.value = v["fields"], v["field"]
        self._fill_places()
        for page, entry in (("Sky", self.date), ("Info", self.site)):
            entry.setPlaceholderText(entry.accessibleName())
            entry.setVisible(v["entries"] and v["tab"] == page)
        locked = ", locked" if v["locked"] else ""
        run = "paused" if v["paused"] else v["rate"]
        self.message(
            f"{v['place']}{locked}   {v['year']}-{v['month']:02}-{v['day']:02} {v['hour']:02} h, {run}"
        )

    def _fill_places(self) -> None:
        places = self._places()
        for button, name in zip(
            self._place_menu.findChildren(QPushButton)[1:], places + [""] * _SLOTS, strict=False
        ):
            button.setText(name)
            button.setAccessibleName(name)
            button.setVisible(bool(name))
        self._place_menu.resize(self._place_menu.width(), 2 + 19 * (1 + len(places)))

    def _show_info(self, place: ephemeris.Place | None) -> None:
        v = self.values
        texts = dict.fromkeys(self.info, "-")
        if place:
            above = "yes" if place.altitude > 0 else "no"
            texts |= {"Object": v["selected"], "In": place.constellation, "Distance": _distance(place),
                      "Magnitude": f"{place.magnitude:.1f}", "Above": above}  # fmt: skip
        if v["computed"]:
            texts["Rise"], texts["Set"] = self._passage()
        for name, text in texts.items():
            self.show_value(self.info[name], text)

    def facts(self) -> dict[str, Any]:
        v, place = self.values, ephemeris.here_of(self.values).get(self.values["selected"])
        return {
            "in": place.constellation if place else "", "count": len(self._listed()),
            "above": ("yes" if place.altitude > 0 else "no") if place else "",
            "magnitude": f"{place.magnitude:.1f}" if place else "", "distance": _distance(place) if place else "",
            "angle": self._angle() if v["measured"] else "",
        } | dict(zip(("rise", "set"), self._passage(), strict=True))  # fmt: skip

    # -- what the commands work on -------------------------------------------------------------------------------------

    def _angle(self) -> int:
        return ephemeris.separation(
            *self.values["measured"], ephemeris.when_of(self.values), self.values["place"]
        )

    def _listed(self) -> list[str]:
        here, show = ephemeris.here_of(self.values), self.values["show"]
        names = {"planets": list(ephemeris.PLANETS), "stars": self.values["stars"]}.get(show, list(here))
        return [name for name in names if show != "up now" or here[name].altitude > 0]

    def _passage(self) -> tuple[str, str]:
        v = self.values
        return (
            ephemeris.passage(v["computed"], ephemeris.when_of(v), v["place"])[:2]
            if v["computed"]
            else ("", "")
        )

    def _places(self) -> list[str]:
        """What the Place menu has below the lock."""
        return [*self.values["cities"], *(["Other"] if self.values["atlas"] else [])]

    # -- commands ----------------------------------------------------------------------------------------------------

    def _change(self, **values: Any) -> None:
        """Change a value on which rise and set depend, and forget them."""
        if any(self.values[key] != value for key, value in values.items()):
            self.values |= values | {"computed": ""}
        self._show_values()

    def _select(self, name: str) -> None:
        self._change(selected=name)

    def _pick(self, name: str, button: str) -> None:
        if not name:
            return
        self._select(name)
        if button == "double":
            self._center()
        elif button == "right":
            self.open_menu(self._body_menu, self.chart.mapTo(self, targets(View.of(self.values))[name]))

    def _open(self, name: str) -> None:
        self._select(name)
        self._center()

    def _find(self) -> None:
        name = self.search.text().strip().capitalize()
        if name not in ephemeris.here_of(self.values) and name not in ephemeris.CATALOGUE:
            self.message("No such body")
        else:
            self.search.clear()
            self.values["show"] = "all"
            if name not in ephemeris.here_of(self.values):
                self.values["stars"] = self.values["stars"] + [name]
            self._select(name)

    def _ready(self) -> bool:
        """Whether a body above the horizon is selected; the status line says why not."""
        place = ephemeris.here_of(self.values).get(self.values["selected"])
        if place is None:
            self.message("No body is selected")
        elif place.altitude <= 0:
            self.message("Below the horizon")
        return place is not None and place.altitude > 0

    def _center(self) -> None:
        if self._ready():
            self.set("center", self.values["selected"])

    def _mark(self) -> None:
        name = self.values["selected"]
        if self._ready() and name not in self.values["marked"]:
            self.set("marked", self.values["marked"] + [name])

    def _measure(self, first: str, second: str) -> None:
        if first and second and first != second:
            self.set("measured", sorted([first, second]))

    def _compute(self) -> None:
        if self.values["selected"]:
            self.set("computed", self.values["selected"])
        else:
            self.message("No body is selected")

    def _travel(self, city: str) -> None:
        if self.values["locked"]:
            self.message("The place is locked")
        else:
            self._change(place=city)

    def _choose_place(self, slot: int) -> None:
        name = self._places()[slot]
        if name == "Other":
            self.open_dialog(self._atlas)
        else:
            self._travel(name)

    def _look_up(self, texts: dict[str, str]) -> str | None:
        place = ephemeris.find_place(texts["City"])
        if place is None or self.values["locked"]:
            return "The place is locked" if place else "No such place"
        self._travel(place)
        return None

    def _enter_site(self) -> None:
        if problem := self._look_up({"City": self.site.text().strip()}):
            self.message(problem)
        else:
            self.site.clear()

    def _enter_date(self) -> None:
        """A date as in 2031-8-17."""
        year, _, rest = self.date.text().strip().partition("-")
        month, _, day = rest.partition("-")
        if problem := self._set_date(
            {"Year": year, "Month": month, "Day": day, "Hour": str(self.values["hour"])}
        ):
            self.message(problem)
        else:
            self.date.clear()

    def _set_limit(self, texts: dict[str, str]) -> str | None:
        if not re.fullmatch(r"[0-5](\.[0-9])?|6", texts["Magnitude"]):
            return "Magnitude is a number from 0 to 6"
        magnitude = float(texts["Magnitude"])
        self.set("limit", int(magnitude) if magnitude.is_integer() else magnitude)
        return None

    def _step(self) -> None:
        if self.values["paused"]:
            self.message("Time is paused")
            return
        date = datetime(*ephemeris.when_of(self.values)) + _STEPS[self.values["rate"]]
        if date.year <= 2100:
            self._change(year=date.year, month=date.month, day=date.day, hour=date.hour)

    def _set_date(self, texts: dict[str, str]) -> str | None:
        if not self.values["paused"]:
            return "Time is running"
        try:
            date = datetime(*(int(texts[name]) for name in ("Year", "Month", "Day", "Hour")))
        except (ValueError, OverflowError):
            return "No such date"
        if not 1900 <= date.year <= 2100:
            return "Year is from 1900 to 2100"
        self._change(year=date.year, month=date.month, day=date.day, hour=date.hour)
        return None
