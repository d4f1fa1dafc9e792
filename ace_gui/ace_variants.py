"""The names of ACE's variants, which recipes, plans and the window know without the method."""

from typing import Final

PUBLISHED: Final = "published"
"""The procedure of the paper."""

AUTOMATIC: Final = "automatic"
"""The variant without regimes."""

MEASURED: Final = "measured"
"""The variant that uses input covariances measured with the experts' data."""
