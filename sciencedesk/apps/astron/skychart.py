"""The sky chart: a part of the sky in an azimuthal equidistant projection, and what can be seen there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import ephem
import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPixmap

from sciencedesk.apps.astron.ephemeris import When, observer, sky, stars, when_of

WIDTH, HEIGHT, RADIUS = 220, 184, 86  # px: the chart and its circle
_FIGURES = (  # lines between stars that ephem knows
    "Dubhe Merak Phecda Megrez Alioth Mizar Alkaid", "Megrez Dubhe", "Mintaka Alnilam Alnitak",
    "Castor Pollux Alhena Castor",
    "Rigel Mintaka Bellatrix Betelgeuse Alnitak Saiph Rigel", "Markab Scheat Alpheratz Algenib Markab",
    "Caph Schedar", "Alpheratz Mirach Almach", "Capella Menkalinan Elnath Capella",
    "Regulus Algieba Denebola Regulus", "Mirfak Algol", "Mirzam Sirius Wezen Adhara",
    "Vega Deneb Altair Vega", "Elnath Aldebaran Alcyone", "Hamal Menkar", "Kochab Polaris", "Acrux Gacrux",
)  # fmt: skip


class View(NamedTuple):
    """What the sky chart's picture depends on, apart from the selected and marked bodies."""

    when: When
    city: str
    center: str
    field: int  # degrees across the circle
    limit: float  # faintest magnitude
    constellations: bool
    grid: bool
    horizon: bool
    ecliptic: bool
    stars: tuple[str, ...]  # that have a name

    @classmethod
    def of(cls, v: Mapping[str, Any]) -> View:
        """The view of the application's state `v`."""
        return cls(when_of(v), *(v[key] for key in ("place", *cls._fields[2:-1])), tuple(v["stars"]))


def _vectors(altitude: Any, azimuth: Any) -> np.ndarray:
    """Unit vectors (..., 3) to the east, the north and the zenith of directions in degrees."""
    a, z = np.radians(altitude), np.radians(azimuth)
    return np.stack(np.broadcast_arrays(np.cos(a) * np.sin(z), np.cos(a) * np.cos(z), np.sin(a)), axis=-1)


def _axes(view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Direction of the chart's middle, of its right and of its top."""
    place = sky(view.when, view.city, view.stars).get(view.center)
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
    scale = RADIUS * np.degrees(angle) / (view.field / 2) / np.maximum(np.hypot(u, t), 1e-9)
    points = np.stack([WIDTH / 2 + u * scale, HEIGHT / 2 - t * scale], axis=1)
    points[np.degrees(angle) > view.field / 2 + 0.01] = np.nan
    return points


@lru_cache(maxsize=512)
def targets(view: View) -> dict[str, QPoint]:
    """The named bodies on the chart: above the horizon, within the circle and no fainter than the limit."""
    found = {}
    for name, place in sky(view.when, view.city, view.stars).items():
        if place.altitude > 0 and place.magnitude <= view.limit:
            x, y = _project(view, place.altitude, place.azimuth)[0]
            if not np.isnan(x):
                found[name] = QPoint(round(float(x)), round(float(y)))
    return found


@lru_cache(maxsize=64)
def background(view: View) -> QPixmap:
    """The chart without its named bodies."""
    middle, right, top = _axes(view)
    x, y = np.meshgrid(np.arange(WIDTH) - WIDTH / 2, HEIGHT / 2 - np.arange(HEIGHT))
    radius = np.hypot(x, y)
    angle = np.radians(radius / RADIUS * view.field / 2)
    across = (x * right[2] + y * top[2]) / np.maximum(radius, 1e-9)
    height = np.cos(angle) * middle[2] + np.sin(angle) * across
    sun = sky(view.when, view.city)["Sun"].altitude
    day, dusk, night = (96, 160, 224, 255), (44, 62, 110, 255), (16, 24, 56, 255)
    pixels = np.full((HEIGHT, WIDTH, 4), (12, 12, 16, 255), np.uint8)
    pixels[radius <= RADIUS] = day if sun > 0 else dusk if sun > -9 else night
    if view.horizon:
        pixels[(radius <= RADIUS) & (height < 0)] = (74, 58, 38, 255)
    image = QImage(pixels.data, WIDTH, HEIGHT, 4 * WIDTH, QImage.Format.Format_RGBA8888)
    picture = QPixmap.fromImage(image.copy())
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
    site, body, directions = observer(view.when, view.city), ephem.FixedBody(), []
    for degrees in range(0, 361, 5):
        equatorial = ephem.Equatorial(ephem.Ecliptic(math.radians(degrees), 0))
        body._ra, body._dec = equatorial.ra, equatorial.dec
        body.compute(site)
        directions.append((math.degrees(body.alt), math.degrees(body.az)))
    return _project(view, *np.array(directions).T)


def _paint_stars(painter: QPainter, view: View) -> None:
    known = stars(view.when, view.city)
    altitude, azimuth, magnitude = np.array(list(known.values())).T
    points = _project(view, altitude, azimuth)
    points[altitude < 0] = np.nan
    if view.constellations:
        point_of = dict(zip(known, points, strict=True))
        painter.setPen(QPen(QColor("#4cc2ff"), 2))
        for figure in _FIGURES:
            _line(painter, np.array([point_of[name] for name in figure.split()]))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor("#dfe6ff"))
    for (x, y), mag in zip(points, magnitude, strict=True):
        if mag <= view.limit and not np.isnan(x):
            painter.drawEllipse(QPointF(x, y), 2.2 - mag / 4, 2.2 - mag / 4)


def _line(painter: QPainter, points: np.ndarray) -> None:
    visible = ~np.isnan(points).any(axis=1)
    both = visible[:-1] & visible[1:]
    for (x, y), (u, t) in zip(points[:-1][both], points[1:][both], strict=True):
        painter.drawLine(QPointF(x, y), QPointF(u, t))
