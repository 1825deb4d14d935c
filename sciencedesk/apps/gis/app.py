"""GIS: raster and vector layers of one landscape (`landscape.py`), a region, a table and map tools.

What the interface does not say: statistics want a region and a selected raster layer; the opacity and a new
classification are those of the selected layer; contours want an interval and an elevation layer; a click on
the map gives values only with the query tool, and only of what is visible; the table lists the peaks inside
the region, if there is a peaks layer.

What menus, map and slider offer is in the settings `catalog` (layers to add), `zones`, `palettes`, `names`
(of peaks), `marks`, `ticks` and `extras` (of the commands Title and Go to); the names that there are, in
`names.py`.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QLabel

from sciencedesk.apps.gis import landscape as land
from sciencedesk.apps.gis import names
from sciencedesk.apps.gis.pictures import MAP, draw_histogram, draw_map, draw_table, map_objects, table_rows
from sciencedesk.desk.desk import Desk
from sciencedesk.desk.entries import Refusal, number_among
from sciencedesk.desk.widgets import Rows, Slider, shade

_SIDES = ("North", "South", "East", "West")
_OUTSIDE = f"North to {land.NORTH} km, east to {land.EAST} km"
_LAYERS = (*names.FIRST_LAYERS, *names.MADE_LAYERS)
_COMPUTED_LAYERS = ("Slope", "Hillshade", *names.MADE_LAYERS)  # those that a command of the console makes


class Gis(Desk):
    app = "gis"
    title = "GIS"
    defaults = {
        "tab": "Map", "layers": ["Elevation"], "hidden": [], "selected": "", "opacity": {},
        "palette": "terrain", "grid": False, "legend": False, "scale": False, "region": "",
        "edges": [32, 0, 30, 0], "tool": "pan", "zoom": 1, "cx": 0.5, "cy": 0.5, "interval": 0, "light": 315,
        "classes": ["Elevation", 3], "stats": {}, "queried": "", "filter": "", "sort": "name", "marked": "",
        "console": [], "title": "", "names": list(names.FIRST_PEAKS), "marks": list(names.FIRST_MARKS),
        "catalog": list(names.FIRST_LAYERS), "zones": list(names.FIRST_ZONES),
        "palettes": list(names.PALETTES[:3]), "ticks": [25, 50, 75, 100], "extras": [],
    }  # fmt: skip

    def build(self) -> None:
        edges = lambda: land.edges(self.values)  # noqa: E731
        bounds = self.add_dialog("Bounds in km", 152, self._set_bounds, _SIDES, edges)
        steps = [f"{step:0{width}}" for step in range(20, 501) for width in (2, 3)]
        step = number_among(steps, "Step is a number from 20 to 500")
        degrees = [f"{angle:0{width}}" for angle in range(361) for width in (1, 2, 3)]
        azimuth = number_among(degrees, "Azimuth is a number from 0 to 360")
        classes = lambda: self.values["classes"][1:]  # noqa: E731
        self._classes = self.add_dialog("Reclass", 84, self._set_classes, ["Count"], classes)
        title = self.add_entry("Title", "Text", "title", lambda text: text[:20])
        self._files = self.add_menu("File", {"New map": lambda: self.reset({}), "Title": title})
        self._views = self.add_menu("View", {
            "Grid": ("grid", True), "Legend": ("legend", True), "Scale bar": ("scale", True),
            **{name.capitalize(): ("palette", name) for name in names.PALETTES},
            "Go to": self.add_dialog("Go to, in km", 108, self._go, ["East", "North"]),
        })  # fmt: skip
        layers = {f"Add {name.lower()}": partial(self._add, name) for name in _LAYERS}
        self._adds = self.add_menu("Add", layers)
        hide = lambda: self._toggle_layer(self._selected())  # noqa: E731
        self._layer_menu = self.add_menu("Layer", {"Hide": hide, "Remove": self._remove})
        regions = {zone.capitalize(): ("region", zone) for zone in land.ZONES}
        self._regions = self.add_menu("Region", regions | {"Bounds": bounds})
        self.add_menu("Raster", {
            "Statistics": self._statistics, "Reclass": self._reclass,
            "Interval": self.add_entry("Contour interval", "Step", "interval", step),
            "Light": self.add_entry("Light", "Azimuth", "light", azimuth),
        })  # fmt: skip
        self.add_menu("Tools", {"Pan": ("tool", "pan"), "Zoom": ("tool", "zoom"), "Query": ("tool", "query")})
        self.shortcuts = {"ctrl n": lambda: self.reset({}), "ctrl g": lambda: self.toggle("grid")}

        self.list = self.add("Map", Rows("Layer list", self), 4, 4, 116, 132)
        self.list.setStyleSheet("QListWidget::item { height: 20px; }")
        self.on(self.list.chosen, partial(self.set, "selected"))
        self.on(self.list.opened, self._toggle_layer)
        self.on(self.list.context, self._ask)
        self.on(self.list.moved, self._move)
        self._heading = self.add("Map", self._plain(), 6, 142, 114, 16)
        self.slider = self.add("Map", Slider("Opacity", (25, 50, 75, 100), self), 4, 160, 116, 28)
        self.on(self.slider.changed, self._fade)
        self.map = self.add("Map", self.picture("Map view", draw_map, map_objects), 126, 3, 206, 186)
        self.on(self.map.clicked, self._click)
        self.on(self.map.dragged, self._pan)

        self.shown = self._plain(), self._plain(), self.label("Mean")
        for i, label in enumerate(self.shown):
            self.add("Report", label, 6, 6 + 26 * i, 156, 22)
            label.setStyleSheet("background: #fff3b0; color: black; padding-left: 3px;")
        self.add("Report", self.picture("Histogram", draw_histogram), 168, 6, 162, 180)

        self.query = self.add("Table", self.field("Filter", self._filter), 48, 5, 106, 22)
        self.add("Table", self._plain("Filter"), 8, 5, 38, 22)
        self.add("Table", self.button("By name", lambda: self.set("sort", "name")), 160, 5, 82, 22)
        self.add("Table", self.button("By height", lambda: self.set("sort", "height")), 248, 5, 82, 22)
        self.table = self.add("Table", self.picture("Peak table", draw_table, table_rows), 6, 32, 324, 136)
        self.on(self.table.clicked, lambda name, button: self.set("marked", name))
        self.count = self.add("Table", self.label("Peaks listed"), 8, 171, 200, 18)

        self.command = self.add("Console", self.field("Command", self._run), 68, 6, 262, 24)
        self.add("Console", self._plain("Command"), 6, 6, 60, 24)
        self.log = self.add("Console", Rows("Command log", self), 6, 36, 324, 152)

    def _plain(self, text: str = "") -> QLabel:
        label = self.label("")
        label.setText(text)
        return label

    def _offer_settings(self) -> None:
        """Show in menus and slider what the settings name."""
        v = self.values
        extras = {name: [name] if name in v["extras"] else [] for name in ("Title", "Go to")}
        palettes = map(str.capitalize, v["palettes"])
        self.offer(self._files, ["New map", *extras["Title"]])
        self.offer(self._views, ["Grid", "Legend", "Scale bar", *palettes, *extras["Go to"]])
        self.offer(self._adds, [f"Add {name.lower()}" for name in v["catalog"]])
        self.offer(self._regions, [*map(str.capitalize, v["zones"]), "Bounds"])
        self.slider.ticks = list(v["ticks"])

    def refresh(self) -> None:
        v = self.values
        self._offer_settings()
        self.list.fill(v["layers"], v["selected"])
        for i, layer in enumerate(v["layers"]):
            item, hidden = self.list.item(i), layer in v["hidden"]
            if item.font().strikeOut() != hidden:
                font = QFont(self.font())
                font.setStrikeOut(hidden)
                item.setFont(font)
                item.setForeground(QColor("#a8a8a8") if hidden else shade(self, "black"))
        opacity = v["opacity"].get(v["selected"], 100)
        self.slider.value = min(v["ticks"], key=lambda tick: abs(tick - opacity))
        self._heading.setText(f"Opacity: {v['selected'] or '-'}")
        stats = v["stats"] or dict.fromkeys(("layer", "region", "min", "max", "mean"), "-")
        unit = land.RASTERS.get(stats["layer"], "")
        self.shown[0].setText(f"{stats['layer']}, {stats['region']}")
        self.shown[1].setText(f"{stats['min']} to {stats['max']} {unit}")
        self.show_value(self.shown[2], f"{stats['mean']} {unit}")
        self.show_value(self.count, str(len(land.listed(v))))
        if self.focusWidget() is not self.query and self.query.text() != v["filter"]:
            self.query.setText(v["filter"])
        self.log.fill(f"{command}: {reply}" for command, reply in v["console"])
        interval = f"{v['interval']} m" if v["interval"] else "none"
        region = "-".join(map(str, land.edges(v))) if v["region"] == "custom" else v["region"] or "none"
        self.message(f"{v['tool']} tool, region {region}, interval {interval}, light {v['light']}")

    def facts(self) -> dict[str, Any]:
        v, rows, peaks = self.values, land.listed(self.values), land.peaks()
        answer = land.value_at(v, v["queried"]) if v["queried"] else ""
        height, steepness = peaks[v["marked"]][2:] if v["marked"] else ("", "")
        return {
            **dict(zip(map(str.lower, _SIDES), land.edges(v), strict=True)),
            "listed": len(rows), "highest": max(rows, key=lambda name: peaks[name][2], default=""),
            "answer": answer, "reading": answer.partition(" ")[0],
            "center_east": round(v["cx"] * land.EAST), "center_north": round((1 - v["cy"]) * land.NORTH),
            **{key: v["stats"].get(key, "") for key in ("min", "max", "mean")},
            "height": height, "steepness": steepness,
        }  # fmt: skip

    # -- layers ---------------------------------------------------------------------------------------------

    def _add(self, name: str) -> None:
        if name in self.values["layers"]:
            raise Refusal(f"{name} is there already")
        if name == "Contours" and "Elevation" not in self.values["layers"]:
            raise Refusal("No elevation layer")
        if name == "Contours" and not self.values["interval"]:
            raise Refusal("No contour interval")
        self.set("layers", [name] + self.values["layers"])

    def _toggle_layer(self, layer: str) -> None:
        hidden = self.values["hidden"]
        self.set("hidden", [h for h in hidden if h != layer] if layer in hidden else hidden + [layer])

    def _selected(self, raster: bool = False) -> str:
        """The selected layer.  Refusal without one, and with `raster` for a layer that is none."""
        layer = self.values["selected"]
        if not layer or (raster and layer not in land.RASTERS):
            raise Refusal(f"No {'raster ' if raster else ''}layer selected")
        return layer

    def _ask(self, layer: str) -> None:
        self.set("selected", layer)
        row = self.list.visualItemRect(self.list.item(self.values["layers"].index(layer)))
        self.open_menu(self._layer_menu, self.list.mapTo(self, row.bottomLeft() + QPoint(30, 2)))

    def _remove(self) -> None:
        v, layer = self.values, self._selected()
        hidden, layers = ([name for name in v[key] if name != layer] for key in ("hidden", "layers"))
        opacity = {name: value for name, value in v["opacity"].items() if name != layer}
        self.change(selected="", hidden=hidden, opacity=opacity, layers=layers)

    def _move(self, layer: str, target: str) -> None:
        layers = [name for name in self.values["layers"] if name != layer]
        layers.insert(self.values["layers"].index(target), layer)
        self.set("layers", layers)

    def _fade(self, opacity: int) -> None:
        self.set("opacity", self.values["opacity"] | {self._selected(): opacity})

    # -- rasters --------------------------------------------------------------------------------------------

    def _statistics(self) -> None:
        region = self.values["region"]
        if not region:
            raise Refusal("No region set")
        layer = self._selected(raster=True)
        values = land.inside(self.values, layer)
        low, high, mean = (round(float(f(values))) for f in (np.min, np.max, np.mean))
        bars = np.histogram(values, 16)[0].tolist()
        stats = {"layer": layer, "region": region, "min": low, "max": high, "mean": mean, "bars": bars}
        self.set("stats", stats)
        self.message(f"{layer}, {region}: min {low}, max {high}, mean {mean}")

    def _reclass(self) -> None:
        if self._selected(raster=True) == "Classes":
            raise Refusal("No raster layer selected")
        self.open_dialog(self._classes)

    def _set_classes(self, texts: dict[str, str]) -> None:
        count = number_among(tuple("23456789"), "Count is a number from 2 to 9")(texts["Count"])
        layers = ["Classes"] + [layer for layer in self.values["layers"] if layer != "Classes"]
        self.change(classes=[self.values["selected"], count], layers=layers)

    def _set_bounds(self, texts: dict[str, str]) -> None:
        north, south, east, west = self._whole_km(texts, "The edges")
        if not (0 <= south < north <= land.NORTH and 0 <= west < east <= land.EAST):
            raise Refusal(_OUTSIDE)
        self.change(edges=[north, south, east, west], region="custom")

    # -- map tools, table and console -----------------------------------------------------------------------

    def _click(self, name: str, button: str) -> None:
        v = self.values
        if v["tool"] == "zoom" and button in ("left", "right"):
            x, y = land.place_of(name) if name in land.MARKS or name in land.peaks() else (v["cx"], v["cy"])
            self._look(x, y, min(4, v["zoom"] * 2) if button == "left" else max(1, v["zoom"] // 2))
        elif v["tool"] == "query" and button == "left" and name:
            if not land.visible(v):
                raise Refusal("Nothing visible")
            self.set("queried", name)
            self.message(f"{name}: {land.value_at(v, name)}")

    def _pan(self, start: str, end: str, dx: float, dy: float) -> None:
        v = self.values
        if v["tool"] == "pan":
            shift_x, shift_y = (
                dx * self.map.sheet.width() / MAP.width(),
                dy * self.map.sheet.height() / MAP.height(),
            )
            self._look(v["cx"] - shift_x / v["zoom"], v["cy"] - shift_y / v["zoom"], v["zoom"])

    def _look(self, x: float, y: float, zoom: int) -> None:
        margin = 0.5 / zoom
        cx, cy = (round(min(1 - margin, max(margin, middle)), 3) for middle in (x, y))
        self.change(zoom=zoom, cx=cx, cy=cy)

    def _go(self, texts: dict[str, str]) -> None:
        east, north = self._whole_km(texts, "East and North")
        if east > land.EAST or north > land.NORTH:
            raise Refusal(_OUTSIDE)
        self._look(east / land.EAST, 1 - north / land.NORTH, self.values["zoom"])

    @staticmethod
    def _whole_km(texts: dict[str, str], what: str) -> list[int]:
        if not all(re.fullmatch(r"[0-9]{1,2}", text) for text in texts.values()):
            raise Refusal(f"{what} are whole km")
        return [int(text) for text in texts.values()]

    def _filter(self) -> None:
        text = self.query.text().strip().lower()
        match = re.fullmatch(r"(height|slope)\s*([<>=])\s*(\d{1,4})", text)
        if text and not match:
            raise Refusal("A filter is: height > 500")
        self.set("filter", " ".join(match.groups()) if match else "")

    def _run(self) -> None:
        command = self.command.text().strip().lower()
        program, _, argument = command.partition(" ")
        number = int(argument) if re.fullmatch(r"[0-9]{1,3}", argument) else -1
        layer = command[2:].capitalize()
        if program == "g.region" and argument in land.ZONES:
            self.values["region"], reply = argument, f"region {argument}"
        elif program == "d.palette" and argument in names.PALETTES:
            self.values["palette"], reply = argument, f"palette {argument}"
        elif program == "r.light" and 0 <= number <= 360:
            self.values["light"], reply = number, f"light {number}"
        elif program == "r.interval" and 20 <= number <= 500:
            self.values["interval"], reply = number, f"interval {number} m"
        elif command == "v.peaks" or (command[:2] == "r." and layer in _COMPUTED_LAYERS):
            reply = f"layer {layer}"
            self.attempt(self._add, layer)  # a refusal is logged like the rest
        else:
            raise Refusal(f"No command {command}")
        self.command.clear()
        self.set("console", self.values["console"] + [[command, reply]])
