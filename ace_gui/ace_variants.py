"""What recipes, plans and the window know of ACE without the method: its variants, and a limit."""

from typing import Final

PUBLISHED: Final = "published"
"""The procedure of the paper."""

AUTOMATIC: Final = "automatic"
"""The variant without regimes."""

MEASURED: Final = "measured"
"""The variant that uses input covariances measured with the experts' data."""

LARGEST_RIDGE_MASS: Final = 0.5
"""Limit of ACE's ridge mass e = Σ ε_t, the sum of the experts' ridge parameters ε_t.

It enters ACE's refinement as −(e/T) Σ_t ΔW_t, for T experts. Near 1 the refinement turns against
the experts.
"""
