"""The probes. Static ones read records and files; the others run something."""
