"""Spectra: emission and absorption spectra of a few lamps (`spectroscopy.py`, `pictures.py`); SciPy computes.

No model is trained on it (`NOVEL_APPS`).  What the interface does not say: peaks are found only once the
baseline is subtracted, dark lines only in an inverted trace; whatever changes the trace forgets its peaks;
only a *selected* peak is marked; lamp and slit cannot change while the trace is on hold, nor the range while
it is locked; a smoothing window is an odd number of pixels; an element is identified by its peaks.
"""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from sciencedesk.apps.spectra.pictures import draw_close, draw_lamp, draw_plot, draw_scores, plot_boxes
from sciencedesk.apps.spectra.spectroscopy import HIGH, LAMPS, LOW, SAMPLES, dark, peaks, resolution, scores
from sciencedesk.desk.desk import Desk
from sciencedesk.desk.widgets import Rows, Slider

_OF_THE_TRACE = ("lamp", "slit", "inverted", "window", "baseline", "threshold")  # what the peaks depend on
_RANGES = {"Full": (LOW, HIGH), "Violet end": (LOW, 470), "Middle": (470, 610), "Red end": (610, HIGH)}
_SYMBOLS = {"H": "Hydrogen", "He": "Helium", "Na": "Sodium", "Ne": "Neon", "Hg": "Mercury"}


