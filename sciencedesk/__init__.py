"""Worlds in which an agent acts: ScienceDesk's windows, real applications, ScienceBoard's machines."""

import lazy_loader

PUBLIC = {"env": ["ScienceDesk"]}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
