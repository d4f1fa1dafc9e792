"""ACE-Merging as published, step by step: the reference for the fast code in this folder.

Nothing is rearranged and no work is saved. It makes a Gram matrix per task for the energies alone,
T Gram matrices at once, an explicit inverse, T residual products, and a full singular value
decomposition. Equation numbers are those of Xu et al., arXiv:2603.02945v2; the guard of 1e-12 and
the unbiased variance follow the authors' code.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

GUARD = 1e-12


def reference_ace(
    deltas: Sequence[Tensor], *, epsilon: float = 1e-5, tau: float = 0.3, k_frac: float = 0.3
) -> Tensor:
    """The merged task vector, in the dtype of ``deltas``: T ≥ 2 matrices, outputs × inputs, that
    all differ from zero. Directions without a singular value have no refinement."""
    energies = torch.stack([(delta.T @ delta).trace() for delta in deltas])
    logs = torch.log(energies + GUARD)
    gamma = logs.var() / (logs.mean() ** 2 + GUARD)  # Eq. 7
    heterogeneous = bool(gamma > tau)

    centred = [delta - delta.mean(dim=0, keepdim=True) for delta in deltas]  # Eq. 5
    proxies = [tilde.T @ tilde for tilde in centred]  # Eq. 6
    ridges = [epsilon] * len(deltas)
    if heterogeneous:  # Eqs. 8, 9
        traces = [proxy.trace() + GUARD for proxy in proxies]
        proxies = [proxy / trace for proxy, trace in zip(proxies, traces, strict=True)]
        ridges = [epsilon / float(trace) for trace in traces]
    eye = torch.eye(deltas[0].shape[1], dtype=deltas[0].dtype, device=deltas[0].device)
    regularised = [proxy + ridge * eye for proxy, ridge in zip(proxies, ridges, strict=True)]

    prior = torch.ones_like(eye) * (torch.stack(proxies).sum(dim=(0, 1)) / len(eye))  # Eq. 11
    if heterogeneous:
        prior = prior / (energies.mean() + GUARD)  # Eqs. 12, 13
    numerator = sum(tilde @ reg for tilde, reg in zip(centred, regularised, strict=True))
    system = sum(regularised)
    merged: Tensor = numerator @ torch.linalg.inv(system + prior)  # Eq. 14
    if not heterogeneous:
        return merged
    mean = system / len(deltas)
    residual = sum(delta @ (proxy - mean) for delta, proxy in zip(deltas, proxies, strict=True))
    u, s, vh = torch.linalg.svd(merged + residual, full_matrices=False)  # Eqs. 16, 17
    k = int(k_frac * len(s) + 1e-9)
    if k == 0:
        return merged
    defined = s[:k] > 1e-11 * s[0]
    refinement: Tensor = s[:k].mean() * (u[:, :k][:, defined] @ vh[:k][defined])  # Eq. 18
    return merged + refinement  # Eq. 19
