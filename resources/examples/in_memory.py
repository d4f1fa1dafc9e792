"""Merge tensors in memory, as in a notebook or a training loop."""

import torch

import ace_gui

base = {"layers.0.q_proj.weight": torch.zeros(8, 6), "norm.weight": torch.ones(6)}
experts = [{name: value + torch.randn_like(value) for name, value in base.items()} for _ in "ab"]
merged = ace_gui.merge_state_dicts(base, experts, method="ace:automatic")
print({name: tuple(value.shape) for name, value in merged.items()})
