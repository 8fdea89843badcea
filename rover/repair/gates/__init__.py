"""The gates of a repair, one module each. A gate takes a candidate on trial and gives a GateResult.

    rebuild    everything behind the change could be made again
    intent     the frozen intent is kept and the task is not easier
    boundary   no answer can be read in what a policy sees; context, task and verifier do not contradict
    resolved   the finding is gone, and the contract's own interpreter agrees with the verifier on every run
    verifier   the verifier rejects and accepts what it must
    siblings   packages that share a changed resource still hold
"""
