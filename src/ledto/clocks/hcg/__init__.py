"""HCG, a group of subgroups: physical and linear clocks inside a subgroup, vectors between gateways.

Members give local stamps, ``G1/p11@3 at 1200ns``; gateways turn them into global ones, ``G1#2<G1:2 G2:1>``.
`ledto.clocks.hcg.structure` says how.
"""
