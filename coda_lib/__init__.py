"""The CODA kit: a trainable planner, a frozen executor, and what trains and measures them (arXiv 2508.20096).

What a notebook needs is here by name; the modules that hold it are loaded when it is used.
"""

import lazy_loader

__version__ = "0.2.0"

PUBLIC = {  # module: names
    "run": ["Run"],
    "action": ["Action", "format_action", "parse_actions"],
    "planner": ["Observation", "Planner", "control_action", "planner_messages"],
    "executor": ["Executor"],
    "agent": ["DualAgent", "carry_out"],
    "models.chat": ["ReplayModel", "Sampling"],
    "models.local": ["LocalModel"],
    "task": ["load_task", "test_tasks"],
    "trajectory": ["load_trajectories"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
