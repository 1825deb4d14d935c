"""Appendix A1: the laptop's base models, trained from scratch; what its notebook needs is here by name."""

import lazy_loader

PUBLIC = {  # module: names
    "walks": ["collect", "typed_words"],
    "rows": ["grounding_row"],
    "hindsight": ["hindsights", "planner_row"],
    "training_tasks": ["demonstrations", "judge_tasks", "similar_tasks"],
    "attempts": ["AttemptMaker"],
    "checks": ["grounding"],
    "recipe": ["train_all"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
