"""What runs inside PyMOL: its Python gets the source of `serve`, without the rest of this module."""

from __future__ import annotations


def serve() -> None:
    """Serve from inside PyMOL, whose Python gets the source of this function alone."""
    import json
    import math
    import os
    import threading
    from collections import defaultdict

    from chempy import cpv
    from pmg_qt.pymol_qt_gui import window
    from pymol import cmd, rpc, setting
    from pymol.constants import repres
    from pymol.Qt import QtCore, QtWidgets

    home, boolean, color_type = os.getcwd(), 1, 5
    secret = os.environ.pop("CODA_SECRET")  # part of the URL
    application = QtWidgets.QApplication.instance()
    if style := os.environ.pop("CODA_STYLE"):
        application.setStyleSheet(application.styleSheet() + style)
    ways = [(name, 1 << bit) for name, bit in repres.items() if bit >= 0]
    QtWidgets.QApplication.setCursorFlashTime(0)  # so that the picture stands still
    QtWidgets.QApplication.desktop()  # otherwise made by the first drag

    class Errands(QtCore.QObject):
        """Runs functions in the thread of the window, and returns their results."""

        given = QtCore.pyqtSignal(object)

        def run(self, work):
            results, done = [], threading.Event()
            self.given.emit(lambda: (results.append(work()), done.set()))
            done.wait()
            return results[0]

    errands = Errands()
    errands.given.connect(lambda work: work(), QtCore.Qt.QueuedConnection)

    def call(name, given, named):
        """Call a command of PyMOL; return the error message, or None."""
        try:
            getattr(cmd, name)(*given, **named)
        except Exception as error:  # the client is to know every error
            return str(error) or type(error).__name__

    def flush():
        """Draw and write to the console now; PyMOL's timers would do it within half a second."""
        errands.run(lambda: (window.pymolwidget._pymolProcess(), window.update_feedback()))

    def clear():
        """Reset what can be reset; return the rest of the state, to be compared with that after the start."""
        errands.run(leave)
        cmd.mset()  # otherwise the bar of a movie stays
        cmd.reinitialize()
        cmd.enable("all")  # also the entry 'all' in the list of objects
        os.chdir(home)
        return errands.run(tidy)

    def leave():
        """Close PyMOL's menus and submenus by clicks beside them."""
        for x in range(1, 100, 20):
            for released in (0, 1):
                window.pymolwidget.pymol.button(0, released, x, 1, 0)

    def tidy():
        while menu := QtWidgets.QApplication.activePopupWidget():
            menu.close()
        window.update_feedback()
        window.browser.clear()
        window.lineedit.clear()
        window._setup_history()
        window.lineedit.setFocus()
        kinds = sorted(type(widget).__name__ for widget in QtWidgets.QApplication.allWidgets())
        parts = (window, window.ext_window, window.menubar)
        places = [[*part.geometry().getRect(), part.isVisible()] for part in parts]
        return [kinds, places, sorted(cmd.keyword), sorted(cmd.key_mappings)]

    def rgb(index):
        if index >= 0:
            return "#{:02x}{:02x}{:02x}".format(*(round(255 * part) for part in cmd.get_color_tuple(index)))
        return None

    def value(kind, content):
        return bool(content) if kind == boolean else rgb(content) if kind == color_type else content

    def atoms():
        found, chosen = [], defaultdict(list)
        fields = "model, index, chain, resi, resn, name, elem, color, reps, label, ss"
        cmd.iterate("all", f"found.append(({fields}))", space={"found": found})
        for name in cmd.get_names("public_selections"):
            for atom in cmd.index(f"%{name}"):
                chosen[atom].append(name)
        listed = []
        for model, index, *which, color, reps, label, ss in found:
            shown = [way for way, bit in ways if reps & bit]
            listed.append((model, *which, rgb(color), shown, label, ss, chosen[model, index]))
        return listed

    def about(name):
        its = cmd.get_object_settings(name) or ()
        return {
            "type": cmd.get_type(name).removeprefix("object:"),
            "enabled": name in cmd.get_names("objects", 1), "states": cmd.count_states(name),
            "settings": {setting._get_name(index): value(kind, content) for index, kind, content in its},
        }  # fmt: skip

    def dihedral(first, second, third, last):
        axis = cpv.normalize(cpv.sub(third, second))
        a, b = (cpv.cross_product(axis, cpv.sub(*ends)) for ends in ((first, second), (last, third)))
        return math.degrees(math.atan2(cpv.dot_product(cpv.cross_product(a, b), axis), cpv.dot_product(a, b)))

    def measured(name):
        """The values of a measurement, computed from the points that a session file has for each state."""
        labels = repres["labels"] in cmd.get_vis()[name][2]
        found = {"labels": labels, "distances": [], "angles": [], "dihedrals": []}
        for state in filter(None, cmd.get_session(name, partial=1)["names"][0][5][2]):
            for kind, block, points, length, measure in (
                ("distances", state[1], 2, 6, cpv.distance),
                ("angles", state[4], 3, 15, lambda *at: math.degrees(cpv.get_angle_formed_by(*at))),
                ("dihedrals", state[6], 4, 18, dihedral),
            ):
                for start in range(0, len(block or ()), length):
                    at = (block[first : first + 3] for first in range(start, start + 3 * points, 3))
                    found[kind].append(measure(*at))
        return found

    def state():
        wizard = cmd.get_wizard()
        settings = ((name, *cmd.get_setting_tuple(name)) for name in setting.get_name_list())
        return json.dumps({
            "objects": {name: about(name) for name in cmd.get_names("public_objects")},
            "atoms": atoms(),
            "selections": {name: cmd.count_atoms(f"%{name}") for name in cmd.get_names("public_selections")},
            "active": cmd.get_names("public_selections", 1),
            "measurements": {name: measured(name) for name in cmd.get_names_of_type("object:measurement")},
            "settings": {
                name: value(kind, content[0] if len(content) == 1 else content)
                for name, kind, content in settings
            },
            "view": cmd.get_view(), "scenes": cmd.get_scene_list(),
            "wizard": wizard and type(wizard).__name__, "frames": cmd.count_frames(),
            "frame": cmd.get_frame(), "playing": bool(cmd.get_movie_playing()),
        })  # fmt: skip

    def place(widget, box):
        """A box of a widget on the screen."""
        corner = widget.mapToGlobal(box.topLeft())
        return [corner.x(), corner.y(), box.width(), box.height()]

    def widgets():
        return errands.run(lambda: (list(named()), typing()))

    def typing():
        """Whether the command line takes what is typed: it does for the picture, too."""
        focused = QtWidgets.QApplication.focusWidget() in (window.lineedit, window.pymolwidget)
        return focused and QtWidgets.QApplication.activePopupWidget() is None

    def named():
        """What can be clicked and no menu covers: (name, role, box on the screen in px, text)."""
        popups = [menu for menu in QtWidgets.QApplication.topLevelWidgets()
                  if isinstance(menu, QtWidgets.QMenu) and menu.isVisible()]  # fmt: skip
        covered = [place(menu, menu.rect()) for menu in popups]

        def free(box):
            x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
            return not any(a <= x < a + width and b <= y < b + height for a, b, width, height in covered)

        for menu in popups:
            for action in menu.actions():
                if action.text() and action.isVisible() and action.isEnabled():
                    role = "toggle" if action.isCheckable() else "button"
                    box, mark = place(menu, menu.actionGeometry(action)), "on" if action.isChecked() else ""
                    yield action.text().replace("&", ""), role, box, mark
        for action in window.menubar.actions():
            if free(box := place(window.menubar, window.menubar.actionGeometry(action))):
                yield action.text().replace("&", ""), "menu", box, ""
        for button in window.findChildren(QtWidgets.QAbstractButton):
            box = place(button, button.rect())
            if button.isVisible() and button.text() and free(box):
                yield button.text().replace("&", ""), "button", box, ""
        if window.lineedit.isVisible() and free(box := place(window.lineedit, window.lineedit.rect())):
            yield "Command", "field", box, window.lineedit.text()
        panel, height = window.pymolwidget, 18
        if cmd.get_setting_boolean("internal_gui"):
            left = panel.width() - cmd.get_setting_int("internal_gui_width")
            for row, name in enumerate(["all", *cmd.get_names("public")]):
                box = place(panel, QtCore.QRect(left, row * height, 134, height))
                if free(box):
                    enabled = name == "all" or name in cmd.get_names("public", 1)
                    yield name, "row", box, "on" if enabled else ""

    rpc.launch_XMLRPC("127.0.0.1", 0)
    rpc.serv.RequestHandlerClass.rpc_paths = (f"/{secret}",)
    for function in (call, flush, clear, state, widgets):
        rpc.serv.register_function(function)
