"""ScienceDesk as an OpenEnv environment: server and client.  Needs OpenEnv: docs/ecosystem.md says how to
install it.
"""
