"""A whole merge as the published script does it: ``literal_merge BASE OUT EPSILON EXPERT…``.

Every model in memory, every matrix by the literal procedure in float32, everything else averaged.
GPT-2's Conv1D matrices are turned, so that it solves the same problem as ours.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from ace_gui.methods.ace.reference import reference_ace

CONV1D = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")
AVERAGED = ("wte", "wpe", "embedding", "class_embedding", "embed_tokens")


def main() -> None:
    base_folder, out, epsilon, *folders = sys.argv[1:]
    base = load_file(Path(base_folder) / "model.safetensors")
    experts = [load_file(Path(folder) / "model.safetensors") for folder in folders]
    task_vectors = [
        {name: tensor.float() - base[name].float() for name, tensor in expert.items()}
        for expert in experts
    ]
    merged = {}
    for name, weight in base.items():
        deltas = [vector[name] for vector in task_vectors]
        if weight.ndim != 2 or any(part in name for part in AVERAGED):
            delta = torch.stack(deltas).mean(dim=0)
        elif name.endswith(CONV1D):
            delta = reference_ace([d.T.contiguous() for d in deltas], epsilon=float(epsilon)).T
        else:
            delta = reference_ace(deltas, epsilon=float(epsilon))
        merged[name] = (weight.float() + delta).to(weight.dtype).contiguous()
    Path(out).mkdir()
    save_file(merged, Path(out) / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()
