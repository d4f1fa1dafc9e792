"""The merge methods by name, their parameters and the checks of a recipe's values."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_type_hints

from ace_gui.errors import MethodError, RecipeError
from ace_gui.field_info import SWITCHES, FieldInfo
from ace_gui.formatting import quoted_value
from ace_gui.method_names import OTHER_NAMES, method_id
from ace_gui.methods.ace import ACE
from ace_gui.methods.adamerging import ADAMERGING
from ace_gui.methods.adarank import ADARANK
from ace_gui.methods.arcee_fusion import ARCEE_FUSION
from ace_gui.methods.breadcrumbs import BREADCRUMBS, BREADCRUMBS_TIES
from ace_gui.methods.byom import BYOM
from ace_gui.methods.calling import require_signature, source_digest
from ace_gui.methods.cart import CART
from ace_gui.methods.concrete import CONCRETE
from ace_gui.methods.dare import DARE_LINEAR, DARE_TIES
from ace_gui.methods.della import DELLA, DELLA_LINEAR
from ace_gui.methods.emr import EMR
from ace_gui.methods.esm import ESM
from ace_gui.methods.expert_merging import EXPERT_MERGING
from ace_gui.methods.fisher import FISHER, UBGM
from ace_gui.methods.free import FR_MERGING, FREE_MERGING
from ace_gui.methods.iso import ISO_C, ISO_CTS
from ace_gui.methods.knots import KNOTS_DARE_TIES, KNOTS_TIES
from ace_gui.methods.linear import LINEAR
from ace_gui.methods.localize_stitch import LOCALIZE_STITCH, LOCALIZE_STITCH_FEW_SHOT
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.model_stock import MODEL_STOCK
from ace_gui.methods.nan import NAN
from ace_gui.methods.nearswap import NEARSWAP
from ace_gui.methods.pcb import PCB
from ace_gui.methods.prodistill import PRODISTILL
from ace_gui.methods.ram import RAM, RAMPLUS_TL
from ace_gui.methods.regmean import REGMEAN
from ace_gui.methods.samerging import SAMERGING
from ace_gui.methods.sce import SCE
from ace_gui.methods.shared.calls import source_of
from ace_gui.methods.shared.expert_modules import Differences
from ace_gui.methods.shared.experts import MergeFunction
from ace_gui.methods.shared.kit import INFO
from ace_gui.methods.shared.survey import MethodSurvey
from ace_gui.methods.slerp import BASE_SLERP, NUSLERP, SLERP
from ace_gui.methods.smile import SMILE
from ace_gui.methods.spherical_means import KARCHER, MULTISLERP
from ace_gui.methods.star import STAR
from ace_gui.methods.surgery import SURGERY
from ace_gui.methods.tall import CONSENSUS_TA, TALL_MASKS
from ace_gui.methods.task_arithmetic import TASK_ARITHMETIC
from ace_gui.methods.ties import TIES
from ace_gui.methods.tsv_m import TSV_C, TSV_M
from ace_gui.methods.twin import TWIN_MERGING
from ace_gui.methods.wemoe import WEMOE
from ace_gui.methods.wudi import WUDI

FAMILIES: Final[Mapping[str, tuple[MergeMethod[Any], ...]]] = MappingProxyType(
    {
        "Least interference": (ACE, WUDI),
        "Means and arcs": (LINEAR, MODEL_STOCK, SLERP, NUSLERP, BASE_SLERP, KARCHER, MULTISLERP),
        "Sums of task vectors": (TASK_ARITHMETIC, NAN, SCE, RAM, RAMPLUS_TL),
        "Sparse task vectors": (
            *(TIES, DARE_LINEAR, DARE_TIES, DELLA, DELLA_LINEAR, BREADCRUMBS, BREADCRUMBS_TIES),
            *(CONSENSUS_TA, LOCALIZE_STITCH, PCB, NEARSWAP, ARCEE_FUSION),
        ),
        "Spectra and bases": (
            TSV_M,
            ISO_C,
            ISO_CTS,
            CART,
            STAR,
            FR_MERGING,
            KNOTS_TIES,
            KNOTS_DARE_TIES,
        ),
        "With the experts' data": (REGMEAN, FISHER, UBGM, ESM),
        "Learned with the tasks' data": (
            ADAMERGING,
            ADARANK,
            CONCRETE,
            SAMERGING,
            EXPERT_MERGING,
            PRODISTILL,
            LOCALIZE_STITCH_FEW_SHOT,
        ),
        "With modules": (
            EMR,
            TALL_MASKS,
            TSV_C,
            BYOM,
            SMILE,
            TWIN_MERGING,
            FREE_MERGING,
            WEMOE,
            SURGERY,
        ),
    }
)
"""The built-in methods by the kind of their input, in the order of display."""

_REGISTERED: Final[dict[str, MergeMethod[Any]]] = {
    method.name: method for method in itertools.chain.from_iterable(FAMILIES.values())
}

METHODS: Final[Mapping[str, MergeMethod[Any]]] = MappingProxyType(_REGISTERED)
"""Every method by its name: the built-in ones and those registered by a user or a package."""

_ADDED: Final[dict[str, tuple[MergeMethod[Any], ...]]] = {}

YOUR_OWN: Final = "Your own"
"""The default heading for registered methods."""

_SOURCES: Final[dict[str, str]] = {}
"""Digest of each added method's source at the time it was added."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")

