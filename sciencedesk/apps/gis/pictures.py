"""The pictures of the GIS: the map with its layers, region and legend, the histogram and the table of peaks.

`v` is the application's state (`Gis.values`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import contourpy
import matplotlib
import numpy as np
from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPolygonF
from scipy import ndimage

from sciencedesk.apps.gis import landscape as land
from sciencedesk.desk.drawing import draw_placeholder, width_of, write, write_from

MAP = QRect(0, 0, 174, 186)  # px of the canvas; the rest is the legend


def _colors(palette: str, values: np.ndarray) -> np.ndarray:
    """RGBA bytes of values in [0, 1]; of the colours 'terrain' only those of land."""
    return matplotlib.colormaps[palette](0.25 + 0.75 * values if palette == "terrain" else values, bytes=True)


@lru_cache(maxsize=64)
def _picture(palette: str, layer: str, light: int, classes: tuple[str, int]) -> QImage:
    values = land.raster(layer, light, classes)[::2, ::2]
    shares = (values - values.min()) / (values.max() - values.min())
    pixels = np.ascontiguousarray(_colors("gray" if layer == "Hillshade" else palette, shares))
    return QImage(pixels.tobytes(), pixels.shape[1], pixels.shape[0], QImage.Format.Format_RGBA8888).copy()


@lru_cache(maxsize=32)
def _contours(step: int, cx: float, cy: float, zoom: int) -> QImage:
    """The contour lines of a view, drawn once."""
    heights = ndimage.zoom(ndimage.gaussian_filter(land.terrain()[0], 3), 0.25, order=1)
    rows, columns = heights.shape
    lines = contourpy.contour_generator(z=heights)
    image = QImage(MAP.size(), QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor("#7a1f00"), 0.9))
    for level in range(0, 1100, step):
        for line in lines.lines(level):
            x = ((line[:, 0] + 0.5) / columns - cx) * zoom + 0.5
            y = ((line[:, 1] + 0.5) / rows - cy) * zoom + 0.5
            points = zip(x * MAP.width(), y * MAP.height(), strict=True)
            painter.drawPolyline(QPolygonF([QPointF(*p) for p in points]))
    painter.end()
    return image


# -- the map -----------------------------------------------------------------------------------------------


def _at_px(v: Mapping[str, Any], x: float, y: float) -> QPointF:
    """Where a place of the map (fractions) is on the canvas in px."""
    across, down = (x - v["cx"]) * v["zoom"] + 0.5, (y - v["cy"]) * v["zoom"] + 0.5
    return QPointF(across * MAP.width(), down * MAP.height())


def map_objects(v: Mapping[str, Any], rect: QRect) -> dict[str, QRect]:
    """Boxes in px of the objects on the map: the marks, and the peaks if no raster covers them."""
    tops = land.shown_peaks(v) if "Peaks" in land.uncovered(v) else {}
    peak, mark = QRect(-7, -9, 14, 14), QRect(-11, -7, 22, 14)
    boxes = {name: peak.translated(_at_px(v, x, y).toPoint()) for name, (x, y, *_) in tops.items()}
    boxes |= {name: mark.translated(_at_px(v, *land.MARKS[name]).toPoint()) for name in v["marks"]}
    return {name: box for name, box in boxes.items() if MAP.contains(box.center())}


def draw_map(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    painter.setClipRect(MAP)
    _draw_layers(v, painter)
    if v["grid"]:
        painter.setPen(QPen(QColor("white"), 1.5))
        for i in range(1, 6):
            painter.drawLine(_at_px(v, i / 6, 0), _at_px(v, i / 6, 1))
            painter.drawLine(_at_px(v, 0, i / 6), _at_px(v, 1, i / 6))
    if v["region"]:
        _draw_region(v, painter)
    for name in v["marks"]:
        center = _at_px(v, *land.MARKS[name])
        box = QRectF(center.x() - 11, center.y() - 7, 22, 14)
        painter.fillRect(box, QColor("#ffe14d") if name == v["queried"] else QColor(255, 255, 255, 170))
        painter.setPen(QColor("#222222"))
        write(painter, box, Qt.AlignmentFlag.AlignCenter, name)
    painter.setClipping(False)
    if v["scale"]:
        painter.fillRect(QRect(3, 3, MAP.width() // 3 + 8, 24), QColor("white"))
        painter.fillRect(QRect(7, 19, MAP.width() // 3, 5), QColor("black"))
        painter.setPen(QColor("black"))
        write_from(painter, 8, 15, f"{land.EAST / 3 / v['zoom']:g} km")
    if v["title"]:
        _draw_note(painter, v["title"], 3, QColor("white"))
    if v["queried"]:
        _draw_note(painter, f"{v['queried']}: {land.value_at(v, v['queried'])}", 167, QColor("#ffe14d"))
    _draw_legend(v, painter, QRect(MAP.right() + 1, 0, rect.width() - MAP.width(), rect.height()))


def _draw_note(painter: QPainter, text: str, y: int, color: QColor) -> None:
    """A line of text at the map's right edge, in a box as wide as it needs."""
    width = min(MAP.width() - 1, max(89, width_of(painter, text) + 6))
    painter.fillRect(QRect(MAP.width() - 1 - width, y, width, 18), color)
    painter.setPen(QColor("black"))
    write(painter, QRect(MAP.width() + 2 - width, y, width - 3, 18), Qt.AlignmentFlag.AlignVCenter, text)


