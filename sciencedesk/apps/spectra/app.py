"""Spectra: emission and absorption spectra of a few lamps (`spectroscopy.py`, `pictures.py`); SciPy computes.

No model is trained on it (`NOVEL_APPS`).  What the interface does not say: peaks are found only once the
baseline is subtracted, dark lines only in an inverted trace; whatever changes the trace forgets its peaks;
only a *selected* peak is marked; lamp and slit cannot change while the trace is on hold, nor the range while
it is locked; a smoothing window is an odd number of pixels; an element is identified by its peaks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from sciencedesk.apps.spectra import spectroscopy as spectrum
from sciencedesk.apps.spectra.pictures import draw_close, draw_lamp, draw_plot, draw_scores, plot_boxes
from sciencedesk.apps.spectra.spectroscopy import HIGH, LOW, Peak, dark, peaks
from sciencedesk.desk.desk import PAGE_TOP, Desk
from sciencedesk.desk.entries import Refusal, number_among, real_number
from sciencedesk.desk.widgets import Rows, Slider

_OF_THE_TRACE = ("lamp", "slit", "inverted", "window", "baseline", "threshold")  # what the peaks depend on
_RANGES = {"Full": (LOW, HIGH), "Violet end": (LOW, 470), "Middle": (470, 610), "Red end": (610, HIGH)}
_SYMBOLS = {"H": "Hydrogen", "He": "Helium", "Na": "Sodium", "Ne": "Neon", "Hg": "Mercury"}


class Spectra(Desk):
    app = "spectra"
    title = "Spectra"
    defaults = {
        "tab": "Spectrum", "lamp": "Hydrogen", "chosen": "", "slit": 25, "held": False, "inverted": False,
        "window": 1, "baseline": False, "threshold": 5, "found": False, "peak": "", "marks": [],
        "measured": [], "matched": False, "order": "position", "low": LOW, "high": HIGH, "locked": False,
        "grid": False, "fill": False, "labels": True, "rainbow": False, "scale": "linear", "lines": "none",
        "note": "",
    }  # fmt: skip

    def build(self) -> None:
        limits = self.add_dialog("Limits in nm", 106, self._set_limits, ["From", "To"], self._limits)
        odd = [str(width) for width in (1, *range(5, 52, 2))]
        window = number_among(odd, "Window is an odd number from 5 to 51, or 1")
        percents = [str(percent) for percent in range(2, 91)]
        percent = number_among(percents, "Percent is a number from 2 to 90")
        self.add_menu("File", {
            "Note": self.add_entry("Note on the trace", "Text", "note", str),
            "Clear marks": lambda: self.set("marks", []), "Reset": lambda: self.reset({}),
        })  # fmt: skip
        self.add_menu("View", {
            "Grid": ("grid", True), "Fill": ("fill", True), "Labels": ("labels", True),
            "Rainbow": ("rainbow", True), "Log scale": ("scale", "log"), "Linear scale": ("scale", "linear"),
        })  # fmt: skip
        ranges = {name: partial(self._show, *ends) for name, ends in _RANGES.items()}
        self.add_menu("Range", {"Lock range": ("locked", True)} | ranges | {"Limits": limits})
        self.add_menu("Signal", {
            "Hold": ("held", True), "Invert": ("inverted", True), "Subtract baseline": ("baseline", True),
            "Smoothing": self.add_entry("Smoothing", "Window", "window", window),
        })  # fmt: skip
        threshold = self.add_entry("Threshold", "Percent", "threshold", percent)
        analysis = {"Find peaks": self._find, "Mark": self._mark, "Threshold": threshold}
        self._peak_menu = self.add_menu("Analysis", analysis)
        lines = {f"{symbol} lines": ("lines", element) for symbol, element in _SYMBOLS.items()}
        self.add_menu("Lines", {"No lines": ("lines", "none")} | lines)
        self.shortcuts = {"ctrl f": self._find, "ctrl g": lambda: self.toggle("grid")}

        self.plot = self.add("Spectrum", self.picture("Plot", draw_plot, plot_boxes), 4, 4, 244, 124)
        self.on(self.plot.clicked, self._pick)
        self.on(self.plot.dragged, self._measure)
        self.side = self.labels("Spectrum", ("Found", "Peak", "Gap", "Marks"), 252, 4, 84, 20)
        self._place(self.side["Marks"], 252, PAGE_TOP + 64, 84, 126)
        self.side["Marks"].setWordWrap(True)
        self.side["Marks"].setAlignment(Qt.AlignmentFlag.AlignTop)
        self.add("Spectrum", QLabel("Center", self), 6, 134, 42, 20)
        self.center = self.add("Spectrum", Slider("Center", range(400, 701, 50), self), 48, 132, 200, 28)
        self.on(self.center.changed, lambda middle: self._show(middle - 50, middle + 50))
        self.add("Spectrum", QLabel("Slit", self), 6, 164, 40, 20)
        self.slit = self.add("Spectrum", Slider("Slit", (5, 10, 25, 50, 100), self), 48, 162, 200, 28)
        self.on(self.slit.changed, partial(self._expose, "slit"))

        self.list = self.add("Peaks", Rows("Peak list", self), 6, 6, 140, 184)
        self.on(self.list.chosen, partial(self.set, "peak"))
        self.on(self.list.opened, self._zoom)
        self.nearest = self.add("Peaks", self.field("Nearest", self._select_nearest), 156, 6, 174, 24)
        self.nearest.setPlaceholderText("Nearest to, nm")
        for i, order in enumerate(("position", "height")):
            self.add("Peaks", self.choice(f"By {order}", "order", order), 156 + 89 * i, 36, 85, 24)
        self.info = {}
        for i, name in enumerate(("Count", "Above", "Peak", "Width", "Height", "Window")):
            place = 158 + 89 * (i % 2), 66 + 20 * (i // 2)
            self.info[name] = self.add("Peaks", self.label(name), *place, 86, 18)
        self.add("Peaks", self.picture("Close-up", draw_close), 156, 130, 174, 60)

        self.lamps = self.add("Lamps", Rows("Lamp list", self, sortable=True), 6, 6, 140, 184)
        self.on(self.lamps.chosen, partial(self.set, "chosen"))
        self.on(self.lamps.opened, partial(self._expose, "lamp"))
        load = self.button("Load", lambda: self._expose("lamp", self.values["chosen"]))
        self.add("Lamps", load, 156, 6, 84, 24)
        self.loaded = self.labels("Lamps", ("Loaded", "Kind", "Resolution"), 158, 38, 172, 20)
        self.add("Lamps", self.picture("Eyepiece", draw_lamp), 156, 104, 174, 86)

        self.add("Match", self.button("Identify", self._identify), 6, 6, 100, 24)
        self.element = self.add("Match", self.label("Element"), 116, 8, 210, 20)
        self.add("Match", self.picture("Scores", draw_scores), 6, 36, 324, 154)

    def refresh(self) -> None:
        v, found = self.values, peaks(self.values)
        peak, facts = found.get(v["peak"]), self.facts()
        known = "dark lines" if dark(v["lamp"]) else "bright lines"
        kind = "unknown" if v["lamp"] in spectrum.SAMPLES else known
        texts = {
            "Found": str(facts["count"]), "Peak": v["peak"], "Marks": ", ".join(v["marks"]),
            "Gap": f"{facts['gap']} nm" if facts["gap"] else "",
            "Count": str(facts["count"]), "Above": f"{v['threshold']} %", "Window": str(v["window"]),
            "Width": f"{peak.width:.1f} nm" if peak else "",
            "Height": f"{peak.height:.0f}" if peak else "",
            "Loaded": v["lamp"], "Kind": kind, "Resolution": f"{spectrum.resolution(v['slit']):.1f} nm",
        }  # fmt: skip
        for name, label in [*self.side.items(), *self.info.items(), *self.loaded.items()]:
            self.show_value(label, texts[name] or "-")
        self.show_value(self.element, facts["element"] or "-")
        by_height = sorted(found, key=lambda name: -found[name].height)
        self.list.fill(by_height if v["order"] == "height" else found, v["peak"])
        self.lamps.fill(spectrum.LAMPS, v["chosen"])
        middle = (v["low"] + v["high"]) / 2
        self.center.value = min(self.center.ticks, key=lambda tick: abs(tick - middle))
        self.slit.value = v["slit"]
        hold, lock = ", on hold" if v["held"] else "", ", locked" if v["locked"] else ""
        self.message(f"{v['lamp']}, {v['slit']} um{hold}   {v['low']:g} to {v['high']:g} nm{lock}")

    def facts(self) -> dict[str, Any]:
        v, found = self.values, peaks(self.values)
        fits = spectrum.scores(v) if v["matched"] else {}
        first, second = map(float, v["measured"] or (0, 0))
        strongest = max(found, key=lambda name: found[name].height, default="")
        gap = f"{abs(first - second):.1f}" if v["measured"] else ""
        element = max(fits, key=fits.get, default="")
        return {"count": len(found), "strongest": strongest, "gap": gap, "element": element}

    # -- commands -------------------------------------------------------------------------------------------

    def set(self, key: str, value: Any) -> None:
        if key in _OF_THE_TRACE and self.values[key] != value:
            self.values |= {"found": False, "peak": "", "measured": [], "matched": False}
        super().set(key, value)

    def _expose(self, key: str, value: Any) -> None:
        """Record a new trace after a change of lamp or slit, unless the detector is on hold."""
        if not value:
            raise Refusal("No lamp is chosen")
        if self.values["held"]:
            raise Refusal("The trace is on hold")
        if key == "lamp":
            self.values |= {"chosen": value} | ({"marks": []} if value != self.values["lamp"] else {})
        self.set(key, value)
        self._show_values()

    def _require_unlocked(self) -> None:
        if self.values["locked"]:
            raise Refusal("The range is locked")

    def _show(self, low: float, high: float) -> None:
        self._require_unlocked()
        self.change(low=low, high=high)

    def _zoom(self, name: str) -> None:
        """Show 20 nm around a peak."""
        middle = round(min(max(float(name), LOW + 10), HIGH - 10))
        self.set("peak", name)
        self._require_unlocked()
        self.set("tab", "Spectrum")
        self._show(middle - 10, middle + 10)

    def _find(self) -> None:
        v = self.values
        if not v["baseline"]:
            raise Refusal("The baseline is not subtracted")
        if dark(v["lamp"]) != v["inverted"]:
            raise Refusal("The lines point downwards")
        self.set("found", True)
        self.message(f"Peaks: {len(peaks(v))}")

    def _pick(self, name: str, button: str) -> None:
        if not name:
            return
        self.set("peak", name)
        if button == "double":
            self._zoom(name)
        elif button == "right":
            center = self.plot.scaling.map(plot_boxes(self.values, self.plot.sheet)[name].center())
            self.open_menu(self._peak_menu, self.plot.mapTo(self, center))

    def _measure(self, first: str, second: str, dx: float, dy: float) -> None:
        if first and second and first != second:
            self.set("measured", sorted([first, second]))

    def _select_nearest(self) -> None:
        wanted = real_number(self.nearest.text(), "Nearest to a wavelength in nm")
        if not LOW <= wanted <= HIGH:
            raise Refusal(f"The detector covers {LOW} to {HIGH} nm")
        found = self._found_peaks()
        self.nearest.clear()
        self.set("peak", min(found, key=lambda name: abs(found[name].wavelength - wanted)))

    def _mark(self) -> None:
        name = self.values["peak"]
        if name not in peaks(self.values):
            raise Refusal("No peak is selected")
        if name not in self.values["marks"]:
            self.set("marks", self.values["marks"] + [name])

    def _identify(self) -> None:
        self._found_peaks()
        self.set("matched", True)

    def _found_peaks(self) -> dict[str, Peak]:
        if not (found := peaks(self.values)):
            raise Refusal("No peaks are found")
        return found

    def _limits(self) -> list[str]:
        return [f"{self.values[key]:g}" for key in ("low", "high")]

    def _set_limits(self, texts: dict[str, str]) -> None:
        self._require_unlocked()
        low, high = (real_number(text, "From and To are wavelengths in nm") for text in texts.values())
        if not LOW <= low <= high - 10 <= HIGH - 10:
            raise Refusal(f"At least 10 nm between {LOW} and {HIGH}")
        self._show(low, high)
