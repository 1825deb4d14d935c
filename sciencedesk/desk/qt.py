"""The process's Qt application: drawing off screen, or in windows on the person's display."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication

from coda_lib.errors import UserError

# settings of a desktop that Qt would follow
_SCALES = ("QT_SCALE_FACTOR", "QT_SCREEN_SCALE_FACTORS", "QT_FONT_DPI")
_PACKAGES = (  # what Qt's windows need under X11 beyond what it needs to draw off screen
    "libx11-xcb1 libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0 "
    "libxcb-render-util0 libxcb-shape0 libxcb-sync1 libxcb-xfixes0 libxkbcommon-x11-0"
)


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
        # Qt takes the first platform of a list that works, and aborts the process if none does
        windows = ["-platform", "xcb;wayland;offscreen"] if sys.platform == "linux" else []
        app = QApplication(["coda", *(windows if visible else ["-platform", "offscreen"])])
        app.setStyle("Fusion")
        # matplotlib's own font file: the same pixels on every machine, whatever fonts it has
        fonts = Path(importlib.util.find_spec("matplotlib").origin).parent / "mpl-data" / "fonts" / "ttf"
        QFontDatabase.addApplicationFont(str(fonts / "DejaVuSans.ttf"))
        font = QFont("DejaVu Sans")
        font.setPixelSize(11)
        app.setFont(font)
        palette = QPalette(QColor("#f3f3f3"))
        palette.setColor(QPalette.ColorRole.Highlight, QColor("#1f6feb"))
        app.setPalette(palette)
    if visible and app.platformName() == "offscreen":
        raise UserError(
            "there is no display to open a window on, or Qt cannot use it: on Debian or Ubuntu it needs the "
            f"packages {_PACKAGES}. Everything but real windows works without a display"
        )
    return app
