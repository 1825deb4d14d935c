"""GRASS GIS's window, started again and again by one process, with a socket for its state.

Debian's Python runs it as `grass_hook.py HOME WINDOW`; WINDOW is the folder of GRASS's window. HOME/first is
copied to HOME/user, where GRASS finds its data; after SIGHUP there are a new copy and a new window. Loading
the window's modules takes seconds and is done once: each window is a fork of this process, which ends when
the window is closed. The socket HOME/run/grass.sock answers requests, which are JSON lines with the secret.
"""

import importlib
import json
import os
import shutil
import signal
import socketserver
import sys
import threading
import time
from pathlib import Path
from queue import Queue

SECRET = os.environ.pop("CODA_SECRET")  # hidden from programs that a window starts
LONGEST_S = 20.0  # no waiting for a module that runs longer
MODULES = (
    "core.gconsole", "lmgr.layertree", "lmgr.workspace", "lmgr.pyshell", "mapdisp.frame",
    "datacatalog.catalog", "gui_core.goutput", "gui_core.forms",
)  # fmt: skip
sys.path.insert(0, sys.argv[2])
import wx  # noqa: E402
import wx.adv  # noqa: E402
import wxgui  # noqa: E402

for _name in MODULES:
    importlib.import_module(_name)
import core.gconsole  # noqa: E402
from core.settings import UserSettings  # noqa: E402

running = {}  # console: when its last module was started


def supervise(home):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGCHLD})
    window = begin(home)
    while True:
        if signal.sigwait({signal.SIGHUP, signal.SIGCHLD}) == signal.SIGHUP:
            os.killpg(window, signal.SIGKILL)
            os.waitpid(window, 0)
            window = begin(home)
        elif (ended := os.waitpid(window, os.WNOHANG))[0]:
            os._exit(os.waitstatus_to_exitcode(ended[1]) & 0xFF)


def begin(home):
    old = home / f"old-{time.monotonic_ns()}"
    if (home / "user").exists():
        (home / "user").rename(old)  # a module that is being killed may still write there
    shutil.copytree(home / "first", home / "user")
    shutil.rmtree(old, ignore_errors=True)
    (home / "run" / "grass.sock").unlink(missing_ok=True)
    window = os.fork()
    if not window:
        os.setpgid(0, 0)
        os.chdir(home / "user")
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        show(home)
        os._exit(0)
    os.setpgid(window, window)
    return window


def show(home):
    """Run GRASS's window until it is closed."""
    first = wxgui.GMApp.OnInit
    new = home / "run" / "new.sock"
    server = socketserver.ThreadingUnixStreamServer(str(new), Answer)
    new.chmod(0o600)
    new.rename(home / "run" / "grass.sock")  # once it listens

    def on_init(app):
        done, without = first(app), wx.Frame(None)  # without a window the loop would end at once
        from main_window.frame import GMFrame  # its import needs the app

        build, GMFrame.BuildPanes = GMFrame.BuildPanes, lambda frame: (build(frame), arrange(frame))
        wx.CallAfter(without.Destroy)
        wx.CallAfter(threading.Thread(target=server.serve_forever, daemon=True).start)
        return done

    wx.adv.SplashScreen = lambda **_: None
    wxgui.GMApp.OnInit = on_init
    UserSettings.ReadSettingsFile()  # those of this start
    count_modules()
    wxgui.main([""])


def arrange(frame):
    """Arrange the panes for a small screen: layers at the left, the console below the map."""
    panes = frame._auimgr
    panes.GetPane("layers").Position(0).BestSize((236, 260)).MinSize((120, 100))
    panes.GetPane("datacatalog").Position(1).BestSize((236, 130)).MinSize((120, 60))
    tools = panes.GetPane(panes.GetNotebooks()[0])
    tools.Bottom().Layer(0).Row(0).BestSize((430, 160)).MinSize((200, 150))
    panes.Update()


def count_modules():
    console, thread = core.gconsole.GConsole, core.gconsole.CmdThread
    start, done = thread.RunCmd, console.OnCmdDone

    def started(self, *args, **kwargs):
        running[self] = time.monotonic()
        return start(self, *args, **kwargs)

    def ended(self, event):
        running.pop(self.cmdThread, None)
        return done(self, event)

    thread.RunCmd, console.OnCmdDone = started, ended


class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        request, answers = json.loads(self.rfile.readline()), Queue()
        if request.pop("secret") == SECRET:
            wx.CallAfter(lambda: answers.put(answer(request.pop("do"), request)))
            self.wfile.write(json.dumps(answers.get()).encode() + b"\n")


def answer(do, given):
    functions = {"busy": busy, "shown": shown, "widgets": widgets, "layer": layer, "reload": reload}
    try:
        return {"ok": functions[do](**given)}
    except Exception as error:  # the client is to know every error
        return {"error": f"{type(error).__name__}: {error}"}


def main_frame():
    frame = wx.GetApp().GetTopWindow()
    return frame if frame and frame.GetName() == "LayerManager" and not frame.IsBeingDeleted() else None


def trees():
    pages = main_frame().notebookLayers
    return [pages.GetPage(number).maptree for number in range(pages.GetPageCount())]


