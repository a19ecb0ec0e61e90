"""The particle environments of MPE2, batched: equal to the package `mpe2` step by step, without needing it.

`physics` moves the bodies, `particles` makes an Env of a scenario, and each scenario says who there is, what they see and
what they earn. Lowe et al. 2017, "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments".
"""