Function = TypeVar("Function", bound=MergeFunction[Any])


@dataclass(frozen=True, kw_only=True)
class NoParameters:
    """The empty parameters of a method without parameters."""


_KINDS: Final = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "str": "text",
}


def families() -> Mapping[str, tuple[MergeMethod[Any], ...]]:
    """Every method under its heading, in the order of display."""
    methods_by_family = {**FAMILIES}
    for heading, methods in _ADDED.items():
        methods_by_family[heading] = (*methods_by_family.get(heading, ()), *methods)
    return methods_by_family


def add_method(method: MergeMethod[Any], family: str = YOUR_OWN, *, replace: bool = False) -> None:
    """Register a method under the heading ``family``, for the library, command line and window.

    ``replace``: allow replacing a method that was registered under this name before. Raises
    MethodError for a name that is taken or invalid, a function with the wrong signature, fields of
    the wrong type, and parameters that are not a frozen dataclass of documented fields.
    """
    name = method.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MethodError(
            f"{name!r} cannot name a method; use small letters, digits and _, up to 40."
        )
    if name in OTHER_NAMES:
        raise MethodError(
            f"{name!r} is another name of the method {OTHER_NAMES[name]!r}; choose another name."
        )
    added_methods = itertools.chain.from_iterable(_ADDED.values())
    added = any(name == method.name for method in added_methods)
    if name in _REGISTERED and not (replace and added):
        if added:
            how = "pass `replace=True` or choose"
        else:
            how = "choose"
        raise MethodError(f"There is a method {name!r} already; {how} another name.")
    _require_fields(method)
    require_signature(name, method.merge)
    try:
        fields = parameter_fields(method)
        checked_parameters(method, {field.name: field.default for field in fields})
    except Exception as error:
        raise MethodError(
            f"The parameters of {name!r} must be a frozen dataclass whose fields are made "
            f"by `parameter`, with defaults in their ranges ({type(error).__name__}: {error})."
        ) from error
    _require_used({field.name for field in fields}, method)
    for heading, methods in _ADDED.items():
        _ADDED[heading] = tuple(item for item in methods if item.name != name)
    _REGISTERED[name] = method
    _SOURCES[name] = _digest_of(method)
    _ADDED[family] = (*_ADDED.get(family, ()), method)


def added_sources(names: Iterable[str]) -> dict[str, str]:
    """Digests of the sources of these methods, if they were added, by name.

    Results depend on them as they do on the code of this package.
    """
    return {name: _SOURCES[name] for name in names if name in _SOURCES}


def _digest_of(method: MergeMethod[Any]) -> str:
    """Digest of the sources of a method: of its mathematics, and of its surveys, if it has any."""
    functions: list[Callable[..., Any]] = [method.merge]
    for survey in method.surveys:
        functions += [function for function in (survey.survey, survey.over) if callable(function)]
    digests = dict.fromkeys(source_digest(function) for function in functions)
    return "+".join(digests)


def _require_fields(method: MergeMethod[Any]) -> None:
    """Raise MethodError if a plain field or a survey has another type than declared."""
    plain = {"str": str, "int": int, "bool": bool, "Kind": Kind}
    whose = f"of the method `{method.name}` ({source_of(method.merge)})"
    for field in dataclasses.fields(method):
        value = getattr(method, field.name)
        required = plain.get(str(field.type))
        if required is not None and not isinstance(value, required):
            raise MethodError(f"`{field.name}` {whose} must be {required.__name__}, not {value!r}.")
    declared = isinstance(method.surveys, tuple)
    if not declared or any(not isinstance(survey, MethodSurvey) for survey in method.surveys):
        raise MethodError(f"`surveys` {whose} must be a tuple of `MethodSurvey`s.")


def _require_used(parameters: Set[str], method: MergeMethod[Any]) -> None:
    """Raise MethodError if a survey uses a parameter that the method does not have."""
    for survey in method.surveys:
        for name in survey.uses or ():
            if name not in parameters:
                raise MethodError(
                    f"A survey of the method `{method.name}` uses `{name}`, which is none of its "
                    f"parameters: {', '.join(sorted(parameters)) or 'none'}."
                )


def register_method(
    *,
    name: str,
    title: str,
    summary: str,
    family: str = YOUR_OWN,
    replace: bool = False,
    **options: Any,
) -> Callable[[Function], Function]:
    """A decorator that registers a function as a merge method.

    ``options``: fields of ``MergeMethod`` that differ from their defaults. Without ``parameters``
    the method has none. The default ``kind`` is ``Kind.MATRIX``. ``replace``: allow replacing a
    method registered before, for example when a notebook's cell runs again. Raises MethodError as
    ``add_method`` does, and for an unknown kind or option.
    """

    def registered(function: Function) -> Function:
        values = {"formula": "", "citation": "", "parameters": NoParameters, **options}
        whose = f"The method `{name}` ({source_of(function)})"
        try:
            values["kind"] = Kind(values.get("kind", Kind.MATRIX))
        except ValueError:
            kinds = ", ".join(Kind)
            raise MethodError(f"{whose} has kind {values['kind']!r}; known: {kinds}.") from None
        try:
            method = MergeMethod[Any](
                name=name, title=title, summary=summary, merge=function, **values
            )
        except TypeError as error:
            raise MethodError(f"{whose} has an unknown option: {error}.") from error
        add_method(method, family, replace=replace)
        return function

    return registered


