"""Astron: sky and solar system at a date and place, for the naked-eye bodies; PyEphem computes.

What the interface does not say: the date can be set only while time is paused and stepped only while it runs, a place
is refused while places are locked (they are at the start), the chart centres on and marks only a *selected* body above
the horizon, and rise and set are shown once computed for the selected body, until body, date or place change.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import ephem
import ephem.cities
import ephem.stars
import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QPushButton

from coda_lib.envs.sciencedesk.desk import Desk
from coda_lib.envs.sciencedesk.widgets import Canvas, Rows, Slider

_PLANETS = {"Mercury": "#a8a29e", "Venus": "#fde68a", "Mars": "#f0562b", "Jupiter": "#e9b872", "Saturn": "#c9d65a"}
_COLORS = {"Sun": "#ffd400", "Moon": "#ffffff", **_PLANETS, "Earth": "#3b8beb"}
_STARS = ("Polaris", "Sirius", "Vega")
_BODIES = ("Sun", "Moon", *_PLANETS, *_STARS)
_STEPS = {"hourly": timedelta(hours=1), "daily": timedelta(days=1), "weekly": timedelta(days=7)}
_CITIES = ("Paris", "Tokyo", "Sydney", "Cairo")
_FIGURES = (  # lines between stars that ephem knows
    "Dubhe Merak Phecda Megrez Alioth Mizar Alkaid", "Megrez Dubhe", "Mintaka Alnilam Alnitak",
    "Castor Pollux Alhena Castor",
    "Rigel Mintaka Bellatrix Betelgeuse Alnitak Saiph Rigel", "Markab Scheat Alpheratz Algenib Markab", "Caph Schedar",
    "Alpheratz Mirach Almach", "Capella Menkalinan Elnath Capella", "Regulus Algieba Denebola Regulus", "Mirfak Algol",
    "Mirzam Sirius Wezen Adhara", "Vega Deneb Altair Vega", "Elnath Aldebaran Alcyone", "Hamal Menkar",
    "Kochab Polaris", "Acrux Gacrux",
)  # fmt: skip
_WIDTH, _HEIGHT, _RADIUS = 220, 184, 86  # px: the sky chart and its circle
When = tuple[int, int, int, int]  # year, month, day, hour (UT)


class Place(NamedTuple):
    """Where a body is and how it looks; angles in degrees, distances in au (None for a star)."""

    altitude: float
    azimuth: float
    magnitude: float
    constellation: str
    distance: float | None


def _body(name: str) -> ephem.Body:
    return getattr(ephem, name)() if name in _COLORS else ephem.star(name)


def _observer(when: When, city: str) -> ephem.Observer:
    observer = ephem.city(city)
    observer.date = datetime(*when)
    return observer


@lru_cache(maxsize=512)
def sky(when: When, city: str) -> dict[str, Place]:
    """All named bodies at a date and place."""
    observer, found = _observer(when, city), {}
    for name in _BODIES:
        body = _body(name)
        body.compute(observer)
        found[name] = Place(
            math.degrees(body.alt), math.degrees(body.az), body.mag, ephem.constellation(body)[1],
            body.earth_distance if name in _COLORS else None,
        )  # fmt: skip
    return found


@lru_cache(maxsize=64)
def _stars(when: When, city: str) -> dict[str, tuple[float, float, float]]:
    """Altitude and azimuth in degrees and magnitude of every star that ephem knows."""
    observer, found = _observer(when, city), {}
    for name in ephem.stars.stars:
        star = ephem.star(name)
        star.compute(observer)
        found[name] = math.degrees(star.alt), math.degrees(star.az), star.mag
    return found


@lru_cache(maxsize=512)
def passage(name: str, when: When, city: str) -> tuple[str, str, tuple[float, ...]]:
    """Next rise and set as 'hh:mm' UT (or 'never') and the altitude in degrees at the 24 hours from `when` on."""
    times = []
    for event in (ephem.Observer.next_rising, ephem.Observer.next_setting):
        try:
            times.append(event(_observer(when, city), _body(name)).datetime().strftime("%H:%M"))
        except ephem.CircumpolarError:
            times.append("never")
    observer, body, altitudes = _observer(when, city), _body(name), []
    start = observer.date
    for hour in range(25):
        observer.date = start + hour / 24
        body.compute(observer)
        altitudes.append(math.degrees(body.alt))
    return times[0], times[1], tuple(altitudes)


@lru_cache(maxsize=512)
def separation(first: str, second: str, when: When, city: str) -> int:
    """Angle between two bodies in the sky, whole degrees."""
    a, b = (sky(when, city)[name] for name in (first, second))
    radians = [tuple(map(math.radians, (body.azimuth, body.altitude))) for body in (a, b)]
    return round(math.degrees(ephem.separation(*radians)))


@lru_cache(maxsize=256)
def _orbits(when: When) -> dict[str, tuple[float, float]]:
    """Heliocentric longitude in radians and distance in au of the Earth and the planets."""
    date, found = ephem.Date(datetime(*when)), {}
    for name in ("Earth", *_PLANETS):
        body = _body("Sun" if name == "Earth" else name)
        body.compute(date)
        found[name] = float(body.hlon), body.earth_distance if name == "Earth" else body.sun_distance
    return found


class View(NamedTuple):
    """What the sky chart's picture depends on, apart from the selected and marked bodies."""

    when: When
    city: str
    center: str
    field: int  # degrees across the circle
    limit: int  # faintest magnitude
    constellations: bool
    grid: bool
    horizon: bool
    ecliptic: bool


