"""The study: what runs, measures and shows the method on the worlds."""

import lazy_loader

PUBLIC = {"run": ["Run"]}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
