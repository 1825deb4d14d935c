"""The kit behind other projects' interfaces."""
