"""GIS: raster and vector layers of one landscape, a region, an attribute table and map tools.

The elevation is real: a part of Tennessee (bundled with matplotlib), 30 km by 32 km.  matplotlib shades it, SciPy finds
slopes and peaks in it, contourpy its contours; only the peaks' names are ours.

What the interface does not say: statistics want a region and a selected raster layer; the opacity and a new classification are
those of the selected layer; contours want an interval and an elevation layer; a click on the map gives values only with the
query tool, and only of what is visible; the table lists the peaks inside the region, if there is a peaks layer.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import contourpy
import matplotlib
import numpy as np
from matplotlib import cbook
from matplotlib.colors import LightSource
from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QPen, QPolygonF
from scipy import ndimage

from coda_lib.envs.sciencedesk.desk import Desk
from coda_lib.envs.sciencedesk.widgets import Canvas, Rows, Slider

EAST, NORTH = 30, 32  # km; the map's size, whose south-west corner is (0, 0)
_MAP = QRect(0, 0, 174, 186)  # px of the canvas; the rest is the legend
_RASTERS = {"Elevation": "m", "Slope": "degrees", "Hillshade": "light", "Classes": "class"}  # layer: unit
_ZONES = {"whole": [32, 0, 30, 0], "north": [32, 16, 30, 0], "south": [16, 0, 30, 0], "east": [32, 0, 30, 15],
          "west": [32, 0, 15, 0]}  # km: north, south, east and west edge  # fmt: skip
_MARKS = {"NW": (0.3, 0.3), "NE": (0.7, 0.3), "SW": (0.3, 0.7), "SE": (0.7, 0.7)}  # fractions from the north-west corner
_NAMES = ("Ash", "Bay", "Elm", "Fir", "Ivy", "Oak")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"<": operator.lt, ">": operator.gt, "=": operator.eq}


@cache
def terrain() -> tuple[np.ndarray, float, float]:
    """Heights in m (344, 403), the north first, and a cell's width and height in m."""
    data = cbook.get_sample_data("jacksboro_fault_dem.npz")
    width = 111200 * float(data["dx"]) * np.cos(np.radians(float(data["ymin"])))
    return data["elevation"].astype(float), width, 111200 * float(data["dy"])


@lru_cache(maxsize=64)
def raster(layer: str, light: int, classes: tuple[str, int]) -> np.ndarray:
    """A raster layer's values (344, 403).  `light` is the sun's azimuth in degrees; `classes` a layer and into how many."""
    heights, width, height = terrain()
    if layer == "Elevation":
        return heights
    if layer == "Slope":
        down, right = np.gradient(heights, height, width)
        return np.degrees(np.arctan(np.hypot(down, right)))
    if layer == "Hillshade":
        return 255 * LightSource(light, 45).hillshade(heights, dx=width, dy=height)
    values, count = raster(classes[0], light, classes), classes[1]
    return np.digitize(values, np.linspace(values.min(), values.max(), count + 1)[1:-1]) + 1.0


def _colors(palette: str, values: np.ndarray) -> np.ndarray:
    """RGBA bytes of values in [0, 1]; of 'terrain' only the land, for it starts with water."""
    return matplotlib.colormaps[palette](0.25 + 0.75 * values if palette == "terrain" else values, bytes=True)


@lru_cache(maxsize=64)
def _picture(palette: str, layer: str, light: int, classes: tuple[str, int]) -> QImage:
    values = raster(layer, light, classes)[::2, ::2]
    pixels = _colors("gray" if layer == "Hillshade" else palette, (values - values.min()) / (values.max() - values.min()))
    return QImage(
        np.ascontiguousarray(pixels).tobytes(), pixels.shape[1], pixels.shape[0], QImage.Format.Format_RGBA8888
    ).copy()


@lru_cache(maxsize=32)
def _contours(step: int, cx: float, cy: float, zoom: int) -> QImage:
    """The contour lines of a view, drawn once."""
    heights = ndimage.zoom(ndimage.gaussian_filter(terrain()[0], 3), 0.25, order=1)
    rows, columns = heights.shape
    lines = contourpy.contour_generator(z=heights)
    image = QImage(_MAP.size(), QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor("#7a1f00"), 0.9))
    for level in range(0, 1100, step):
        for line in lines.lines(level):
            x = ((line[:, 0] + 0.5) / columns - cx) * zoom + 0.5
            y = ((line[:, 1] + 0.5) / rows - cy) * zoom + 0.5
            painter.drawPolyline(QPolygonF([QPointF(*p) for p in zip(x * _MAP.width(), y * _MAP.height(), strict=True)]))
    painter.end()
    return image


