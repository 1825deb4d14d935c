"""Worlds in which an agent acts: ScienceDesk's windows, real applications, ScienceBoard's machines.

Importing it registers an environment of Gymnasium for each application of ScienceDesk:
`sciencedesk/Algebra-v0`, `sciencedesk/GIS-v0`, ...
"""

import gymnasium
import lazy_loader

from coda_lib.applications import APPLICATIONS

PUBLIC = {"env": ["ScienceDesk"]}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)

for _application in APPLICATIONS:
    gymnasium.register(
        f"sciencedesk/{_application.label}-v0",
        entry_point="sciencedesk.adapters.gym:TaskEnv",  # loaded when one is made, and Qt with it
        kwargs={"app": _application.name},
    )