def busy():
    """Whether something is not done yet: the window, its catalog, a module, or the drawing of a map."""
    if main_frame() is None or any(time.monotonic() - since < LONGEST_S for since in running.values()):
        return True
    if "busy" in vars(main_frame().datacatalog.tree):
        return True
    maps = [(tree, tree.GetMapDisplay().MapWindow2D) for tree in trees()]
    if any(tree.rerender or window.timerRunId or tree.Map.GetRenderMgr()._rendering for tree, window in maps):
        return True
    return redraw_once()


def redraw_once():
    """Redraw the catalog of a new window once: drawn while it grows, its dotted lines begin at random."""
    tree = main_frame().datacatalog.tree
    first, tree.coda_redrawn = not hasattr(tree, "coda_redrawn"), True
    if first:
        tree.Refresh()
    return first


def shown():
    pages = main_frame().notebookLayers
    displays = []
    for number, tree in enumerate(trees()):
        display, region = tree.GetMapDisplay(), tree.Map.region
        displays.append({
            "name": pages.GetPageText(number), "current": number == pages.GetSelection(),
            "layers": list(layers(tree)), **{edge: float(region[edge]) for edge in "nsew"},
            "overlays": [item.cmd for item in display.decorations.values()],
        })  # fmt: skip
    return displays


def layers(tree):
    """The layers from top to bottom."""
    item = tree.GetFirstChild(tree.root)[0]
    while item and item.IsOk():
        about, parent = tree.GetLayerInfo(item), tree.GetItemParent(item)
        map_layer = about["maplayer"]
        yield {
            # a layer whose map is not chosen yet has none
            "name": map_layer and map_layer.GetName() or tree.GetItemText(item),
            "type": about["type"],
            "checked": tree.IsItemChecked(item), "opacity": map_layer.GetOpacity() if map_layer else None,
            "command": about["cmd"], "group": None if parent == tree.root else tree.GetItemText(parent),
        }  # fmt: skip
        item = tree.GetNextItem(item)


def widgets():
    """What can be clicked, in the front dialog or else in all windows, and the field that takes a text."""
    windows = [window for window in wx.GetTopLevelWindows() if window.IsShown()]
    dialogs = [window for window in windows if isinstance(window, wx.Dialog)]
    focused = "Command" if type(wx.Window.FindFocus()).__name__ == "GPromptSTC" else None
    return [part for window in dialogs[-1:] or windows for part in parts(window)], focused


def parts(window):
    """The named parts of a window and of those in it that are shown."""
    left, top, width, height = window.GetScreenRect()
    kind = type(window).__name__
    if kind == "LayerTree":
        yield from rows(window, "", 27, 115)
    elif kind == "DataCatalogTree":
        yield from rows(window, "map ", 22, 80)
    elif kind == "AuiTabCtrl":
        for tab in window.GetPages():
            x, y, wide, high = tab.rect
            mark = "selected" if tab.active else ""
            yield [f"{tab.caption} tab", "tab", [left + x, top + y, wide, high], mark]
    elif kind == "GPromptSTC":
        yield ["Command", "field", [left, top, width, height], window.GetText()]
    elif isinstance(window, wx.CheckBox) and window.GetLabelText():
        yield [window.GetLabelText(), "toggle", [left, top, width, height], "on" if window.GetValue() else ""]
    elif isinstance(window, wx.Button) and window.GetLabelText():
        yield [window.GetLabelText(), "button", [left, top, width, height], ""]
    for child in window.GetChildren():
        if child.IsShownOnScreen():
            yield from parts(child)


def rows(tree, prefix, indent, wide):
    """The entries of a tree with their boxes for a check mark: GRASS draws both in an item's rectangle."""
    corner, inside = tree.ClientToScreen(wx.Point(0, 0)), tree.GetClientRect()
    item = tree.GetFirstChild(tree.root if hasattr(tree, "root") else tree.GetRootItem())[0]
    while item and item.IsOk():
        box, name = tree.GetBoundingRect(item), tree.GetItemText(item).partition("@")[0]
        if box and not name.startswith("/") and inside.Contains(box.x + 1, box.y + box.height // 2):
            x, y = corner.x + box.x, corner.y + box.y
            if prefix == "":
                mark = "on" if tree.IsItemChecked(item) else ""
                yield [f"box of {name}", "toggle", [x, y + 4, 17, box.height - 8], mark]
            yield [prefix + name, "row", [x + indent, y, wide, box.height], ""]
        item = tree.GetNextItem(item) if hasattr(tree, "GetNextItem") else tree.GetNextVisible(item)


def layer(name, type, checked, opacity):
    command = {"raster": ["d.rast"], "vector": ["d.vect"]}[type] + [f"map={name}"]
    tree = main_frame().GetLayerTree()
    tree.AddLayer(ltype=type, lname=name, lchecked=checked, lopacity=opacity, lcmd=command)


def reload():
    """Show changes of the data that were made outside the window."""
    main_frame().datacatalog.tree.ReloadCurrentMapset()
    main_frame()._giface.updateMap.emit()


if __name__ == "__main__":
    supervise(Path(sys.argv[1]))
