"""Training on a pinned revision of a store: dataset, rendering, credit, losses, trainers, evaluation.

Comes with the extra `train`. Nothing here is imported by rover's other commands; torch and transformers are
imported by the modules that compute, never by those that read configs, records and rows.
"""