def get_method(name: str) -> MergeMethod[Any]:
    """The method called ``name``, in any spelling that ``method_id`` knows.

    Raises RecipeError, which names the nearest or all.
    """
    method = METHODS.get(name) or METHODS.get(method_id(name))
    if method is not None:
        return method
    near = _suggestion(name, METHODS) or f" Known: {', '.join(METHODS)}."
    raise RecipeError(f"There is no merge method {quoted_value(name)}.{near}", key="merge_method")


def method_variant(name: str) -> tuple[MergeMethod[Any], dict[str, str]]:
    """Split ``METHOD`` or ``METHOD:VARIANT`` into the method and its ``variant`` parameter.

    Raises RecipeError for an unknown method or variant.
    """
    plain, colon, variant = name.partition(":")
    method = get_method(plain)
    if colon:
        values = {"variant": variant}
    else:
        values = {}
    checked_parameters(method, values)
    return method, values


def every_variant() -> tuple[str, ...]:
    """Every method, each followed by its variants other than the default.

    Methods that train the whole model are left out, because each takes as long as a training run.
    """
    names = []
    for name, method in METHODS.items():
        modules = method.modules
        trains_blocks = isinstance(modules, Differences) and modules.share_at_start is not None
        if method.learning is not None or trains_blocks:
            continue
        names.append(name)
        for field in parameter_fields(method):
            if field.name == "variant":
                other_choices = (choice for choice in field.choices if choice != field.default)
                names += [f"{name}:{choice}" for choice in other_choices]
    return tuple(names)


def parameter_fields(method: MergeMethod[Any]) -> tuple[FieldInfo, ...]:
    """The parameters of a method, in the order of its dataclass."""
    hints = get_type_hints(method.parameters)
    defaults = method.parameters()
    infos = []
    for field in dataclasses.fields(method.parameters):
        info = dataclasses.replace(
            field.metadata[INFO],
            name=field.name,
            kind=hints[field.name].__name__,
            default=getattr(defaults, field.name),
        )
        infos.append(info)
    return tuple(infos)


def checked_parameters(method: MergeMethod[Any], values: Mapping[str, object]) -> Any:
    """The method's parameter dataclass with the recipe's values. Missing values have their
    defaults.

    Raises RecipeError with its ``key`` for an unknown name, a value of the wrong type, NaN or Inf,
    or a value out of range.
    """
    fields = {field.name: field for field in parameter_fields(method)}
    for name in values:
        if name not in fields:
            if fields:
                parameters_there = f"it has: {', '.join(fields)}"
            else:
                parameters_there = "it has none"
            raise RecipeError(
                f"{method.name} has no parameter {quoted_value(name)}; {parameters_there}."
                + _suggestion(name, fields),
                key=name,
            )
    checked = {name: _checked(fields[name], value) for name, value in values.items()}
    return method.parameters(**checked)


def _checked(field: FieldInfo, value: object) -> float | int | bool | str:
    if field.kind == "bool" and isinstance(value, str):
        value = SWITCHES.get(value.lower(), value)
    if field.kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = _as_float(value)
    if type(value).__name__ != field.kind or not isinstance(value, float | int | bool | str):
        requirement = f"it must be {_KINDS[field.kind]}"
        allowed = _range_of(field)
        if allowed == requirement:
            more = ""
        else:
            more = f"; {allowed}"
        raise RecipeError(
            f"`{field.name}` must be {_KINDS[field.kind]}, not {quoted_value(value)}{more}.",
            key=field.name,
        )
    if not _allowed(field, value):
        raise RecipeError(
            f"`{field.name}` is {quoted_value(value)}, but {_range_of(field)}.", key=field.name
        )
    return value


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _allowed(field: FieldInfo, value: float | int | bool | str) -> bool:
    choices = field.choices
    if isinstance(value, bool | str):
        return not choices or value in choices
    low = field.low
    high = field.high
    above = low is None or (value > low if field.low_open else value >= low)
    return math.isfinite(value) and above and (high is None or value <= high)


def _range_of(field: FieldInfo) -> str:
    """The allowed values as the rest of a sentence."""
    if field.choices:
        return f"it must be one of: {', '.join(field.choices)}"
    low = field.low
    high = field.high
    bounds = []
    if low is not None:
        bounds.append(f"{'greater than' if field.low_open else 'at least'} {low:g}")
    if high is not None:
        bounds.append(f"at most {high:g}")
    if bounds:
        return f"it must be {' and '.join(bounds)}"
    return f"it must be {_KINDS[field.kind]}"


def _suggestion(name: str, names: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    return ""