class Spectra(Desk):
    app = "spectra"
    title = "Spectra"
    defaults = {
        "tab": "Spectrum", "lamp": "Hydrogen", "chosen": "", "slit": 25, "held": False, "inverted": False, "window": 1,
        "baseline": False, "threshold": 5, "found": False, "peak": "", "marks": [], "measured": [], "matched": False,
        "order": "position", "low": LOW, "high": HIGH, "locked": False, "grid": False, "fill": False, "labels": True,
        "rainbow": False, "scale": "linear", "lines": "none", "note": "",
    }  # fmt: skip

    def build(self) -> None:
        self.add_menu("File", {"Note": lambda: self.open_dialog(self._note),
                               "Clear marks": lambda: self.set("marks", []), "Reset": lambda: self.reset({})})  # fmt: skip
        self.add_menu("View", {"Grid": ("grid", True), "Fill": ("fill", True), "Labels": ("labels", True),
                               "Rainbow": ("rainbow", True), "Log scale": ("scale", "log"),
                               "Linear scale": ("scale", "linear")})  # fmt: skip
        ranges = {name: lambda ends=ends: self._show(*ends) for name, ends in _RANGES.items()}
        self.add_menu("Range", {"Lock range": ("locked", True)} | ranges |
                      {"Limits": lambda: self.open_dialog(self._limits)})  # fmt: skip
        self.add_menu("Signal", {"Hold": ("held", True), "Invert": ("inverted", True),
                                 "Subtract baseline": ("baseline", True),
                                 "Smoothing": lambda: self.open_dialog(self._smoothing)})  # fmt: skip
        self._peak_menu = self.add_menu("Analysis", {"Find peaks": self._find, "Mark": self._mark,
                                                     "Threshold": lambda: self.open_dialog(self._threshold)})  # fmt: skip
        self.add_menu("Lines", {"No lines": ("lines", "none")} |
                      {f"{symbol} lines": ("lines", element) for symbol, element in _SYMBOLS.items()})  # fmt: skip
        self.shortcuts = {"ctrl f": self._find, "ctrl g": lambda: self.set("grid", not self.values["grid"])}
        self._note = self.add_dialog("Note on the trace", 84, lambda texts: self.set("note", texts["Text"]), ["Text"],
                                     lambda: {"Text": self.values["note"]})  # fmt: skip
        self._limits = self.add_dialog("Limits in nm", 106, self._set_limits, ["From", "To"],
                                       lambda: {"From": f"{self.values['low']:g}", "To": f"{self.values['high']:g}"})  # fmt: skip
        odd = [*map(str, [1, *range(5, 52, 2)])]
        self._smoothing = self.add_entry(
            "Smoothing", "Window", "window", odd, "Window is an odd number from 5 to 51, or 1"
        )
        percent = [*map(str, range(2, 91))]
        self._threshold = self.add_entry(
            "Threshold", "Percent", "threshold", percent, "Percent is a number from 2 to 90"
        )

        self.plot = self.add("Spectrum", self.picture("Plot", draw_plot, plot_boxes), 4, 4, 244, 124)
        self.plot.clicked.connect(self._pick)
        self.plot.dragged.connect(lambda a, b, dx, dy: self._measure(a, b))
        names = ("Found", "Peak", "Gap", "Marks")
        self.side = {
            name: self.add("Spectrum", self.label(name), 252, 4 + 20 * i, 84, 18)
            for i, name in enumerate(names)
        }
        self.side["Marks"].setGeometry(self.side["Marks"].geometry().adjusted(0, 0, 0, 108))
        self.side["Marks"].setWordWrap(True)
        self.side["Marks"].setAlignment(Qt.AlignmentFlag.AlignTop)
        self.add("Spectrum", QLabel("Center", self), 6, 134, 42, 20)
        self.center = self.add("Spectrum", Slider("Center", range(400, 701, 50), self), 48, 132, 200, 28)
        self.center.changed.connect(lambda middle: self._show(middle - 50, middle + 50))
        self.add("Spectrum", QLabel("Slit", self), 6, 164, 40, 20)
        self.slit = self.add("Spectrum", Slider("Slit", (5, 10, 25, 50, 100), self), 48, 162, 200, 28)
        self.slit.changed.connect(lambda width: self._expose(slit=width))

        self.list = self.add("Peaks", Rows("Peak list", self), 6, 6, 140, 184)
        self.list.itemClicked.connect(lambda item: self.set("peak", item.text()))
        self.list.opened.connect(self._zoom)
        self.nearest = self.add("Peaks", self.field("Nearest", self._select_nearest), 156, 6, 174, 24)
        self.nearest.setPlaceholderText("Nearest to, nm")
        for i, order in enumerate(("position", "height")):
            self.add("Peaks", self.choice(f"By {order}", "order", order), 156 + 89 * i, 36, 85, 24)
        self.info = {name: self.add("Peaks", self.label(name), 158 + 89 * (i % 2), 66 + 20 * (i // 2), 86, 18)
                     for i, name in enumerate(("Count", "Above", "Peak", "Width", "Height", "Window"))}  # fmt: skip
        self.add("Peaks", self.picture("Close-up", draw_close), 156, 130, 174, 60)

        self.lamps = self.add("Lamps", Rows("Lamp list", self), 6, 6, 140, 184)
        self.lamps.itemClicked.connect(lambda item: self.set("chosen", item.text()))
        self.lamps.opened.connect(lambda name: self._expose(lamp=name))
        self.add(
            "Lamps", self.button("Load", lambda: self._expose(lamp=self.values["chosen"])), 156, 6, 84, 24
        )
        self.loaded = {name: self.add("Lamps", self.label(name), 158, 38 + 20 * i, 172, 18)
                       for i, name in enumerate(("Loaded", "Kind", "Resolution"))}  # fmt: skip
        self.add("Lamps", self.picture("Eyepiece", draw_lamp), 156, 104, 174, 86)

        self.add("Match", self.button("Identify", self._identify), 6, 6, 100, 24)
        self.element = self.add("Match", self.label("Element"), 116, 8, 210, 20)
        self.add("Match", self.picture("Scores", draw_scores), 6, 36, 324, 154)

    def refresh(self) -> None:
        v, found = self.values, peaks(self.values)
        peak, facts = found.get(v["peak"]), self.facts()
        count, gap = str(facts["count"]), f"{facts['gap']} nm" if facts["gap"] else ""
        texts = {"Found": count, "Peak": v["peak"], "Gap": gap, "Marks": ", ".join(v["marks"]),
                 "Count": count, "Above": f"{v['threshold']} %", "Window": str(v["window"]),
                 "Width": f"{peak.width:.1f} nm" if peak else "", "Height": f"{peak.height:.0f}" if peak else "",
                 "Loaded": v["lamp"], "Resolution": f"{resolution(v['slit']):.1f} nm",
                 "Kind": "unknown" if v["lamp"] in SAMPLES else "dark lines" if dark(v["lamp"]) else "bright lines"}  # fmt: skip
        for name, label in [*self.side.items(), *self.info.items(), *self.loaded.items()]:
            self.show_value(label, texts[name] or "-")
        self.show_value(self.element, facts["element"] or "-")
        self.list.fill(
            sorted(found, key=lambda name: -found[name].height) if v["order"] == "height" else found,
            v["peak"],
        )
        self.lamps.fill(LAMPS, v["chosen"])
        middle = (v["low"] + v["high"]) / 2
        self.center.value = min(self.center.ticks, key=lambda tick: abs(tick - middle))
        self.slit.value = v["slit"]
        hold, lock = ", on hold" if v["held"] else "", ", locked" if v["locked"] else ""
        self.message(f"{v['lamp']}, {v['slit']} um{hold}   {v['low']:g} to {v['high']:g} nm{lock}")

    def facts(self) -> dict[str, Any]:
        v, found = self.values, peaks(self.values)
        fits = scores(v) if v["matched"] else {}
        return {
            "count": len(found), "strongest": max(found, key=lambda name: found[name].height, default=""),
            "gap": f"{abs(float(v['measured'][0]) - float(v['measured'][1])):.1f}" if v["measured"] else "",
            "element": max(fits, key=lambda element: fits[element], default=""),
        }  # fmt: skip

    # -- commands ----------------------------------------------------------------------------------------------------

    def set(self, key: str, value: Any) -> None:
        if key in _OF_THE_TRACE and self.values[key] != value:
            self.values |= {"found": False, "peak": "", "measured": [], "matched": False}
        super().set(key, value)

    def _expose(self, **change: Any) -> None:
        """Record a new trace after a change of lamp or slit, unless the detector is on hold."""
        ((key, value),) = change.items()
        if not value:
            self.message("No lamp is chosen")
        elif self.values["held"]:
            self.message("The trace is on hold")
        else:
            if key == "lamp":
                self.values |= {"chosen": value} | ({"marks": []} if value != self.values["lamp"] else {})
            self.set(key, value)
            self._show_values()

    def _show(self, low: float, high: float) -> None:
        if self.values["locked"]:
            self.message("The range is locked")
        else:
            self.change(low=low, high=high)

    def _zoom(self, name: str) -> None:
        """Show 20 nm around a peak."""
        middle = round(min(max(float(name), LOW + 10), HIGH - 10))
        self.set("peak", name)
        if not self.values["locked"]:
            self.set("tab", "Spectrum")
        self._show(middle - 10, middle + 10)

    def _find(self) -> None:
        v = self.values
        if not v["baseline"]:
            self.message("The baseline is not subtracted")
        elif dark(v["lamp"]) != v["inverted"]:
            self.message("The lines point downwards")
        else:
            self.set("found", True)
            self.message(f"Peaks: {len(peaks(v))}")

    def _pick(self, name: str, button: str) -> None:
        if not name:
            return
        self.set("peak", name)
        if button == "double":
            self._zoom(name)
        elif button == "right":
            self.open_menu(
                self._peak_menu,
                self.plot.mapTo(self, plot_boxes(self.values, self.plot.rect())[name].center()),
            )

    def _measure(self, first: str, second: str) -> None:
        if first and second and first != second:
            self.set("measured", sorted([first, second]))

    def _select_nearest(self) -> None:
        found = peaks(self.values)
        try:
            wanted = float(self.nearest.text())
        except ValueError:
            self.message("Nearest to a wavelength in nm")
            return
        if not LOW <= wanted <= HIGH:
            self.message(f"The detector covers {LOW} to {HIGH} nm")
        elif not found:
            self.message("No peaks are found")
        else:
            self.nearest.clear()
            self.set("peak", min(found, key=lambda name: abs(found[name].wavelength - wanted)))

    def _mark(self) -> None:
        name = self.values["peak"]
        if name not in peaks(self.values):
            self.message("No peak is selected")
        elif name not in self.values["marks"]:
            self.set("marks", self.values["marks"] + [name])

    def _identify(self) -> None:
        if peaks(self.values):
            self.set("matched", True)
        else:
            self.message("No peaks are found")

    # -- dialogs -----------------------------------------------------------------------------------------------------

    def _set_limits(self, texts: dict[str, str]) -> str | None:
        if self.values["locked"]:
            return "The range is locked"
        try:
            low, high = float(texts["From"]), float(texts["To"])
        except ValueError:
            return "From and To are wavelengths in nm"
        if not LOW <= low <= high - 10 <= HIGH - 10:
            return f"At least 10 nm between {LOW} and {HIGH}"
        self._show(low, high)
        return None
