"""A mapset of GRASS GIS read from its files: its modules tell the same, but each takes a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_EDGES = {"n": "north", "s": "south", "e": "east", "w": "west"}
# lines of a raster's history before its comments: date, title, mapset, creator, type, 2 sources, description
_ABOUT = 8


def facts_of(mapset: Path, layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What tasks check; `layers`: the first display's.  ValueError or KeyError for a region without edges."""
    region = dict(line.partition(":")[::2] for line in (mapset / "WIND").read_text().splitlines())
    rasters = _names(mapset / "cell")
    shown = {layer["name"].partition("@")[0]: layer["checked"] for layer in layers}
    return {
        "edges": {edge: float(region[name]) for edge, name in _EDGES.items()},
        "resolution": float(region["n-s resol"]), "regions": _names(mapset / "windows"), "rasters": rasters,
        "made": {name: made_by(mapset, name) for name in rasters}, "vectors": _names(mapset / "vector"),
        "layers": list(shown), "shown": shown,
    }  # fmt: skip


def made_by(mapset: Path, raster: str) -> str:
    """The expression that made a raster, as `r.info -e` gives it; empty for a raster without a history."""
    history = mapset / "hist" / raster
    return "".join(history.read_text().splitlines()[_ABOUT:]) if history.exists() else ""


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []
