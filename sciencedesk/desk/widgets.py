"""The widgets of ScienceDesk that Qt lacks; they handle the mouse alike on and off screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QKeySequence, QPainter, QTransform
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QTabBar,
    QWidget,
)

from sciencedesk.desk.qt import palette

# px of the screen; multiples of 28, so that Qwen2.5-VL's processor does not resize the picture
WIDTH, HEIGHT = 336, 252
Draw, Objects = Callable[[QPainter, QRect], None], Callable[[QRect], Mapping[str, QRect]]  # of a picture
Part = tuple[str, str, QRect, str]  # name, role, box in px of the widget, text of an element


def shade(widget: QWidget, light: str, dark: str | None = None) -> QColor:
    """A colour of the light theme, or in the others `dark`, without one that of texts."""
    if widget.palette().window().color().lightness() > 127:
        return QColor(light)
    return QColor(dark) if dark else widget.palette().text().color()


class Shade(QWidget):
    """The cover of the window below a menu or dialog.  A click on it closes a menu, not a dialog."""

    def __init__(self, window: QWidget):
        super().__init__(window)
        self.setGeometry(0, 0, WIDTH, HEIGHT)
        self.hide()

    def mousePressEvent(self, event) -> None:
        self.window().close_menu()

    def paintEvent(self, event) -> None:
        if self.window().dialog is not None:
            with QPainter(self) as painter:
                painter.fillRect(self.rect(), QColor(0, 0, 0, 60))


class Tabs(QTabBar):
    """A tab bar whose tabs are narrower in a narrower window."""

    def tabSizeHint(self, index: int) -> QSize:
        size = super().tabSizeHint(index)
        return QSize(size.width() * self.window().room.width() // WIDTH, size.height())


class Popup(QFrame):
    """A menu or a dialog, hidden at first."""

    fill: Callable[[], None]  # sets a dialog's fields when it opens

    def __init__(self, window: QWidget):
        super().__init__(window)
        self.setFrameShape(QFrame.Shape.Box)
        self.setAutoFillBackground(True)
        self.hide()


class Field(QLineEdit):
    """A text field.  A click selects its whole text, so that typing replaces it."""

    def __init__(self, name: str, parent: QWidget):
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setMaxLength(40)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)  # it would be a window of its own
        # Qt draws the cursor only of a field that ever had a key: pictures would depend on earlier episodes
        super().keyPressEvent(QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_End, Qt.KeyboardModifier.NoModifier))

    def keyPressEvent(self, event) -> None:
        """Copy, cut and paste within the window; all else is Qt's."""
        cut = event.matches(QKeySequence.StandardKey.Cut)
        if event.matches(QKeySequence.StandardKey.Paste):
            self.insert(self.window().clipboard)
        elif cut or event.matches(QKeySequence.StandardKey.Copy):
            if self.hasSelectedText():
                self.window().clipboard = self.selectedText()
                if cut:
                    self.del_()
        else:
            super().keyPressEvent(event)

    def mouseReleaseEvent(self, event) -> None:
        self.selectAll()

    def paintEvent(self, event) -> None:
        super().paintEvent(event)
        if self.window().focusWidget() is self:  # an off-screen window never has Qt's own focus
            with QPainter(self) as painter:
                painter.setPen(QColor("#1f6feb"))
                painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
                painter.drawRect(self.rect().adjusted(1, 1, -2, -2))


class Rows(QListWidget):
    """A list whose rows can be chosen, opened (double click), asked for a menu (right click) and dragged."""

    chosen = Signal(str)
    opened = Signal(str)
    context = Signal(str)
    moved = Signal(str, str)

    def __init__(self, name: str, parent: QWidget, sortable: bool = False):
        """`sortable`: the order of its rows means nothing."""
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._sortable, self._pressed = sortable, None

    def fill(self, texts: Iterable[str], selected: str | None = None) -> None:
        """Show these rows; keeps the scroll position, which is part of what the agent did."""
        texts = self.window().ordered(texts) if self._sortable else list(texts)
        if texts != [self.item(i).text() for i in range(self.count())]:
            self.clear()
            self.addItems(texts)
        row = texts.index(selected) if selected in texts else -1
        if row != self.currentRow():
            scroll = self.verticalScrollBar().value()
            self.setCurrentRow(row)
            self.verticalScrollBar().setValue(scroll)

    def items(self) -> list[QListWidgetItem]:
        return [self.item(i) for i in range(self.count())]

    def _text_at(self, position: QPoint) -> str | None:
        item = self.itemAt(position)
        return item.text() if item else None

    def mousePressEvent(self, event) -> None:
        self._pressed = self._text_at(event.position().toPoint())
        if event.button() == Qt.MouseButton.RightButton and self._pressed is not None:
            self.context.emit(self._pressed)

    def mouseMoveEvent(self, event) -> None:
        pass  # Qt's own drag would run an event loop of its own

    def mouseReleaseEvent(self, event) -> None:
        text, pressed, self._pressed = self._text_at(event.position().toPoint()), self._pressed, None
        if event.button() != Qt.MouseButton.LeftButton or text is None or pressed is None:
            return
        if text == pressed:
            self.chosen.emit(text)
        else:
            self.moved.emit(pressed, text)

    def mouseDoubleClickEvent(self, event) -> None:
        if text := self._text_at(event.position().toPoint()):
            self.opened.emit(text)


