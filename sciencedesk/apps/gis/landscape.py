"""The landscape of the GIS, and what can be computed from a map's state: layers' values, peaks, regions.

The elevation is real: a part of Tennessee (bundled with matplotlib), 30 km by 32 km.  matplotlib shades it,
SciPy finds slopes and peaks in it; the names are ours, and so are the layers of `MADE_LAYERS` and the smaller
zones.

Places are fractions of the map from its north-west corner.  `v` is the application's state (`Gis.values`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np
from matplotlib import cbook
from matplotlib.colors import LightSource
from scipy import ndimage

from sciencedesk.apps.gis import names

EAST, NORTH = 30, 32  # km; the map's size, whose south-west corner is (0, 0)
RASTERS = {"Elevation": "m", "Slope": "degrees", "Hillshade": "light", "Classes": "class"}  # layer: unit
RASTERS |= dict.fromkeys(names.MADE_LAYERS, "points")
ZONES = {
    "whole": [32, 0, 30, 0], "north": [32, 16, 30, 0], "south": [16, 0, 30, 0], "east": [32, 0, 30, 15],
    "west": [32, 0, 15, 0],
}  # km: north, south, east and west edge  # fmt: skip
for _i, _zone in enumerate(names.MORE_ZONES):  # rectangles strewn over the map, no two alike
    _west, _south = 7 * _i % 21, 11 * _i % 23
    ZONES[_zone] = [_south + 5 + _i % 5, _south, _west + 5 + 3 * _i % 5, _west]
MARKS = names.FIRST_MARKS | names.MORE_MARKS
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"<": operator.lt, ">": operator.gt, "=": operator.eq}


@cache
def terrain() -> tuple[np.ndarray, float, float]:
    """Heights in m (344, 403), the north first, and a cell's width and height in m."""
    data = cbook.get_sample_data("jacksboro_fault_dem.npz")
    width = 111200 * float(data["dx"]) * np.cos(np.radians(float(data["ymin"])))
    return data["elevation"].astype(float), width, 111200 * float(data["dy"])


@lru_cache(maxsize=64)
def raster(layer: str, light: int, classes: tuple[str, int]) -> np.ndarray:
    """Values (344, 403); `light`: the sun's azimuth in degrees; `classes`: a layer and their number."""
    heights, width, height = terrain()
    if layer == "Elevation":
        return heights
    if layer == "Slope":
        down, right = np.gradient(heights, height, width)
        return np.degrees(np.arctan(np.hypot(down, right)))
    if layer == "Hillshade":
        return 255 * LightSource(light, 45).hillshade(heights, dx=width, dy=height)
    if layer in names.MADE_LAYERS:
        return _made(names.MADE_LAYERS.index(layer))
    values, count = raster(classes[0], light, classes), classes[1]
    return np.digitize(values, np.linspace(values.min(), values.max(), count + 1)[1:-1]) + 1.0


def _made(number: int) -> np.ndarray:
    """The values of a made layer: smoothed heights, steepness or aspect, from 0 to its own maximum."""
    heights, width, height = terrain()
    down, right = np.gradient(heights, height, width)
    base = (heights, np.hypot(down, right), -heights, right, down)[number % 5]
    smooth = ndimage.gaussian_filter(base, 3 + number % 7)
    return (smooth - smooth.min()) / (smooth.max() - smooth.min()) * (60 + 13 * number)


@cache
def peaks() -> dict[str, tuple[float, float, int, int]]:
    """The tops by name, the six main ones first: x and y of the place, height in m, slope in degrees."""
    heights, steep = terrain()[0], raster("Slope", 0, ("", 0))
    rows, columns = heights.shape
    tops = np.argwhere((heights == ndimage.maximum_filter(heights, 61)) & (heights > 820))
    found: list[tuple[int, int]] = []
    for row, column in sorted(tops.tolist(), key=lambda place: -heights[tuple(place)]):
        apart = all(np.hypot(row - r, column - c) > 45 for c, r in found)  # cells: names do not overlap
        if apart and 12 < row < rows - 13 and 12 < column < columns - 13:
            found.append((column, row))
    lesser = zip(names.MORE_PEAKS, _lesser_tops(heights, found), strict=False)
    named = [*zip(names.FIRST_PEAKS, sorted(found), strict=True), *lesser]
    places = {name: (x / columns, y / rows) for name, (x, y) in named}
    return {name: (*places[name], int(heights[y, x]), round(float(steep[y, x]))) for name, (x, y) in named}