def _vectors(altitude: Any, azimuth: Any) -> np.ndarray:
    """Unit vectors (..., 3) to the east, the north and the zenith of directions in degrees."""
    a, z = np.radians(altitude), np.radians(azimuth)
    return np.stack(np.broadcast_arrays(np.cos(a) * np.sin(z), np.cos(a) * np.cos(z), np.sin(a)), axis=-1)


def _axes(view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Direction of the chart's middle, of its right and of its top."""
    place = sky(view.when, view.city).get(view.center)
    middle = _vectors(place.altitude, place.azimuth) if place else np.array([0.0, 0.0, 1.0])
    top = np.array([0.0, 0.0, 1.0]) - middle[2] * middle
    top = top / np.linalg.norm(top) if place else np.array([0.0, 1.0, 0.0])
    return middle, np.cross(middle, top), top


def _project(view: View, altitude: Any, azimuth: Any) -> np.ndarray:
    """Points (n, 2) in px of the chart (azimuthal equidistant); NaN outside its circle."""
    middle, right, top = _axes(view)
    directions = np.atleast_2d(_vectors(altitude, azimuth))
    angle = np.arccos(np.clip(directions @ middle, -1, 1))
    u, t = directions @ right, directions @ top
    scale = _RADIUS * np.degrees(angle) / (view.field / 2) / np.maximum(np.hypot(u, t), 1e-9)
    points = np.stack([_WIDTH / 2 + u * scale, _HEIGHT / 2 - t * scale], axis=1)
    points[np.degrees(angle) > view.field / 2 + 0.01] = np.nan
    return points


@lru_cache(maxsize=512)
def _targets(view: View) -> dict[str, QPoint]:
    """The named bodies on the chart: above the horizon, within the circle and no fainter than the limit."""
    found = {}
    for name, place in sky(view.when, view.city).items():
        if place.altitude > 0 and place.magnitude <= view.limit:
            x, y = _project(view, place.altitude, place.azimuth)[0]
            if not np.isnan(x):
                found[name] = QPoint(round(float(x)), round(float(y)))
    return found


@lru_cache(maxsize=64)
def _background(view: View) -> QPixmap:
    """The chart without its named bodies."""
    middle, right, top = _axes(view)
    x, y = np.meshgrid(np.arange(_WIDTH) - _WIDTH / 2, _HEIGHT / 2 - np.arange(_HEIGHT))
    radius = np.hypot(x, y)
    angle = np.radians(radius / _RADIUS * view.field / 2)
    height = np.cos(angle) * middle[2] + np.sin(angle) * (x * right[2] + y * top[2]) / np.maximum(radius, 1e-9)
    sun = sky(view.when, view.city)["Sun"].altitude
    pixels = np.full((_HEIGHT, _WIDTH, 4), (12, 12, 16, 255), np.uint8)
    pixels[radius <= _RADIUS] = (*((96, 160, 224) if sun > 0 else (44, 62, 110) if sun > -9 else (16, 24, 56)), 255)
    if view.horizon:
        pixels[(radius <= _RADIUS) & (height < 0)] = (74, 58, 38, 255)
    picture = QPixmap.fromImage(QImage(pixels.data, _WIDTH, _HEIGHT, 4 * _WIDTH, QImage.Format.Format_RGBA8888).copy())
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    if view.grid:
        painter.setPen(QPen(QColor("#7d92c8"), 1))
        for altitude in (0, 30, 60):
            _line(painter, _project(view, np.full(73, altitude), np.linspace(0, 360, 73)))
        for azimuth in range(0, 360, 45):
            _line(painter, _project(view, np.linspace(0, 90, 19), np.full(19, azimuth)))
    if view.ecliptic:
        painter.setPen(QPen(QColor("#ffa62b"), 2, Qt.PenStyle.DashLine))
        _line(painter, _ecliptic(view))
    _paint_stars(painter, view)
    if view.horizon:
        painter.setPen(QPen(QColor("#3fb950"), 2))
        _line(painter, _project(view, np.zeros(73), np.linspace(0, 360, 73)))
        for letter, azimuth in zip("NESW", (0, 90, 180, 270), strict=True):
            x, y = _project(view, 4 * view.field / 180, azimuth)[0]
            if not np.isnan(x):
                painter.drawText(QRect(int(x) - 8, int(y) - 8, 16, 16), Qt.AlignmentFlag.AlignCenter, letter)
    painter.end()
    return picture


def _ecliptic(view: View) -> np.ndarray:
    observer, body, directions = _observer(view.when, view.city), ephem.FixedBody(), []
    for degrees in range(0, 361, 5):
        where = ephem.Equatorial(ephem.Ecliptic(math.radians(degrees), 0))
        body._ra, body._dec = where.ra, where.dec
        body.compute(observer)
        directions.append((math.degrees(body.alt), math.degrees(body.az)))
    return _project(view, *np.array(directions).T)


def _paint_stars(painter: QPainter, view: View) -> None:
    stars = _stars(view.when, view.city)
    altitude, azimuth, magnitude = np.array(list(stars.values())).T
    points = _project(view, altitude, azimuth)
    points[altitude < 0] = np.nan
    where = dict(zip(stars, points, strict=True))
    if view.constellations:
        painter.setPen(QPen(QColor("#4cc2ff"), 2))
        for figure in _FIGURES:
            _line(painter, np.array([where[name] for name in figure.split()]))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor("#dfe6ff"))
    for (x, y), mag in zip(points, magnitude, strict=True):
        if mag <= view.limit and not np.isnan(x):
            painter.drawEllipse(QPointF(x, y), 2.2 - mag / 4, 2.2 - mag / 4)


