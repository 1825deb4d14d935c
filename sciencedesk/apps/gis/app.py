"""GIS: raster and vector layers of one landscape (`landscape.py`), a region, an attribute table and map
tools.

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
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QFrame, QPushButton

from sciencedesk.apps.gis import landscape as land
from sciencedesk.apps.gis import names
from sciencedesk.apps.gis.pictures import MAP, draw_histogram, draw_map, draw_table, map_objects, table_rows
from sciencedesk.desk.desk import Desk
from sciencedesk.desk.widgets import Rows, Slider


class Gis(Desk):
    app = "gis"
    title = "GIS"
    defaults = {
        "tab": "Map", "layers": ["Elevation"], "hidden": [], "selected": "", "opacity": {}, "palette": "terrain",
        "grid": False, "legend": False, "scale": False, "region": "", "edges": [32, 0, 30, 0], "tool": "pan", "zoom": 1,
        "cx": 0.5, "cy": 0.5, "interval": 0, "light": 315, "classes": ["Elevation", 3], "stats": {}, "queried": "",
        "filter": "", "sort": "name", "marked": "", "console": [], "title": "", "names": list(names.FIRST_PEAKS),
        "marks": list(names.FIRST_MARKS), "catalog": list(names.FIRST_LAYERS), "zones": list(names.FIRST_ZONES),
        "palettes": list(names.PALETTES[:3]), "ticks": [25, 50, 75, 100], "extras": [],
    }  # fmt: skip

    _offered: Sequence[Any] = ()  # the settings that menus and slider show

    def build(self) -> None:
        self._files = self.add_menu(
            "File", {"New map": lambda: self.reset({}), "Title": lambda: self.open_dialog(self._title)}
        )
        self._views = self.add_menu("View", {"Grid": ("grid", True), "Legend": ("legend", True), "Scale bar": ("scale", True)}
                                    | {name.capitalize(): ("palette", name) for name in names.PALETTES}
                                    | {"Go to": lambda: self.open_dialog(self._place_dialog)})  # fmt: skip
        self._adds = self.add_menu("Add", {f"Add {name.lower()}": lambda name=name: self._add(name)
                                           for name in (*names.FIRST_LAYERS, *names.MADE_LAYERS)})  # fmt: skip
        self._layer_menu = self.add_menu("Layer", {"Hide": self._hide, "Remove": self._remove})
        self._regions = self.add_menu("Region", {zone.capitalize(): ("region", zone) for zone in land.ZONES}
                                      | {"Bounds": lambda: self.open_dialog(self._bounds)})  # fmt: skip
        self.add_menu("Raster", {"Statistics": self._statistics, "Reclass": self._reclass,
                                 "Interval": lambda: self.open_dialog(self._interval),
                                 "Light": lambda: self.open_dialog(self._light)})  # fmt: skip
        self.add_menu("Tools", {"Pan": ("tool", "pan"), "Zoom": ("tool", "zoom"), "Query": ("tool", "query")})
        self.shortcuts = {
            "ctrl n": lambda: self.reset({}),
            "ctrl g": lambda: self.set("grid", not self.values["grid"]),
        }
        sides = ("North", "South", "East", "West")
        self._bounds = self.add_dialog("Bounds in km", 152, self._set_bounds, sides,
                                       lambda: dict(zip(sides, map(str, land.edges(self.values)), strict=True)))  # fmt: skip
        steps = [f"{step:0{width}}" for step in range(20, 501) for width in (2, 3)]
        self._interval = self.add_entry(
            "Contour interval", "Step", "interval", steps, "Step is a number from 20 to 500"
        )
        degrees = [f"{angle:0{width}}" for angle in range(361) for width in (1, 2, 3)]
        self._light = self.add_entry(
            "Light", "Azimuth", "light", degrees, "Azimuth is a number from 0 to 360"
        )
        self._classes = self.add_dialog("Reclass", 84, self._set_classes, ["Count"],
                                        lambda: {"Count": self.values["classes"][1]})  # fmt: skip

        self._title = self.add_dialog("Title", 84, lambda texts: self.set("title", texts["Text"][:20]), ["Text"],
                                      lambda: {"Text": self.values["title"]})  # fmt: skip
        self._place_dialog = self.add_dialog("Go to, in km", 108, self._go, ["East", "North"])

        self.list = self.add("Map", Rows("Layer list", self), 4, 4, 116, 132)
        self.list.setStyleSheet("QListWidget::item { height: 20px; }")
        self.list.itemClicked.connect(lambda item: self.set("selected", item.text()))
        self.list.opened.connect(self._toggle)
        self.list.context.connect(self._ask)
        self.list.moved.connect(self._move)
        self._heading = self.add("Map", self._plain(), 6, 142, 114, 16)
        self.slider = self.add("Map", Slider("Opacity", (25, 50, 75, 100), self), 4, 160, 116, 28)
        self.slider.changed.connect(self._fade)
        self.map = self.add("Map", self.picture("Map view", draw_map, map_objects), 126, 3, 206, 186)
        self.map.clicked.connect(self._click)
        self.map.dragged.connect(lambda a, b, dx, dy: self._pan(dx, dy))

        self.shown = [self.add("Report", label, 6, 6 + 26 * i, 156, 22)
                      for i, label in enumerate((self._plain(), self._plain(), self.label("Mean")))]  # fmt: skip
        for label in self.shown:
            label.setStyleSheet("background: #fff3b0; padding-left: 3px;")
        self.add("Report", self.picture("Histogram", draw_histogram), 168, 6, 162, 180)

        self.query = self.add("Table", self.field("Filter", self._filter), 48, 5, 106, 22)
        self.add("Table", self._plain("Filter"), 8, 5, 38, 22)
        self.add("Table", self.button("By name", lambda: self.set("sort", "name")), 160, 5, 82, 22)
        self.add("Table", self.button("By height", lambda: self.set("sort", "height")), 248, 5, 82, 22)
        self.table = self.add("Table", self.picture("Peak table", draw_table, table_rows), 6, 32, 324, 136)
        self.table.clicked.connect(lambda name, button: self.set("marked", name))
        self.count = self.add("Table", self.label("Peaks listed"), 8, 171, 200, 18)

        self.command = self.add("Console", self.field("Command", self._run), 68, 6, 262, 24)
        self.add("Console", self._plain("Command"), 6, 6, 60, 24)
        self.log = self.add("Console", Rows("Command log", self), 6, 36, 324, 152)

    def _plain(self, text: str = "") -> Any:
        label = self.label("")
        label.setText(text)
        return label

    @staticmethod
    def _offer(menu: QFrame, entries: Iterable[str]) -> None:
        """Let a menu show these of its entries alone, one below the other."""
        buttons = {button.accessibleName(): button for button in menu.findChildren(QPushButton)}
        shown = [buttons[name] for name in entries]
        for button in buttons.values():
            button.setVisible(button in shown)
        for i, button in enumerate(shown):
            button.move(1, 1 + 19 * i)
        menu.resize(menu.width(), 2 + 19 * len(shown))

    def _offer_what_is_set(self) -> None:
        v = self.values
        offered = [v[key] for key in ("extras", "palettes", "catalog", "zones", "ticks")]
        if offered == self._offered:
            return
        self._offered = offered
        self._offer(self._files, ["New map", *(name for name in v["extras"] if name == "Title")])
        self._offer(self._views, ["Grid", "Legend", "Scale bar", *map(str.capitalize, v["palettes"]),
                                  *(name for name in v["extras"] if name == "Go to")])  # fmt: skip
        self._offer(self._adds, [f"Add {name.lower()}" for name in v["catalog"]])
        self._offer(self._regions, [*map(str.capitalize, v["zones"]), "Bounds"])
        self.slider.ticks = list(v["ticks"])

    def refresh(self) -> None:
        v = self.values
        self._offer_what_is_set()
        self.list.fill(v["layers"], v["selected"])
        for i, layer in enumerate(v["layers"]):
            item, hidden = self.list.item(i), layer in v["hidden"]
            if item.font().strikeOut() != hidden:
                font = QFont(self.font())
                font.setStrikeOut(hidden)
                item.setFont(font)
                item.setForeground(QColor("#a8a8a8" if hidden else "black"))
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
        v, rows = self.values, land.listed(self.values)
        answer = land.value_at(v, v["queried"]) if v["queried"] else ""
        return (
            dict(zip(("north", "south", "east", "west"), land.edges(v), strict=True))
            | {
                "listed": len(rows),
                "highest": max(rows, key=lambda name: land.peaks()[name][2], default=""),
                "answer": answer,
                "reading": answer.partition(" ")[0],
                "center_east": round(v["cx"] * land.EAST),
                "center_north": round((1 - v["cy"]) * land.NORTH),
            }
            | {key: v["stats"].get(key, "") for key in ("min", "max", "mean")}
            | {
                key: land.peaks()[v["marked"]][column] if v["marked"] else ""
                for key, column in (("height", 2), ("steepness", 3))
            }
        )

    # -- layers --------------------------------------------------------------------------------------------------------

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
        self.change(
            selected="", hidden=[name for name in v["hidden"] if name != layer],
            opacity={name: value for name, value in v["opacity"].items() if name != layer},
            layers=[name for name in v["layers"] if name != layer],
        )  # fmt: skip

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

    def _statistics(self) -> None:
        v = self.values
        if not v["region"]:
            self.message("No region set")
        elif v["selected"] not in land.RASTERS:
            self.message("No raster layer selected")
        else:
            part = land.inside(v, v["selected"])
            low, high, mean = (round(float(f(part))) for f in (np.min, np.max, np.mean))
            bars = np.histogram(part, 16)[0].tolist()
            self.set("stats", {"layer": v["selected"], "region": v["region"], "min": low, "max": high, "mean": mean,
                               "bars": bars})  # fmt: skip
            self.message(f"{v['selected']}, {v['region']}: min {low}, max {high}, mean {mean}")

    def _reclass(self) -> None:
        if self.values["selected"] in land.RASTERS and self.values["selected"] != "Classes":
            self.open_dialog(self._classes)
        else:
            self.message("No raster layer selected")

    def _set_classes(self, texts: dict[str, str]) -> str | None:
        if texts["Count"] not in tuple("23456789"):
            return "Count is a number from 2 to 9"
        layers = ["Classes"] + [layer for layer in self.values["layers"] if layer != "Classes"]
        return self.change(classes=[self.values["selected"], int(texts["Count"])], layers=layers)

    def _set_bounds(self, texts: dict[str, str]) -> str | None:
        if not all(re.fullmatch(r"\d{1,2}", text) for text in texts.values()):
            return "The edges are whole km"
        north, south, east, west = (int(text) for text in texts.values())
        if not (0 <= south < north <= land.NORTH and 0 <= west < east <= land.EAST):
            return f"North to {land.NORTH} km, east to {land.EAST} km"
        return self.change(edges=[north, south, east, west], region="custom")

    # -- map tools, table and console ----------------------------------------------------------------------------------

    def _click(self, name: str, button: str) -> None:
        v = self.values
        if v["tool"] == "zoom" and button in ("left", "right"):
            x, y = land.place_of(name) if name in land.MARKS or name in land.peaks() else (v["cx"], v["cy"])
            self._look(x, y, min(4, v["zoom"] * 2) if button == "left" else max(1, v["zoom"] // 2))
        elif v["tool"] == "query" and button == "left" and name:
            if land.visible(v):
                self.set("queried", name)
                self.message(f"{name}: {land.value_at(v, name)}")
            else:
                self.message("Nothing visible")

    def _pan(self, dx: float, dy: float) -> None:
        v = self.values
        if v["tool"] == "pan":
            shift_x, shift_y = dx * self.map.width() / MAP.width(), dy * self.map.height() / MAP.height()
            self._look(v["cx"] - shift_x / v["zoom"], v["cy"] - shift_y / v["zoom"], v["zoom"])

    def _look(self, x: float, y: float, zoom: int) -> None:
        margin = 0.5 / zoom
        cx, cy = (round(min(1 - margin, max(margin, middle)), 3) for middle in (x, y))
        self.change(zoom=zoom, cx=cx, cy=cy)

    def _go(self, texts: dict[str, str]) -> str | None:
        if not all(re.fullmatch(r"[0-9]{1,2}", text) for text in texts.values()):
            return "East and North are whole km"
        east, north = (int(text) for text in texts.values())
        if east > land.EAST or north > land.NORTH:
            return f"North to {land.NORTH} km, east to {land.EAST} km"
        return self._look(east / land.EAST, 1 - north / land.NORTH, self.values["zoom"])

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
        number = int(argument) if re.fullmatch(r"[0-9]{1,3}", argument) else -1
        if program == "g.region" and argument in land.ZONES:
            self.values["region"], reply = argument, f"region {argument}"
        elif program == "d.palette" and argument in names.PALETTES:
            self.values["palette"], reply = argument, f"palette {argument}"
        elif program == "r.light" and 0 <= number <= 360:
            self.values["light"], reply = number, f"light {number}"
        elif program == "r.interval" and 20 <= number <= 500:
            self.values["interval"], reply = number, f"interval {number} m"
        elif command in {
            "v.peaks",
            *(f"r.{layer.lower()}" for layer in ("Slope", "Hillshade", *names.MADE_LAYERS)),
        }:
            layer = command[2:].capitalize()
            self._add(layer)
            reply = f"layer {layer}"
        else:
            self.message(f"No command {command}")
            return
        self.command.clear()
        self.set("console", self.values["console"] + [[command, reply]])
