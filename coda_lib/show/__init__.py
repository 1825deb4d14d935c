"""What notebooks draw: pictures of episodes, figures of results, small tables, and how far a stage is."""

import lazy_loader

PUBLIC = {  # module: names
    "pictures": ["draw_elements", "draw_step", "group_rewards", "idea", "screens", "strip"],
    "figures": ["CURVES", "difference_bars", "judge_bars", "learning_curves", "save", "table1_bars"],
    "live": ["progress", "training"],
    "examples": [],
    "desktop": [],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
