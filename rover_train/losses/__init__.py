"""Losses as pure functions of tensors, each giving (loss per token, stats). The sum over tokens is the loss.

    clip.clipped, cispo.cispo               surrogates over weighted advantages
    kl.kl_to_reference, kl.entropy          KL3 with explicit weights; entropy to report
    importance.importance                   weights where another engine sampled
    distil.reverse_kl, .sampled_reverse_kl  on-policy distillation

Tensors are flat or (B, T). Stats are floats, means over the tokens whose `mask` is on. Nothing here knows models.
"""
