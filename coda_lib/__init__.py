"""The CODA kit: a trainable planner, a frozen executor, and what trains and measures them (arXiv 2508.20096).

What a notebook needs is here by name; the modules that hold it are loaded when it is used.
"""

import lazy_loader

__version__ = "0.2.0"

PUBLIC = {  # module: names
    "applications": ["APPS"],
    "paths": ["TASKS"],
    "action": ["Action"],
    "grammar": ["format_action", "parse_actions"],
    "task": ["load_task", "test_tasks"],
    "trajectory": ["load_trajectories"],
    "models.chat": ["ReplayModel", "Sampling"],
    "models.local": ["LocalModel"],
    "planner": ["Observation", "Planner", "control_action", "planner_messages", "read_plan"],
    "executor": ["Executor"],
    "judge": ["Judge", "Rule", "positive_steps", "read_verdict"],
    "agent": ["DualAgent", "carry_out", "load_agent"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
