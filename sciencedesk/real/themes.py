"""Themes of real applications in perturbed runs: style sheets of Qt, settings of GTK; light is their own."""

from __future__ import annotations


def _style(text: str, ground: str, field: str, line: str, chosen: str) -> str:
    """A style sheet with these colors."""
    return f"""
QWidget {{ color: {text}; background-color: {ground}; }}
QLineEdit, QTextEdit, QPlainTextEdit, QAbstractItemView, QSpinBox, QComboBox {{
    color: {text}; background-color: {field}; border: 1px solid {line}; }}
QPushButton, QToolButton {{ border: 1px solid {line}; padding: 2px; }}
QMenuBar::item:selected, QMenu::item:selected, QTabBar::tab:selected, QAbstractItemView::item:selected {{
    color: {ground}; background-color: {chosen}; }}
QCheckBox::indicator, QAbstractItemView::indicator {{
    width: 11px; height: 11px; background-color: {field}; border: 1px solid {line}; }}
QCheckBox::indicator:checked, QAbstractItemView::indicator:checked {{ background-color: {text}; }}
QTabBar::tab {{ border: 1px solid {line}; padding: 3px 6px; }}
QMenu, QDockWidget {{ border: 1px solid {line}; }}
"""


QT_STYLES = {
    "light": "",
    "dark": _style("#dddddd", "#2b2d30", "#1e1f22", "#55585e", "#9db8e8"),
    "contrast": _style("#ffff00", "#000000", "#000000", "#ffffff", "#00ffff"),
}
GTK_THEMES = {
    "light": "",
    "dark": "gtk-application-prefer-dark-theme=1\n",
    "contrast": "gtk-theme-name=HighContrastInverse\n",
}
