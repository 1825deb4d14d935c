"""A window below all others, which colors the desktop and keeps maximised windows off edges of the screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from Xlib import X, Xatom, display

MANAGED_S, LOOK_S = 20.0, 0.02  # for the window manager to follow; between two looks


class Floor:
    """The floor of the display that the environment names; at first there is none."""

    def __init__(self) -> None:
        self.display = display.Display()
        self.root = self.display.screen().root
        self.window = None

    def lay(self, box: Sequence[int] | None, color: str | None) -> None:
        """Leave maximised windows this box (x, y, width, height in px), on a color #rrggbb; None: everything.

        RuntimeError if the window manager does not follow.
        """
        self._until(bool)  # what is there before the window manager is not always managed
        screen = self.display.screen()
        width, height = screen.width_in_pixels, screen.height_in_pixels
        if self.window:
            self.window.destroy()
            self.window = None
        if box:
            x, y, w, h = box
            parts = (257 * part for part in bytes.fromhex(color[1:]))
            pixel = screen.default_colormap.alloc_color(*parts).pixel
            whole = 0, 0, width, height
            window = self.root.create_window(*whole, 0, screen.root_depth, background_pixel=pixel)
            edges = [x, width - x - w, y, height - y - h, *(0, height - 1) * 2, *(0, width - 1) * 2]
            window.change_property(self._atom("STRUT_PARTIAL"), Xatom.CARDINAL, 32, edges)
            kind = [self._atom("WINDOW_TYPE_DESKTOP")]
            window.change_property(self._atom("WINDOW_TYPE"), Xatom.ATOM, 32, kind)
            window.set_wm_hints(flags=1, input=0)  # it never takes the keyboard
            window.map()
            self.window = window
        self._until(lambda area: area == list(box or (0, 0, width, height)))

    def _atom(self, name: str) -> int:
        return self.display.intern_atom(f"_NET_WM_{name}")

    def _until(self, right: Callable[[list[int]], bool]) -> None:
        """Wait until the room that the window manager gives is right."""
        name, end = self.display.intern_atom("_NET_WORKAREA"), time.monotonic() + MANAGED_S
        while True:
            self.display.sync()
            found = self.root.get_full_property(name, X.AnyPropertyType)
            area = list(found.value)[:4] if found else []
            if right(area):
                return
            if time.monotonic() > end:
                raise RuntimeError(f"the window manager gives windows {area}")
            time.sleep(LOOK_S)
