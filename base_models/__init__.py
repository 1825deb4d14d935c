"""Appendix A1: the laptop's base models, trained from scratch; what its notebook needs is here by name."""

import lazy_loader

PUBLIC = {  # module: names
    "walks": ["collect"],
    "places": ["places_told"],
    "network": ["Pointer"],
    "asking": ["Asking"],
    "pointing": ["shares"],
    "looking": ["attention_figure", "letters_figure", "reply_table"],
    "hindsight": ["hindsights", "planner_row", "reading"],
    "demonstrators": ["demonstrations"],
    "planning": ["lessons"],
    "accounts": ["told_attempts", "told_screens"],
    "cards": ["questions", "measure"],
    "data": ["Data", "Recipe"],
    "recipe": ["train_all"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
