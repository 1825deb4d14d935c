"""Appendix A1: the laptop's base models, trained from scratch; what its notebook needs is here by name."""

import lazy_loader

PUBLIC = {  # module: names
    "training": ["collect"],
    "rows": ["grounding_row"],
    "walks": ["typed_words"],
    "hindsight": ["hindsights", "planner_row"],
    "lessons": ["alike", "demonstrations", "judge_lessons"],
    "judge_rows": ["Examiner"],
    "checks": ["grounding"],
    "recipe": ["train_all"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