def _line(painter: QPainter, points: np.ndarray) -> None:
    good = ~np.isnan(points).any(axis=1)
    for (x, y), (u, t) in zip(points[:-1][good[:-1] & good[1:]], points[1:][good[:-1] & good[1:]], strict=True):
        painter.drawLine(QPointF(x, y), QPointF(u, t))


class Astron(Desk):
    app = "astron"
    title = "Astron"
    defaults = {
        "tab": "Sky", "place": "Paris", "year": 2025, "month": 2, "day": 4, "hour": 18, "paused": False,
        "rate": "hourly", "locked": True, "constellations": False, "labels": True, "grid": False, "horizon": True,
        "ecliptic": False, "night": False, "limit": 4, "field": 180, "center": "", "selected": "", "marked": [],
        "measured": [], "computed": "", "scale": "inner", "show": "all",
    }  # fmt: skip

    def build(self) -> None:
        self._choices: list[tuple[QPushButton, str, str]] = []
        self.add_menu("File", {"Reset": lambda: self.reset({})})
        self.add_menu("View", {"Constellations": ("constellations", True), "Labels": ("labels", True),
                               "Grid": ("grid", True), "Horizon": ("horizon", True), "Ecliptic": ("ecliptic", True),
                               "Night mode": ("night", True),
                               "Limit": lambda: self.open_dialog(self._limit)})  # fmt: skip
        self.add_menu("Time", {"Pause": ("paused", True), "Hourly": ("rate", "hourly"), "Daily": ("rate", "daily"),
                               "Weekly": ("rate", "weekly"),
                               "Set date": lambda: self.open_dialog(self._date)})  # fmt: skip
        places = {city: lambda city=city: self._travel(city) for city in _CITIES}
        self.add_menu("Place", {"Lock place": ("locked", True)} | places)
        self._body_menu = self.add_menu("Body", {"Mark": self._mark, "Center": self._center})
        self.shortcuts = {"ctrl p": lambda: self.set("paused", not self.values["paused"]),
                          "ctrl g": lambda: self.set("grid", not self.values["grid"])}  # fmt: skip
        self._limit = self.add_dialog("Faintest stars", 84, self._set_limit, ["Magnitude"],
                                      lambda: {"Magnitude": self.values["limit"]})  # fmt: skip
        parts = ["Year", "Month", "Day", "Hour"]
        self._date = self.add_dialog("Date and hour (UT)", 152, self._set_date, parts,
                                     lambda: {name: self.values[name.lower()] for name in parts})  # fmt: skip

        chart = Canvas("Sky chart", self, self._draw_chart, self._chart_boxes)
        self.chart = self.add("Sky", chart, 4, 4, _WIDTH, _HEIGHT)
        self.chart.clicked.connect(self._pick)
        self.chart.dragged.connect(lambda a, b, dx, dy: self._measure(a, b))
        self.add("Sky", self.button("Step", self._step), 230, 4, 100, 24)
        self.angle = self.add("Sky", self.label("Angle"), 232, 38, 98, 18)
        self.chosen = self.add("Sky", self.label("Object"), 232, 60, 98, 18)
        self.marks = self.add("Sky", self.label("Marks"), 232, 82, 98, 54)
        self.marks.setWordWrap(True)
        self.marks.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.view_field = self.add("Sky", Slider("Field", (30, 60, 120, 180), self), 228, 158, 106, 28)
        self.view_field.changed.connect(lambda value: self.set("field", value))

        solar = Canvas("Orbit map", self, self._draw_orbits, self._orbit_boxes)
        self.solar = self.add("Orbits", solar, 4, 4, 240, _HEIGHT)
        self.solar.clicked.connect(lambda name, button: self._select(name) if name in _BODIES else None)
        self._choice("Orbits", "Inner", "scale", "inner", 252, 4, 78)
        self._choice("Orbits", "Outer", "scale", "outer", 252, 32, 78)

        self.search = self.add("Objects", self.field("Search", self._find), 6, 6, 160, 24)
        self.search.setPlaceholderText("Search")
        self.list = self.add("Objects", Rows("Bodies", self), 6, 36, 160, 152)
        self.list.itemClicked.connect(lambda item: self._select(item.text()))
        self.list.opened.connect(self._open)
        for i, name in enumerate(("All", "Planets", "Stars", "Up now")):
            self._choice("Objects", name, "show", name.lower(), 176 + 78 * (i % 2), 6 + 28 * (i // 2), 74)
        self.count = self.add("Objects", self.label("Count"), 178, 74, 150, 18)
        self.found = self.add("Objects", self.label("Object"), 178, 96, 150, 18)

        self.info = {name: self.add("Info", self.label(name), 8, 6 + 22 * i, 158, 18) for i, name in enumerate(
            ("Object", "In", "Magnitude", "Distance", "Above", "Rise", "Set"))}  # fmt: skip
        self.add("Info", self.button("Compute", self._compute), 172, 6, 158, 24)
        self.curve = self.add("Info", Canvas("Day curve", self, self._draw_curve, lambda rect: {}), 172, 36, 158, 150)

    def _choice(self, page: str, name: str, key: str, value: str, x: int, y: int, w: int) -> None:
        """A button that is one of several choices; the chosen one stays down."""
        button = self.add(page, self.button(name, lambda: (self.set(key, value), self.refresh())), x, y, w, 24)
        button.setCheckable(True)
        button.setStyleSheet("QPushButton:checked { background: #1f6feb; color: white; }")
        self._choices.append((button, key, value))

    def refresh(self) -> None:
        v, here = self.values, self._here
        for button, key, value in self._choices:
            button.setChecked(v[key] == value)
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
        self.view_field.value = v["field"]
        for canvas in (self.chart, self.solar, self.curve, self.view_field):
            canvas.update()
        locked = ", locked" if v["locked"] else ""
        run = "paused" if v["paused"] else v["rate"]
        self.message(f"{v['place']}{locked}   {v['year']}-{v['month']:02}-{v['day']:02} {v['hour']:02} h, {run}")

    def _show_info(self, place: Place | None) -> None:
        v = self.values
        texts = dict.fromkeys(self.info, "-")
        if place:
            distance = "-" if place.distance is None else f"{place.distance:.3g} au"
            above = "yes" if place.altitude > 0 else "no"
            texts |= {"Object": v["selected"], "In": place.constellation, "Distance": distance,
                      "Magnitude": f"{place.magnitude:.1f}", "Above": above}  # fmt: skip
        if v["computed"]:
            texts["Rise"], texts["Set"], _ = passage(v["computed"], self._when, v["place"])
        for name, text in texts.items():
            self.show_value(self.info[name], text)

    def facts(self) -> dict[str, Any]:
        v, place = self.values, self._here.get(self.values["selected"])
        return {
            "in": place.constellation if place else "", "count": len(self._listed()),
            "above": ("yes" if place.altitude > 0 else "no") if place else "",
            "angle": self._angle() if v["measured"] else "",
            "set": passage(v["computed"], self._when, v["place"])[1] if v["computed"] else "",
        }  # fmt: skip

    # -- what the commands work on -------------------------------------------------------------------------------------

    @property
    def _when(self) -> When:
        v = self.values
        return v["year"], v["month"], v["day"], v["hour"]

    @property
    def _here(self) -> dict[str, Place]:
        return sky(self._when, self.values["place"])

    @property
    def _view(self) -> View:
        v = self.values
        return View(self._when, *(v[key] for key in ("place", *View._fields[2:])))

    def _angle(self) -> int:
        return separation(*self.values["measured"], self._when, self.values["place"])

    def _listed(self) -> list[str]:
        here, show = self._here, self.values["show"]
        names = {"planets": list(_PLANETS), "stars": list(_STARS)}.get(show, list(_BODIES))
        return [name for name in names if show != "up now" or here[name].altitude > 0]

    # -- commands ----------------------------------------------------------------------------------------------------

    def _change(self, **values: Any) -> None:
        """Change what rise and set depend on; they must then be computed anew."""
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
            self.open_menu(self._body_menu, self.chart.mapTo(self, _targets(self._view)[name]))

    def _open(self, name: str) -> None:
        self._select(name)
        self._center()

    def _find(self) -> None:
        name = self.search.text().strip().capitalize()
        if name not in _BODIES:
            self.message("No such body")
            return
        self.search.clear()
        self.values["show"] = "all"
        self._select(name)

    def _ready(self) -> bool:
        """Whether a body above the horizon is selected; says why not."""
        place = self._here.get(self.values["selected"])
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

    def _step(self) -> None:
        if self.values["paused"]:
            self.message("Time is paused")
            return
        date = datetime(*self._when) + _STEPS[self.values["rate"]]
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

    def _set_limit(self, texts: dict[str, str]) -> str | None:
        if texts["Magnitude"] not in tuple("0123456"):
            return "Magnitude is a number from 0 to 6"
        self.set("limit", int(texts["Magnitude"]))
        return None

    # -- pictures ----------------------------------------------------------------------------------------------------

    def _chart_boxes(self, rect: QRect) -> dict[str, QRect]:
        return {name: QRect(point.x() - 6, point.y() - 6, 12, 12) for name, point in _targets(self._view).items()}

    def _draw_chart(self, painter: QPainter, rect: QRect) -> None:
        painter.drawPixmap(0, 0, _background(self._view))
        points = _targets(self._view)
        if all(name in points for name in self.values["measured"] or [""]):
            painter.setPen(QPen(QColor("#ff5cc8"), 2))
            painter.drawLine(*(points[name] for name in self.values["measured"]))
        sizes = {name: 7 if self._here[name].magnitude < -9 else 5 if name in _PLANETS else 3 for name in points}
        self._paint_bodies(painter, rect, points, sizes)
        self._redden(painter, rect)

    def _paint_bodies(self, painter: QPainter, room: QRect, points: dict[str, QPoint], sizes: dict[str, int]) -> None:
        """Discs with their marks first, then the labels, each at a corner where it covers nothing if there is one."""
        for name, point in points.items():
            self._paint_body(painter, name, point, sizes[name])
        if not self.values["labels"]:
            return
        font = QFont(self.font())
        font.setPixelSize(10)
        painter.setFont(font)
        painter.setPen(QColor("white"))
        taken = [QRect(p.x() - sizes[n], p.y() - sizes[n], 2 * sizes[n], 2 * sizes[n]) for n, p in points.items()]
        for name, point in points.items():
            w = painter.fontMetrics().horizontalAdvance(name) + 2
            corners = [QRect(point.x() + dx, point.y() + dy, w, 12) for dy in (-15, 4) for dx in (9, -9 - w)]
            box = next((b for b in corners if room.contains(b) and not any(b.intersects(t) for t in taken)), corners[0])
            taken.append(box)
            painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, name)

    def _paint_body(self, painter: QPainter, name: str, point: QPoint, radius: int) -> None:
        v = self.values
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(_COLORS.get(name, "#dfe6ff")))
        painter.drawEllipse(point, radius, radius)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if name in v["marked"]:
            painter.setPen(QPen(QColor("#ff9f1c"), 2))
            painter.drawRect(point.x() - 9, point.y() - 9, 18, 18)
        if name == v["selected"]:
            painter.setPen(QPen(QColor("#ff2e2e"), 3))
            painter.drawEllipse(point, 10, 10)

    def _orbit_boxes(self, rect: QRect) -> dict[str, QRect]:
        """Planets that this scale shows apart from each other, and the Sun."""
        inner = self.values["scale"] == "inner"
        found = {"Sun": QPoint(rect.width() // 2, rect.height() // 2)}
        for name, (longitude, distance) in _orbits(self._when).items():
            if (name in ("Jupiter", "Saturn", "Earth")) != inner or name == "Earth":
                r = distance * (rect.height() / 2 - 8) / (1.7 if inner else 10.2)
                found[name] = found["Sun"] + QPoint(round(r * math.cos(longitude)), round(-r * math.sin(longitude)))
        return {name: QRect(p.x() - 6, p.y() - 6, 12, 12) for name, p in found.items()}

    def _draw_orbits(self, painter: QPainter, rect: QRect) -> None:
        painter.fillRect(rect, QColor("#101838"))
        points = {name: box.center() for name, box in self._orbit_boxes(rect).items()}
        painter.setPen(QPen(QColor("#5b6aa0"), 1))
        for point in points.values():
            r = math.dist(points["Sun"].toTuple(), point.toTuple())
            painter.drawEllipse(QPointF(points["Sun"]), r, r)
        self._paint_bodies(painter, rect, points, {name: 7 if name == "Sun" else 5 for name in points})
        self._redden(painter, rect)

    def _draw_curve(self, painter: QPainter, rect: QRect) -> None:
        painter.fillRect(rect, QColor("#101838"))
        w, h, v = rect.width(), rect.height(), self.values
        painter.fillRect(0, h // 2, w, h // 2, QColor("#4a3a26"))
        if v["computed"]:
            altitudes = passage(v["computed"], self._when, v["place"])[2]
            painter.setPen(QPen(QColor("#ffd400"), 3))
            painter.drawPolyline(QPolygonF([QPointF(w * i / 24, h / 2 - a * h / 190) for i, a in enumerate(altitudes)]))
        self._redden(painter, rect)

    def _redden(self, painter: QPainter, rect: QRect) -> None:
        if self.values["night"]:
            painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Multiply)
            painter.fillRect(rect, QColor(255, 70, 60))
            painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Plus)
            painter.fillRect(rect, QColor(70, 0, 0))
            painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceOver)
