"""Harbor task folders: into packages without losing a field, and packages as tasks that Harbor runs."""