@cache
def peaks() -> dict[str, tuple[float, float, int, int]]:
    """The tops of the landscape from west to east: name: (x, y) as fractions of the map, height in m, slope in degrees."""
    heights, steep = terrain()[0], raster("Slope", 0, ("", 0))
    rows, columns = heights.shape
    tops = np.argwhere((heights == ndimage.maximum_filter(heights, 61)) & (heights > 820))
    found: list[tuple[int, int]] = []
    for row, column in sorted(tops.tolist(), key=lambda place: -heights[tuple(place)]):
        apart = all(np.hypot(row - r, column - c) > 45 for c, r in found)  # cells, so that names do not overlap
        if apart and 12 < row < rows - 13 and 12 < column < columns - 13:
            found.append((column, row))
    return {
        name: (column / columns, row / rows, int(heights[row, column]), round(float(steep[row, column])))
        for name, (column, row) in zip(_NAMES, sorted(found), strict=True)
    }


class Gis(Desk):
    app = "gis"
    title = "GIS"
    defaults = {
        "tab": "Map", "layers": ["Elevation"], "hidden": [], "selected": "", "opacity": {}, "palette": "terrain", "grid": False,
        "legend": False, "scale": False, "region": "", "edges": [32, 0, 30, 0], "tool": "pan", "zoom": 1, "cx": 0.5, "cy": 0.5,
        "interval": 0, "light": 315, "classes": ["Elevation", 3], "stats": {}, "queried": "", "filter": "", "sort": "name",
        "marked": "", "console": [],
    }  # fmt: skip

    def build(self) -> None:
        self.add_menu("File", {"New map": lambda: self.reset({})})
        self.add_menu("View", {"Grid": ("grid", True), "Legend": ("legend", True), "Scale bar": ("scale", True),
                               "Gray": ("palette", "gray"), "Terrain": ("palette", "terrain"),
                               "Viridis": ("palette", "viridis")})  # fmt: skip
        self.add_menu("Add", {f"Add {name.lower()}": lambda name=name: self._add(name)
                              for name in ("Elevation", "Slope", "Hillshade", "Contours", "Peaks")})  # fmt: skip
        self._layer_menu = self.add_menu("Layer", {"Hide": self._hide, "Remove": self._remove})
        self.add_menu("Region", {zone.capitalize(): ("region", zone) for zone in _ZONES}
                      | {"Bounds": lambda: self.open_dialog(self._bounds)})  # fmt: skip
        self.add_menu("Raster", {"Statistics": self._statistics, "Reclass": self._reclass,
                                 "Interval": lambda: self.open_dialog(self._interval),
                                 "Light": lambda: self.open_dialog(self._light)})  # fmt: skip
        self.add_menu("Tools", {"Pan": ("tool", "pan"), "Zoom": ("tool", "zoom"), "Query": ("tool", "query")})
        self.shortcuts = {"ctrl n": lambda: self.reset({}), "ctrl g": lambda: self.set("grid", not self.values["grid"])}
        names = ("North", "South", "East", "West")
        self._bounds = self.add_dialog("Bounds in km", 152, self._set_bounds, names,
                                       lambda: dict(zip(names, map(str, self._edges()), strict=True)))  # fmt: skip
        self._interval = self.add_dialog("Contour interval", 84, self._set_interval, ["Step"],
                                         lambda: {"Step": self.values["interval"]})  # fmt: skip
        self._light = self.add_dialog("Light", 84, self._set_light, ["Azimuth"], lambda: {"Azimuth": self.values["light"]})
        self._classes = self.add_dialog(
            "Reclass", 84, self._set_classes, ["Count"], lambda: {"Count": self.values["classes"][1]}
        )

        self.list = self.add("Map", Rows("Layer list", self), 4, 4, 116, 132)
        self.list.setStyleSheet("QListWidget::item { height: 20px; }")
        self.list.itemClicked.connect(lambda item: self.set("selected", item.text()))
        self.list.opened.connect(self._toggle)
        self.list.context.connect(self._ask)
        self.list.moved.connect(self._move)
        self._heading = self.add("Map", self._plain(), 6, 142, 114, 16)
        self.slider = self.add("Map", Slider("Opacity", (25, 50, 75, 100), self), 4, 160, 116, 28)
        self.slider.changed.connect(self._fade)
        self.map = self.add("Map", Canvas("Map view", self, self._draw_map, self._objects), 126, 3, 206, 186)
        self.map.clicked.connect(self._click)
        self.map.dragged.connect(lambda a, b, dx, dy: self._pan(dx, dy))

        self.shown = [self.add("Report", label, 6, 6 + 26 * i, 156, 22)
                      for i, label in enumerate((self._plain(), self._plain(), self.label("Mean")))]  # fmt: skip
        for label in self.shown:
            label.setStyleSheet("background: #fff3b0; padding-left: 3px;")
        self.histogram = self.add("Report", Canvas("Histogram", self, self._draw_histogram, lambda r: {}), 168, 6, 162, 180)

        self.query = self.add("Table", self.field("Filter", self._filter), 48, 5, 106, 22)
        self.add("Table", self._plain("Filter"), 8, 5, 38, 22)
        self.add("Table", self.button("By name", lambda: self.set("sort", "name")), 160, 5, 82, 22)
        self.add("Table", self.button("By height", lambda: self.set("sort", "height")), 248, 5, 82, 22)
        self.table = self.add("Table", Canvas("Peak table", self, self._draw_table, self._table_rows), 6, 32, 324, 136)
        self.table.clicked.connect(lambda name, button: self.set("marked", name))
        self.count = self.add("Table", self.label("Peaks listed"), 8, 171, 200, 18)

        self.command = self.add("Console", self.field("Command", self._run), 68, 6, 262, 24)
        self.add("Console", self._plain("Command"), 6, 6, 60, 24)
        self.log = self.add("Console", Rows("Command log", self), 6, 36, 324, 152)

    def _plain(self, text: str = "") -> Any:
        label = self.label("")
        label.setText(text)
        return label

    def refresh(self) -> None:
        v = self.values
        self.list.fill(v["layers"], v["selected"])
        for i, layer in enumerate(v["layers"]):
            item, hidden = self.list.item(i), layer in v["hidden"]
            if item.font().strikeOut() != hidden:
                font = QFont(self.font())
                font.setStrikeOut(hidden)
                item.setFont(font)
                item.setForeground(QColor("#a8a8a8" if hidden else "black"))
        self.slider.value = v["opacity"].get(v["selected"], 100)
        self._heading.setText(f"Opacity: {v['selected'] or '-'}")
        stats = v["stats"] or dict.fromkeys(("layer", "region", "min", "max", "mean"), "-")
        unit = _RASTERS.get(stats["layer"], "")
        self.shown[0].setText(f"{stats['layer']}, {stats['region']}")
        self.shown[1].setText(f"{stats['min']} to {stats['max']} {unit}")
        self.show_value(self.shown[2], f"{stats['mean']} {unit}")
        self.show_value(self.count, str(len(self.listed())))
        if self.focusWidget() is not self.query and self.query.text() != v["filter"]:
            self.query.setText(v["filter"])
        self.log.fill(f"{command}: {reply}" for command, reply in v["console"])
        for canvas in (self.map, self.slider, self.histogram, self.table):
            canvas.update()
        interval = f"{v['interval']} m" if v["interval"] else "none"
        edges = "-".join(map(str, self._edges())) if v["region"] == "custom" else v["region"] or "none"
        self.message(f"{v['tool']} tool, region {edges}, interval {interval}, light {v['light']}")

    def facts(self) -> dict[str, Any]:
        listed = self.listed()
        edges = dict(zip(("north", "south", "east", "west"), self._edges(), strict=True))
        highest = max(listed, key=lambda name: peaks()[name][2], default="")
        answer = self._value(self.values["queried"]) if self.values["queried"] else ""
        mean = self.values["stats"].get("mean", "")
        return edges | {"listed": len(listed), "highest": highest, "mean": mean, "answer": answer}

    def listed(self) -> list[str]:
        """The peaks that the table shows, in its order."""
        if "Peaks" not in self.values["layers"]:
            return []
        north, south, east, west = self._edges()
        inside = [n for n, (x, y, *_) in peaks().items() if west <= x * EAST <= east and south <= (1 - y) * NORTH <= north]
        if self.values["filter"]:
            column, sign, number = self.values["filter"].split()
            index = {"height": 2, "slope": 3}[column]
            inside = [name for name in inside if _COMPARE[sign](peaks()[name][index], int(number))]
        return sorted(inside, key=lambda n: -peaks()[n][2]) if self.values["sort"] == "height" else inside

    # -- layers --------------------------------------------------------------------------------------------------------

    def _visible(self) -> list[str]:
        return [layer for layer in self.values["layers"] if layer not in self.values["hidden"]]

    def _add(self, name: str) -> None:
        if name in self.values["layers"]:
            self.message(f"{name} is there already")
        elif name == "Contours" and "Elevation" not in self.values["layers"]:
            self.message("No elevation layer")
        elif name == "Contours" and not self.values["interval"]:
            self.message("No contour interval")
        else:
            self.set("layers", [name] + self.values["layers"])

    def _toggle(self, layer: str) -> None:
        hidden = self.values["hidden"]
        self.set("hidden", [h for h in hidden if h != layer] if layer in hidden else hidden + [layer])

    def _ask(self, layer: str) -> None:
        self.set("selected", layer)
        row = self.list.visualItemRect(self.list.item(self.values["layers"].index(layer)))
        self.open_menu(self._layer_menu, self.list.mapTo(self, row.bottomLeft() + QPoint(30, 2)))

    def _hide(self) -> None:
        if self.values["selected"]:
            self._toggle(self.values["selected"])
        else:
            self.message("No layer selected")

    def _remove(self) -> None:
        v, layer = self.values, self.values["selected"]
        if not layer:
            self.message("No layer selected")
            return
        v["selected"] = ""
        v["hidden"] = [h for h in v["hidden"] if h != layer]
        v["opacity"] = {name: value for name, value in v["opacity"].items() if name != layer}
        self.set("layers", [name for name in v["layers"] if name != layer])

    def _move(self, layer: str, target: str) -> None:
        layers = [name for name in self.values["layers"] if name != layer]
        layers.insert(self.values["layers"].index(target), layer)
        self.set("layers", layers)

    def _fade(self, opacity: int) -> None:
        if self.values["selected"]:
            self.set("opacity", self.values["opacity"] | {self.values["selected"]: opacity})
        else:
            self.message("No layer selected")

    # -- rasters -------------------------------------------------------------------------------------------------------

    def _edges(self) -> list[int]:
        """The region's north, south, east and west edge in km; the whole map if no region is set."""
        return self.values["edges"] if self.values["region"] == "custom" else _ZONES[self.values["region"] or "whole"]

    def _source(self, layer: str) -> tuple[str, int, tuple[str, int]]:
        """What a raster layer is computed from, and nothing else, so that it is computed once."""
        classes = tuple(self.values["classes"]) if layer == "Classes" else ("", 0)
        return layer, self.values["light"] if "Hillshade" in (layer, classes[0]) else 0, classes

    def _raster(self, layer: str) -> np.ndarray:
        return raster(*self._source(layer))

    def _inside(self, layer: str) -> np.ndarray:
        values, (north, south, east, west) = self._raster(layer), self._edges()
        rows, columns = values.shape
        return values[
            (NORTH - north) * rows // NORTH : (NORTH - south) * rows // NORTH, west * columns // EAST : east * columns // EAST
        ]

    def _statistics(self) -> None:
        v = self.values
        if not v["region"]:
            self.message("No region set")
        elif v["selected"] not in _RASTERS:
            self.message("No raster layer selected")
        else:
            part = self._inside(v["selected"])
            low, high, mean = (round(float(f(part))) for f in (np.min, np.max, np.mean))
            self.set(
                "stats",
                {
                    "layer": v["selected"],
                    "region": v["region"],
                    "min": low,
                    "max": high,
                    "mean": mean,
                    "bars": np.histogram(part, 16)[0].tolist(),
                },
            )
            self.message(f"{v['selected']}, {v['region']}: min {low}, max {high}, mean {mean}")

    def _reclass(self) -> None:
        if self.values["selected"] in _RASTERS and self.values["selected"] != "Classes":
            self.open_dialog(self._classes)
        else:
            self.message("No raster layer selected")

    def _set_classes(self, texts: dict[str, str]) -> str | None:
        if texts["Count"] not in tuple("23456789"):
            return "Count is a number from 2 to 9"
        self.values["classes"] = [self.values["selected"], int(texts["Count"])]
        self.values["layers"] = ["Classes"] + [layer for layer in self.values["layers"] if layer != "Classes"]
        self._show_values()
        return None

    def _set_interval(self, texts: dict[str, str]) -> str | None:
        if not re.fullmatch(r"\d{2,3}", texts["Step"]) or not 20 <= int(texts["Step"]) <= 500:
            return "Step is a number from 20 to 500"
        self.set("interval", int(texts["Step"]))
        return None

    def _set_light(self, texts: dict[str, str]) -> str | None:
        if not re.fullmatch(r"\d{1,3}", texts["Azimuth"]) or int(texts["Azimuth"]) > 360:
            return "Azimuth is a number from 0 to 360"
        self.set("light", int(texts["Azimuth"]))
        return None

    def _set_bounds(self, texts: dict[str, str]) -> str | None:
        if not all(re.fullmatch(r"\d{1,2}", text) for text in texts.values()):
            return "The edges are whole km"
        north, south, east, west = (int(text) for text in texts.values())
        if not (0 <= south < north <= NORTH and 0 <= west < east <= EAST):
            return f"North to {NORTH} km, east to {EAST} km"
        self.values["edges"] = [north, south, east, west]
        self.values["region"] = "custom"
        self._show_values()
        return None

    # -- map tools, table and console ----------------------------------------------------------------------------------

    def _click(self, name: str, button: str) -> None:
        v = self.values
        if v["tool"] == "zoom" and button in ("left", "right"):
            x, y = self._place_of(name) if name in _MARKS or name in peaks() else (v["cx"], v["cy"])
            self._look(x, y, min(4, v["zoom"] * 2) if button == "left" else max(1, v["zoom"] // 2))
        elif v["tool"] == "query" and button == "left" and name:
            if self._visible():
                self.set("queried", name)
                self.message(f"{name}: {self._value(name)}")
            else:
                self.message("Nothing visible")

    def _place_of(self, name: str) -> tuple[float, float]:
        return _MARKS[name] if name in _MARKS else peaks()[name][:2]

    def _value(self, name: str) -> str:
        """What a query of a peak or a mark gives: a peak's height, or the value of the highest visible raster layer."""
        layer = next((layer for layer in self._visible() if layer in _RASTERS), "")
        if name in peaks() or not layer:
            return f"{peaks()[name][2]} m" if name in peaks() else "no raster"
        values, (x, y) = self._raster(layer), self._place_of(name)
        return f"{values[int(y * values.shape[0]), int(x * values.shape[1])]:.0f} {_RASTERS[layer]}"

    def _pan(self, dx: float, dy: float) -> None:
        v = self.values
        if v["tool"] == "pan":
            shift_x, shift_y = dx * self.map.width() / _MAP.width(), dy * self.map.height() / _MAP.height()
            self._look(v["cx"] - shift_x / v["zoom"], v["cy"] - shift_y / v["zoom"], v["zoom"])

    def _look(self, x: float, y: float, zoom: int) -> None:
        margin = 0.5 / zoom
        self.values["zoom"] = zoom
        self.values["cx"] = round(min(1 - margin, max(margin, x)), 3)
        self.values["cy"] = round(min(1 - margin, max(margin, y)), 3)
        self._show_values()

    def _filter(self) -> None:
        text = self.query.text().strip().lower()
        found = re.fullmatch(r"(height|slope)\s*([<>=])\s*(\d{1,4})", text)
        if text and not found:
            self.message("A filter is: height > 500")
        else:
            self.set("filter", " ".join(found.groups()) if found else "")

    def _run(self) -> None:
        command = self.command.text().strip().lower()
        program, _, argument = command.partition(" ")
        if program == "g.region" and argument in _ZONES:
            self.values["region"], reply = argument, f"region {argument}"
        elif program == "d.palette" and argument in ("gray", "terrain", "viridis"):
            self.values["palette"], reply = argument, f"palette {argument}"
        elif command in ("r.slope", "r.hillshade", "v.peaks"):
            layer = command[2:].capitalize()
            self._add(layer)
            reply = f"layer {layer}"
        else:
            self.message(f"No command {command}")
            return
        self.command.clear()
        self.set("console", self.values["console"] + [[command, reply]])

    # -- pictures ------------------------------------------------------------------------------------------------------

    def _at_px(self, x: float, y: float) -> QPointF:
        """Where a place of the map (fractions) is on the canvas in px."""
        v = self.values
        return QPointF(((x - v["cx"]) * v["zoom"] + 0.5) * _MAP.width(), ((y - v["cy"]) * v["zoom"] + 0.5) * _MAP.height())

    def _objects(self, rect: QRect) -> dict[str, QRect]:
        tops = peaks() if "Peaks" in self._visible() else {}
        found = {name: self._at_px(x, y).toPoint() for name, (x, y, *_) in tops.items()}
        found = {name: QRect(p.x() - 7, p.y() - 9, 14, 14) for name, p in found.items()}
        for name, place in _MARKS.items():
            p = self._at_px(*place).toPoint()
            found[name] = QRect(p.x() - 11, p.y() - 7, 22, 14)
        return {name: box for name, box in found.items() if _MAP.contains(box.center())}

    def _draw_map(self, painter: QPainter, rect: QRect) -> None:
        v = self.values
        painter.setClipRect(_MAP)
        span = 1 / v["zoom"]
        for layer in reversed(self._visible()):
            painter.setOpacity(v["opacity"].get(layer, 100) / 100)
            if layer in _RASTERS:
                image = _picture(v["palette"], *self._source(layer))
                w, h = image.width(), image.height()
                painter.drawImage(
                    QRectF(_MAP), image, QRectF((v["cx"] - span / 2) * w, (v["cy"] - span / 2) * h, span * w, span * h)
                )
            elif layer == "Contours":
                painter.drawImage(0, 0, _contours(v["interval"], v["cx"], v["cy"], v["zoom"]))
            else:
                self._draw_peaks(painter)
        painter.setOpacity(1)
        if v["grid"]:
            painter.setPen(QPen(QColor("white"), 1.5))
            for i in range(1, 6):
                painter.drawLine(self._at_px(i / 6, 0), self._at_px(i / 6, 1))
                painter.drawLine(self._at_px(0, i / 6), self._at_px(1, i / 6))
        if v["region"]:
            self._draw_region(painter)
        for name, place in _MARKS.items():
            self._tag(
                painter, name, self._at_px(*place), QColor("#ffe14d") if name == v["queried"] else QColor(255, 255, 255, 170)
            )
        painter.setClipping(False)
        if v["scale"]:
            painter.fillRect(QRect(3, 3, _MAP.width() // 3 + 8, 24), QColor("white"))
            painter.fillRect(QRect(7, 19, _MAP.width() // 3, 5), QColor("black"))
            painter.setPen(QColor("black"))
            painter.drawText(8, 15, f"{EAST / 3 / v['zoom']:g} km")
        if v["queried"]:
            painter.fillRect(QRect(84, 167, 89, 18), QColor("#ffe14d"))
            painter.setPen(QColor("black"))
            painter.drawText(
                QRect(87, 167, 86, 18), Qt.AlignmentFlag.AlignVCenter, f"{v['queried']}: {self._value(v['queried'])}"
            )
        self._draw_legend(painter, QRect(_MAP.right() + 1, 0, rect.width() - _MAP.width(), rect.height()))

    @staticmethod
    def _tag(painter: QPainter, text: str, center: QPointF, color: QColor) -> None:
        box = QRectF(center.x() - 11, center.y() - 7, 22, 14)
        painter.fillRect(box, color)
        painter.setPen(QColor("#222222"))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)

    def _draw_peaks(self, painter: QPainter) -> None:
        for name, (x, y, *_) in peaks().items():
            p = self._at_px(x, y)
            chosen = name in (self.values["queried"], self.values["marked"])
            painter.setPen(QPen(QColor("white"), 1))
            painter.setBrush(QColor("#ffe14d" if chosen else "#d1242f"))
            painter.drawPolygon(QPolygonF([p + QPointF(-6, 4), p + QPointF(6, 4), p + QPointF(0, -8)]))
            box = QRectF(p.x() + 7, p.y() - 8, 24, 13)
            painter.fillRect(box, QColor(255, 255, 255, 190))
            painter.setPen(QColor("black"))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, name)

    def _draw_region(self, painter: QPainter) -> None:
        north, south, east, west = self._edges()
        box = QRectF(self._at_px(west / EAST, 1 - north / NORTH), self._at_px(east / EAST, 1 - south / NORTH))
        shade, area = QColor(0, 0, 0, 110), QRectF(_MAP)
        painter.fillRect(QRectF(0, 0, area.width(), box.top()), shade)
        painter.fillRect(QRectF(0, box.bottom(), area.width(), area.height() - box.bottom()), shade)
        painter.fillRect(QRectF(0, box.top(), box.left(), box.height()), shade)
        painter.fillRect(QRectF(box.right(), box.top(), area.width() - box.right(), box.height()), shade)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor("#ff2020"), 3))
        painter.drawRect(box.adjusted(1, 1, -1, -1))

    def _draw_legend(self, painter: QPainter, rect: QRect) -> None:
        """The colour bar (if turned on) and the map's tool."""
        v = self.values
        painter.setPen(QColor("black"))
        painter.fillRect(QRect(rect.x() + 1, 0, rect.width(), 18), QColor("#1f6feb"))
        painter.setPen(QColor("white"))
        painter.drawText(QRect(rect.x() + 1, 0, rect.width() - 1, 18), Qt.AlignmentFlag.AlignCenter, f"x{v['zoom']}")
        if v["legend"]:
            colors = _colors(v["palette"], np.linspace(1, 0, 12))
            for i, (r, g, b, _) in enumerate(colors.tolist()):
                painter.fillRect(QRect(rect.x() + 5, 42 + 10 * i, 20, 10), QColor(r, g, b))
            painter.setPen(QColor("black"))
            painter.drawText(QRect(rect.x(), 26, rect.width(), 14), Qt.AlignmentFlag.AlignCenter, "high")
            painter.drawText(QRect(rect.x(), 164, rect.width(), 14), Qt.AlignmentFlag.AlignCenter, "low")

    def _draw_histogram(self, painter: QPainter, rect: QRect) -> None:
        stats = self.values["stats"]
        if not stats:
            painter.setPen(QColor("#777777"))
            painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, "no statistics")
            return
        colors = _colors(self.values["palette"], np.linspace(0, 1, 16))
        for i, (count, (r, g, b, _)) in enumerate(
            zip(np.array(stats["bars"]) / max(stats["bars"]), colors.tolist(), strict=True)
        ):
            height = int(count * (rect.height() - 12))
            painter.fillRect(QRect(3 + 10 * i, rect.height() - 3 - height, 9, height), QColor(r, g, b))

    def _table_rows(self, rect: QRect) -> dict[str, QRect]:
        return {name: QRect(1, 18 + 16 * i, rect.width() - 2, 16) for i, name in enumerate(self.listed())}

    def _draw_table(self, painter: QPainter, rect: QRect) -> None:
        painter.fillRect(QRect(0, 0, rect.width(), 17), QColor("#34495e"))
        painter.setPen(QColor("white"))
        for x, heading in ((8, "name"), (110, "height m"), (220, "slope degrees")):
            painter.drawText(x, 13, heading)
        for i, (name, box) in enumerate(self._table_rows(rect).items()):
            chosen = name == self.values["marked"]
            painter.fillRect(box, QColor("#ffe14d" if chosen else ("#eaf1fb" if i % 2 else "white")))
            painter.setPen(QColor("black"))
            for x, text in zip((8, 110, 220), (name, *peaks()[name][2:]), strict=True):
                painter.drawText(x, box.y() + 12, str(text))
