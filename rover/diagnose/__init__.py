"""Diagnosis: probes look at one package version, their findings tell a defect of the environment from a mistake
of the agent. `inject/` breaks packages on purpose, in known ways, so that diagnosis and repair can be measured."""
