"""The study: what runs, measures and shows the method on the worlds."""

import sys

import lazy_loader

PUBLIC = {"run": ["Run"], "notebooks": ["open_run", "task_number"]}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)

if "IPython" in sys.modules:
    from coda_study.notebooks import install

    install()