def _lesser_tops(heights: np.ndarray, main: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Column and row of other tops from the highest on, no two of one height and no name covered."""
    rows, columns = heights.shape
    tops = np.argwhere(heights == ndimage.maximum_filter(heights, 9)).tolist()
    free = [(column, row) for row, column in tops if _is_free(column / columns, row / rows)]
    by_height = {heights[row, column]: (column, row) for column, row in free}
    taken = {heights[row, column] for column, row in main}
    return [place for height, place in sorted(by_height.items(), reverse=True) if height not in taken]


def _is_free(x: float, y: float) -> bool:
    """Whether a peak's sign and name are on the map, clear of first marks, scale bar, title and result."""
    covered = y < 0.17 or (y > 0.85 and x > 0.2)
    at_mark = any(-0.36 < x - a < 0.11 and abs(y - b) < 0.08 for a, b in names.FIRST_MARKS.values())
    return 0.06 < x < 0.68 and y < 0.94 and not covered and not at_mark


# -- a map of it -------------------------------------------------------------------------------------------


def visible(v: Mapping[str, Any]) -> list[str]:
    """The layers that are not hidden, the uppermost first."""
    return [layer for layer in v["layers"] if layer not in v["hidden"]]


def uncovered(v: Mapping[str, Any]) -> list[str]:
    """The visible layers down to the first raster that lets nothing through, the uppermost first."""
    layers = visible(v)
    solid = (i for i, name in enumerate(layers) if name in RASTERS and v["opacity"].get(name, 100) == 100)
    return layers[: next(solid, len(layers)) + 1]


def edges(v: Mapping[str, Any]) -> list[int]:
    """The region's north, south, east and west edge in km; the whole map if no region is set."""
    return v["edges"] if v["region"] == "custom" else ZONES[v["region"] or "whole"]


def source(v: Mapping[str, Any], layer: str) -> tuple[str, int, tuple[str, int]]:
    """The arguments of `raster` for a layer, without others, so that it is computed once."""
    classes = tuple(v["classes"]) if layer == "Classes" else ("", 0)
    return layer, v["light"] if "Hillshade" in (layer, classes[0]) else 0, classes


def inside(v: Mapping[str, Any], layer: str) -> np.ndarray:
    """A raster layer's values inside the region."""
    values, (north, south, east, west) = raster(*source(v, layer)), edges(v)
    rows, columns = values.shape
    down = slice((NORTH - north) * rows // NORTH, (NORTH - south) * rows // NORTH)
    return values[down, west * columns // EAST : east * columns // EAST]


def place_of(name: str) -> tuple[float, float]:
    """The place of a mark or a peak, in fractions of the map."""
    return MARKS[name] if name in MARKS else peaks()[name][:2]


def shown_peaks(v: Mapping[str, Any]) -> dict[str, tuple[float, float, int, int]]:
    """The peaks that a map's setting names, as `peaks` has them."""
    return {name: peaks()[name] for name in v["names"]}


def value_at(v: Mapping[str, Any], name: str) -> str:
    """The result of a query: a peak's height, or at a mark the uppermost visible raster layer's value."""
    if name in peaks():
        return f"{peaks()[name][2]} m"
    layer = next((layer for layer in visible(v) if layer in RASTERS), "")
    if not layer:
        return "no raster"
    values, (x, y) = raster(*source(v, layer)), place_of(name)
    return f"{values[int(y * values.shape[0]), int(x * values.shape[1])]:.0f} {RASTERS[layer]}"


def listed(v: Mapping[str, Any]) -> list[str]:
    """The peaks that the table shows, in its order."""
    if "Peaks" not in v["layers"]:
        return []
    north, south, east, west = edges(v)
    shown = shown_peaks(v)
    at = {name: (x * EAST, (1 - y) * NORTH) for name, (x, y, *_) in shown.items()}  # km
    rows = [name for name, (x, y) in at.items() if west <= x <= east and south <= y <= north]
    if v["filter"]:
        column, sign, number = v["filter"].split()
        index = {"height": 2, "slope": 3}[column]
        rows = [name for name in rows if _COMPARE[sign](shown[name][index], int(number))]
    return sorted(rows, key=lambda name: -shown[name][2]) if v["sort"] == "height" else sorted(rows)
