"""HCG: physical and linear clocks inside a subgroup, vectors between gateways. `whence.clocks.group.structure` says how."""
