"""The names of merge methods as people, papers and other programs write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_OTHER_NAMES: Final = {
    "ace": "ace_merging",
    "adamerging": "ada_merging",
    "base_slerp": "slerp_from_the_base",
    "breadcrumbs": "model_breadcrumbs",
    "breadcrumbs_ties": "model_breadcrumbs_with_ties",
    "dare_linear": "dare_with_task_arithmetic dare_task_arithmetic dare_ta",
    "dare_ties": "dare_with_ties",
    "della": "della_merging della_ties",
    "della_linear": "della_with_task_arithmetic della_task_arithmetic",
    "emr": "emr_merging",
    "fisher": "fisher_averaging fisher_merging",
    "karcher": "karcher_mean",
    "knots_dare_ties": "knots_with_dare_ties",
    "knots_ties": "knots_with_ties",
    "linear": "averaging average mean weight_averaging weight_average simple_averaging "
    "model_soup uniform_soup soup",
    "localize_stitch": "localize_and_stitch",
    "localize_stitch_few_shot": "localize_and_stitch_few_shot",
    "multislerp": "multi_slerp",
    "nuslerp": "nu_slerp",
    "pcb": "pcb_merging",
    "ramplus_tl": "ram_plus_by_tensor ram_plus",
    "regmean": "reg_mean regression_mean",
    "samerging": "sa_merging",
    "surgery": "representation_surgery",
    "task_arithmetic": "ta task_vectors",
    "ties": "ties_merging",
    "tsv_c": "tsv_compress",
    "tsv_m": "tsv_merging tsv",
    "wudi": "wudi_merging",
}

OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {alias: name for name, names in _OTHER_NAMES.items() for alias in names.split()}
)
"""Methods by their other names. No method of a person's own may be called so."""


def method_label(title: str, variant: object = None) -> str:
    """What people read of a method, in every list, chart, card and report.

    ``ACE, automatic`` for the ``variant`` of a method that has some; else its ``title``.
    """
    if variant is None:
        return title
    return f"{title.removesuffix('-Merging')}, {variant}"


def method_id(name: str) -> str:
    """The name under which a method is registered: ``TIES``, ``Weight averaging``, ``dare-ties``.

    Case, spaces, ``-`` and ``_`` make no difference. An unknown name has only these tidied.
    """
    words = re.findall(r"[a-z0-9]+", name.lower().replace("+", " plus "))
    tidied = "_".join(words)
    return OTHER_NAMES.get(tidied, tidied) or name
