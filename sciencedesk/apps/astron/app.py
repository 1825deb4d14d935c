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
from sciencedesk.desk.entries import Refusal
from sciencedesk.desk.widgets import Rows, Slider, shade

_DATE = ("Year", "Month", "Day", "Hour")
_SLOTS = 8  # entries of the Place menu, at most, below its lock
_STEPS = {"hourly": timedelta(hours=1), "daily": timedelta(days=1), "weekly": timedelta(days=7)}


def _seen(body: ephemeris.Place | None) -> dict[str, str]:
    """What the screen shows of a body; empty texts without one."""
    if body is None:
        return dict.fromkeys(("above", "magnitude", "distance"), "")
    distance = "-" if body.distance is None else f"{body.distance:.3g} au"
    above = "yes" if body.altitude > 0 else "no"
    return {"above": above, "magnitude": f"{body.magnitude:.1f}", "distance": distance}


def _magnitude(text: str) -> float:
    if not re.fullmatch(r"[0-5](\.[0-9])?|6", text):
        raise Refusal("Magnitude is a number from 0 to 6")
    return int(float(text)) if float(text).is_integer() else float(text)


class Astron(Desk):
    app = "astron"
    title = "Astron"
    defaults = {
        "tab": "Sky", "place": "Paris", "year": 2025, "month": 2, "day": 4, "hour": 18, "paused": False,
        "rate": "hourly", "locked": True, "constellations": False, "labels": True, "grid": False,
        "horizon": True, "ecliptic": False, "night": False, "limit": 4, "field": 180, "center": "",
        "selected": "", "marked": [], "measured": [], "computed": "", "scale": "inner", "show": "all",
        "stars": list(ephemeris.STARS), "cities": list(ephemeris.CITIES), "atlas": False, "entries": False,
        "fields": [30, 60, 120, 180],
    }  # fmt: skip

    def build(self) -> None:
        self._atlas = self.add_dialog("Place", 84, self._look_up, ["City"], lambda: [self.values["place"]])
        now = lambda: ephemeris.when_of(self.values)  # noqa: E731
        date = self.add_dialog("Date and hour (UT)", 152, self._set_date, _DATE, now)
        view = ("Constellations", "Labels", "Grid", "Horizon", "Ecliptic", "Night mode")
        limit = self.add_entry("Faintest stars", "Magnitude", "limit", _magnitude)
        self.add_menu("File", {"Reset": lambda: self.reset({})})
        self.add_menu("View", {name: (name.split()[0].lower(), True) for name in view} | {"Limit": limit})
        rates = {rate.capitalize(): ("rate", rate) for rate in _STEPS}
        self.add_menu("Time", {"Pause": ("paused", True)} | rates | {"Set date": date})
        slots = {f"Place {i}": partial(self._choose_place, i) for i in range(_SLOTS)}
        self._place_menu = self.add_menu("Place", {"Lock place": ("locked", True)} | slots)
        self._body_menu = self.add_menu("Body", {"Mark": self._mark, "Center": self._center})
        self.shortcuts = {"ctrl p": lambda: self.toggle("paused"), "ctrl g": lambda: self.toggle("grid")}

        self.chart = self.add("Sky", self.picture("Sky chart", draw_chart, chart_boxes), 4, 4, WIDTH, HEIGHT)
        self.on(self.chart.clicked, self._pick)
        self.on(self.chart.dragged, self._measure)
        self.add("Sky", self.button("Step", self._step), 230, 4, 100, 24)
        self.angle = self.add("Sky", self.label("Angle"), 232, 38, 98, 18)
        self.chosen = self.add("Sky", self.label("Object"), 232, 60, 98, 18)
        self.marks = self.add("Sky", self.label("Marks"), 232, 82, 98, 48)
        self.marks.setWordWrap(True)
        self.marks.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.date = self.add("Sky", self.field("Date", self._enter_date), 232, 132, 98, 22)
        self.view_field = self.add("Sky", Slider("Field", self.defaults["fields"], self), 228, 158, 106, 28)
        self.on(self.view_field.changed, partial(self.set, "field"))

        orbits = self.add("Orbits", self.picture("Orbit map", draw_orbits, orbit_boxes), 4, 4, 240, HEIGHT)
        self.on(orbits.clicked, self._pick_orbit)
        self.add("Orbits", self.choice("Inner", "scale", "inner"), 252, 4, 78, 24)
        self.add("Orbits", self.choice("Outer", "scale", "outer"), 252, 32, 78, 24)

        self.search = self.add("Objects", self.field("Search", self._find), 6, 6, 160, 24)
        self.search.setPlaceholderText("Search")
        self.list = self.add("Objects", Rows("Bodies", self, sortable=True), 6, 36, 160, 152)
        self.on(self.list.chosen, self._select)
        self.on(self.list.opened, lambda name: self._pick(name, "double"))
        for i, name in enumerate(("All", "Planets", "Stars", "Up now")):
            place = 176 + 78 * (i % 2), 6 + 28 * (i // 2)
            self.add("Objects", self.choice(name, "show", name.lower()), *place, 74, 24)
        self.count = self.add("Objects", self.label("Count"), 178, 74, 150, 18)
        self.found = self.add("Objects", self.label("Object"), 178, 96, 150, 18)

        names = ("Object", "In", "Magnitude", "Distance", "Above", "Rise", "Set")
        self.info = self.labels("Info", names, 8, 6, 158, 22)
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
        v, bodies = self.values, ephemeris.bodies_of(self.values)
        self.show_value(self.angle, f"{self._angle()}°" if v["measured"] else "-")
        self.show_value(self.chosen, v["selected"] or "-")
        self.show_value(self.found, v["selected"] or "-")
        self.show_value(self.marks, ", ".join(v["marked"]) or "-")
        rows = self._listed()
        self.list.fill(rows, v["selected"])
        for item in self.list.items():
            color = shade(self, "#111111") if bodies[item.text()].altitude > 0 else QColor("#9a9a9a")
            item.setForeground(shade(self, "#b45309", "#ff9a4d") if item.text() in v["marked"] else color)
        self.show_value(self.count, str(len(rows)))
        self._show_info(bodies.get(v["selected"]))
        self.view_field.ticks, self.view_field.value = v["fields"], v["field"]
        self._fill_places()
        for page, entry in (("Sky", self.date), ("Info", self.site)):
            entry.setPlaceholderText(entry.accessibleName())
            entry.setVisible(v["entries"] and v["tab"] == page)
        locked = ", locked" if v["locked"] else ""
        rate = "paused" if v["paused"] else v["rate"]
        date = f"{v['year']}-{v['month']:02}-{v['day']:02} {v['hour']:02} h"
        self.message(f"{v['place']}{locked}   {date}, {rate}")

    def _fill_places(self) -> None:
        slots = self._place_menu.findChildren(QPushButton)[1:]
        for button, name in zip(slots, self._places() + [""] * _SLOTS, strict=False):
            button.setText(name)
            button.setAccessibleName(name)
        self.offer(self._place_menu, ["Lock place", *self._places()])

    def _show_info(self, body: ephemeris.Place | None) -> None:
        rise, sets = self._passage()
        name, constellation = (self.values["selected"], body.constellation) if body else ("", "")
        texts = {"object": name, "in": constellation, **_seen(body), "rise": rise, "set": sets}
        for name, label in self.info.items():
            self.show_value(label, texts[name.lower()] or "-")

    def facts(self) -> dict[str, Any]:
        v, body = self.values, ephemeris.bodies_of(self.values).get(self.values["selected"])
        rise, sets = self._passage()
        return {
            "in": body.constellation if body else "", "count": len(self._listed()), **_seen(body),
            "angle": self._angle() if v["measured"] else "", "rise": rise, "set": sets,
        }  # fmt: skip

    # -- what the commands work on --------------------------------------------------------------------------

    def _angle(self) -> int:
        v = self.values
        return ephemeris.separation(*v["measured"], ephemeris.when_of(v), v["place"])

    def _listed(self) -> list[str]:
        bodies, show = ephemeris.bodies_of(self.values), self.values["show"]
        names = {"planets": list(ephemeris.PLANETS), "stars": self.values["stars"]}.get(show, list(bodies))
        return [name for name in names if show != "up now" or bodies[name].altitude > 0]

    def _passage(self) -> tuple[str, str]:
        v = self.values
        if not v["computed"]:
            return "", ""
        return ephemeris.passage(v["computed"], ephemeris.when_of(v), v["place"])[:2]

    def _places(self) -> list[str]:
        """What the Place menu has below the lock."""
        return [*self.values["cities"], *(["Other"] if self.values["atlas"] else [])]

    # -- commands -------------------------------------------------------------------------------------------

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
            place = self.chart.scaling.map(targets(View.of(self.values))[name])
            self.open_menu(self._body_menu, self.chart.mapTo(self, place))

    def _pick_orbit(self, name: str, button: str) -> None:
        if name in ephemeris.SOLAR:
            self._select(name)

    def _find(self) -> None:
        name, v = self.search.text().strip().capitalize(), self.values
        is_named = name in ephemeris.bodies_of(v)
        if not is_named and name not in ephemeris.CATALOGUE:
            raise Refusal("No such body")
        self.search.clear()
        v["show"] = "all"
        if not is_named:
            v["stars"] = v["stars"] + [name]
        self._select(name)

    def _selected_above_horizon(self) -> str:
        body = ephemeris.bodies_of(self.values).get(self.values["selected"])
        if body is None:
            raise Refusal("No body is selected")
        if body.altitude <= 0:
            raise Refusal("Below the horizon")
        return self.values["selected"]

    def _center(self) -> None:
        self.set("center", self._selected_above_horizon())

    def _mark(self) -> None:
        name = self._selected_above_horizon()
        if name not in self.values["marked"]:
            self.set("marked", self.values["marked"] + [name])

    def _measure(self, first: str, second: str, dx: float, dy: float) -> None:
        if first and second and first != second:
            self.set("measured", sorted([first, second]))

    def _compute(self) -> None:
        if not self.values["selected"]:
            raise Refusal("No body is selected")
        self.set("computed", self.values["selected"])

    def _travel(self, place: str) -> None:
        if self.values["locked"]:
            raise Refusal("The place is locked")
        self._change(place=place)

    def _choose_place(self, slot: int) -> None:
        name = self._places()[slot]
        if name == "Other":
            self.open_dialog(self._atlas)
        else:
            self._travel(name)

    def _look_up(self, texts: Mapping[str, str]) -> None:
        place = ephemeris.find_place(texts["City"])
        if place is None:
            raise Refusal("No such place")
        self._travel(place)

    def _enter_site(self) -> None:
        self._look_up({"City": self.site.text().strip()})
        self.site.clear()

    def _enter_date(self) -> None:
        """A date as in 2031-8-17."""
        year, _, rest = self.date.text().strip().partition("-")
        month, _, day = rest.partition("-")
        self._set_date({"Year": year, "Month": month, "Day": day, "Hour": str(self.values["hour"])})
        self.date.clear()

    def _step(self) -> None:
        if self.values["paused"]:
            raise Refusal("Time is paused")
        date = datetime(*ephemeris.when_of(self.values)) + _STEPS[self.values["rate"]]
        if date.year <= 2100:
            self._change_date(date)

    def _set_date(self, texts: Mapping[str, str]) -> None:
        if not self.values["paused"]:
            raise Refusal("Time is running")
        try:
            date = datetime(*(int(texts[name]) for name in _DATE))
        except (ValueError, OverflowError):
            raise Refusal("No such date") from None
        if not 1900 <= date.year <= 2100:
            raise Refusal("Year is from 1900 to 2100")
        self._change_date(date)

    def _change_date(self, date: datetime) -> None:
        self._change(year=date.year, month=date.month, day=date.day, hour=date.hour)