def _draw_layers(v: Mapping[str, Any], painter: QPainter) -> None:
    span = 1 / v["zoom"]
    for layer in reversed(land.visible(v)):
        painter.setOpacity(v["opacity"].get(layer, 100) / 100)
        if layer in land.RASTERS:
            image = _picture(v["palette"], *land.source(v, layer))
            w, h = image.width(), image.height()
            part = QRectF((v["cx"] - span / 2) * w, (v["cy"] - span / 2) * h, span * w, span * h)
            painter.drawImage(QRectF(MAP), image, part)
        elif layer == "Contours":
            painter.drawImage(0, 0, _contours(v["interval"], v["cx"], v["cy"], v["zoom"]))
        else:
            _draw_peaks(v, painter)
    painter.setOpacity(1)


def _draw_peaks(v: Mapping[str, Any], painter: QPainter) -> None:
    for name, (x, y, *_) in land.shown_peaks(v).items():
        p = _at_px(v, x, y)
        chosen = name in (v["queried"], v["marked"])
        painter.setPen(QPen(QColor("white"), 1))
        painter.setBrush(QColor("#ffe14d" if chosen else "#d1242f"))
        painter.drawPolygon(QPolygonF([p + QPointF(-6, 4), p + QPointF(6, 4), p + QPointF(0, -8)]))
        box = QRectF(p.x() + 7, p.y() - 8, max(24, width_of(painter, name) + 2), 13)
        painter.fillRect(box, QColor(255, 255, 255, 190))
        painter.setPen(QColor("black"))
        write(painter, box, Qt.AlignmentFlag.AlignCenter, name)


def _draw_region(v: Mapping[str, Any], painter: QPainter) -> None:
    """Draw the region's edge, and the map outside it darker."""
    north, south, east, west = land.edges(v)
    north_west = _at_px(v, west / land.EAST, 1 - north / land.NORTH)
    south_east = _at_px(v, east / land.EAST, 1 - south / land.NORTH)
    box = QRectF(north_west, south_east)
    shade, area = QColor(0, 0, 0, 110), QRectF(MAP)
    painter.fillRect(QRectF(0, 0, area.width(), box.top()), shade)
    painter.fillRect(QRectF(0, box.bottom(), area.width(), area.height() - box.bottom()), shade)
    painter.fillRect(QRectF(0, box.top(), box.left(), box.height()), shade)
    painter.fillRect(QRectF(box.right(), box.top(), area.width() - box.right(), box.height()), shade)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor("#ff2020"), 3))
    painter.drawRect(box.adjusted(1, 1, -1, -1))


def _draw_legend(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    """The zoom, and the colour bar if it is turned on."""
    painter.fillRect(QRect(rect.x() + 1, 0, rect.width(), 18), QColor("#1f6feb"))
    painter.setPen(QColor("white"))
    box = QRect(rect.x() + 1, 0, rect.width() - 1, 18)
    write(painter, box, Qt.AlignmentFlag.AlignCenter, f"x{v['zoom']}")
    if v["legend"]:
        colors = _colors(v["palette"], np.linspace(1, 0, 12))
        for i, (r, g, b, _) in enumerate(colors.tolist()):
            painter.fillRect(QRect(rect.x() + 5, 42 + 10 * i, 20, 10), QColor(r, g, b))
        painter.setPen(QColor("black"))
        write(painter, QRect(rect.x(), 26, rect.width(), 14), Qt.AlignmentFlag.AlignCenter, "high")
        write(painter, QRect(rect.x(), 164, rect.width(), 14), Qt.AlignmentFlag.AlignCenter, "low")


# -- report and table --------------------------------------------------------------------------------------


def draw_histogram(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    stats = v["stats"]
    if not stats:
        draw_placeholder(painter, rect, "no statistics")
        return
    colors = _colors(v["palette"], np.linspace(0, 1, 16)).tolist()
    shares = np.array(stats["bars"]) / max(stats["bars"])
    for i, (share, (r, g, b, _)) in enumerate(zip(shares, colors, strict=True)):
        height = int(share * (rect.height() - 12))
        painter.fillRect(QRect(3 + 10 * i, rect.height() - 3 - height, 9, height), QColor(r, g, b))


def table_rows(v: Mapping[str, Any], rect: QRect) -> dict[str, QRect]:
    return {name: QRect(1, 18 + 16 * i, rect.width() - 2, 16) for i, name in enumerate(land.listed(v))}


def draw_table(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    painter.fillRect(QRect(0, 0, rect.width(), 17), QColor("#34495e"))
    painter.setPen(QColor("white"))
    for x, heading in ((8, "name"), (110, "height m"), (220, "slope degrees")):
        write_from(painter, x, 13, heading)
    for i, (name, box) in enumerate(table_rows(v, rect).items()):
        chosen = name == v["marked"]
        painter.fillRect(box, QColor("#ffe14d" if chosen else ("#eaf1fb" if i % 2 else "white")))
        painter.setPen(QColor("black"))
        for x, text in zip((8, 110, 220), (name, *land.peaks()[name][2:]), strict=True):
            write_from(painter, x, box.y() + 12, str(text))
