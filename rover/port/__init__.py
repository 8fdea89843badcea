"""Ways in and out: other tools' formats into packages and back. Importers and exporters, one folder a format."""