class Slider(QWidget):
    """A horizontal slider with a tick under each of its values; dragged or clicked to a tick."""

    changed = Signal(int)

    def __init__(self, name: str, ticks: Iterable[int], parent: QWidget):
        super().__init__(parent)
        self.setAccessibleName(name)
        self.ticks, self.value = list(ticks), 0

    def _x(self, tick: int) -> int:
        return 10 + (self.width() - 20) * self.ticks.index(tick) // (len(self.ticks) - 1)

    def parts(self) -> list[Part]:
        box = QRect(self._x(self.value) - 5, 2, 10, 12)
        ticks = [(str(t), "target", QRect(self._x(t) - 10, 15, 20, 11), "") for t in self.ticks]
        return [(self.accessibleName(), "slider", box, str(self.value)), *ticks]

    def mousePressEvent(self, event) -> None:
        pass

    def mouseReleaseEvent(self, event) -> None:
        self.changed.emit(min(self.ticks, key=lambda tick: abs(self._x(tick) - event.position().x())))

    def paintEvent(self, event) -> None:
        with QPainter(self) as painter:
            painter.setPen(QColor("#888888"))
            painter.drawLine(10, 8, self.width() - 10, 8)
            painter.setPen(shade(self, "#222222"))
            for tick in self.ticks:
                box = QRect(self._x(tick) - 12, 14, 24, 12)
                painter.drawText(box, Qt.AlignmentFlag.AlignCenter, str(tick))
            painter.fillRect(QRect(self._x(self.value) - 4, 2, 8, 12), QColor("#1f6feb"))


class Canvas(QWidget):
    """A picture drawn by the application; objects on it are elements, clicks and drags are signals."""

    clicked = Signal(str, str)  # name of the object under the mouse ('' if none), button: left, right, double
    # objects at both ends ('' if none), distance in fractions of the canvas
    dragged = Signal(str, str, float, float)

    def __init__(self, name: str, parent: QWidget, draw: Draw, objects: Objects):
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setPalette(palette("light"))  # the sheet is white in every theme
        self._draw, self._objects = draw, objects
        self._start: QPoint | None = None

    @property
    def sheet(self) -> QRect:
        """The area in px that is drawn on; a canvas of another size shows it scaled."""
        return QRect(QPoint(), self.home.size())

    @property
    def scaling(self) -> QTransform:
        """From a place of the sheet to that of the widget."""
        return QTransform.fromScale(self.width() / self.home.width(), self.height() / self.home.height())

    def parts(self) -> list[Part]:
        shown, boxes = self.scaling, self._objects(self.sheet)
        return [(name, "target", shown.mapRect(box), "") for name, box in boxes.items()]

    def _object_at(self, position: QPoint) -> str:
        at = self.scaling.inverted()[0].map(position)
        return next((name for name, box in self._objects(self.sheet).items() if box.contains(at)), "")

    def mousePressEvent(self, event) -> None:
        self._start = event.position().toPoint()

    def mouseReleaseEvent(self, event) -> None:
        if self._start is None:  # the release that ends a double click
            return
        end = event.position().toPoint()
        shift = end - self._start
        if shift.manhattanLength() > 6:
            ends = self._object_at(self._start), self._object_at(end)
            self.dragged.emit(*ends, shift.x() / self.width(), shift.y() / self.height())
        else:
            button = "right" if event.button() == Qt.MouseButton.RightButton else "left"
            self.clicked.emit(self._object_at(end), button)

    def mouseDoubleClickEvent(self, event) -> None:
        self._start = None
        self.clicked.emit(self._object_at(event.position().toPoint()), "double")

    def paintEvent(self, event) -> None:
        with QPainter(self) as painter:  # Qt crashes on a painter that is left open if drawing fails
            painter.fillRect(self.rect(), QColor("white"))
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setTransform(self.scaling, combine=True)
            self._draw(painter, self.sheet)
            painter.resetTransform()
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor("#999999"))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
