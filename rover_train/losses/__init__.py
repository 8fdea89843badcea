"""Losses as pure functions of tensors: clipped surrogates, KL terms, importance correction, distillation."""
