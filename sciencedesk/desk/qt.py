"""The process's Qt application: drawing off screen, or in windows on the person's display."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication

from coda_lib.errors import UserError

# settings of a desktop that Qt would follow
_SCALES = ("QT_SCALE_FACTOR", "QT_SCREEN_SCALE_FACTORS", "QT_FONT_DPI")
_PACKAGES = {  # what Qt's windows need under X11 beyond what it needs to draw off screen, with its libraries
    "libx11-xcb1": "libX11-xcb.so.1", "libxcb-cursor0": "libxcb-cursor.so.0",
    "libxcb-icccm4": "libxcb-icccm.so.4", "libxcb-image0": "libxcb-image.so.0",
    "libxcb-keysyms1": "libxcb-keysyms.so.1", "libxcb-randr0": "libxcb-randr.so.0",
    "libxcb-render-util0": "libxcb-render-util.so.0", "libxcb-shape0": "libxcb-shape.so.0",
    "libxcb-sync1": "libxcb-sync.so.1", "libxcb-xfixes0": "libxcb-xfixes.so.0",
    "libxkbcommon-x11-0": "libxkbcommon-x11.so.0",
}  # fmt: skip

TEXT_PX = 11  # height of a letter's box
# of a theme: window and buttons, fields and lists, text, selection
_THEMES = {
    "light": ("#f3f3f3", None, None, "#1f6feb"),
    "dark": ("#34383e", "#22252a", "#e6e6e6", "#1f6feb"),
    "contrast": ("#0a2472", "#000c3f", "#ffff00", "#c2185b"),
}


def font(px: int) -> QFont:
    """The kit's font at a size."""
    letters = QFont("DejaVu Sans")
    letters.setPixelSize(px)
    return letters


def palette(theme: str) -> QPalette:
    """The colours of a theme: light, dark or (high) contrast."""
    role, (window, base, text, highlight) = QPalette.ColorRole, _THEMES[theme]
    colors = QPalette(QColor(window))
    colors.setColor(role.Highlight, QColor(highlight))
    if base:
        colors.setColor(role.Base, QColor(base))
    for kind in (role.WindowText, role.Text, role.ButtonText, role.PlaceholderText) if text else ():
        colors.setColor(kind, QColor(text))
    return colors


def application(visible: bool = False) -> QApplication:
    """The process's Qt application with the kit's font and colours, made on first use.

    The first call decides for the whole process whether windows are drawn off screen, the same on every
    machine and whether or not it has a display, or are real ones.  UserError for real ones where there is no
    display, or after others were drawn off screen.
    """
    app = QApplication.instance()
    if app is None:
        if not visible:
            for name in _SCALES:
                os.environ.pop(name, None)
        elif sys.platform == "linux" and not os.environ.get("WAYLAND_DISPLAY"):
            _require_libraries()
        # Qt takes the first platform of a list that works, and aborts the process if none does
        windows = ["-platform", "xcb;wayland;offscreen"] if sys.platform == "linux" else []
        app = QApplication(["coda", *(windows if visible else ["-platform", "offscreen"])])
        app.setStyle("Fusion")
        # matplotlib's own font file: the same pixels on every machine, whatever fonts it has
        fonts = Path(importlib.util.find_spec("matplotlib").origin).parent / "mpl-data" / "fonts" / "ttf"
        QFontDatabase.addApplicationFont(str(fonts / "DejaVuSans.ttf"))
        app.setFont(font(TEXT_PX))
        app.setPalette(palette("light"))
    if visible and app.platformName() == "offscreen":
        raise UserError(
            "there is no display to open a window on, or Qt cannot use it: on Debian or Ubuntu it needs the "
            f"packages {' '.join(_PACKAGES)}. Everything but real windows works without a display"
        )
    return app


def _require_libraries() -> None:
    """UserError that names the packages of Qt's windows that are missing, before Qt complains of them."""
    missing = []
    for package, library in _PACKAGES.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            missing.append(package)
    if missing:
        advice = f"apt-get install {' '.join(missing)}"
        raise UserError(
            f"Qt opens no window without libraries that are missing; on Debian or Ubuntu: {advice}"
        )
