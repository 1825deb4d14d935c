"""The viewer: the episodes of runs and foreign logs as one page, without server and network."""

import lazy_loader

PUBLIC = {  # module: names
    "evidence": ["Evidence"],
    "page": ["write_beside", "write_folder", "write_page", "write_run_page"],
    "sources": ["read_logs", "read_run"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
