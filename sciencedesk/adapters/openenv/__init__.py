"""ScienceDesk as an OpenEnv environment: server and client.  docs/ecosystem.md: how to install OpenEnv."""
