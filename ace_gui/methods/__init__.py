"""Merge methods: pure functions on task vectors, and the registry that names them."""

from ace_gui.methods.method import MergeMethod as MergeMethod
from ace_gui.methods.plugins import load_plugins
from ace_gui.methods.registry import METHODS as METHODS
from ace_gui.methods.registry import added_sources as added_sources
from ace_gui.methods.registry import checked_parameters as checked_parameters
from ace_gui.methods.registry import every_variant as every_variant
from ace_gui.methods.registry import families as families
from ace_gui.methods.registry import get_method as get_method
from ace_gui.methods.registry import method_variant as method_variant
from ace_gui.methods.registry import parameter_fields as parameter_fields
from ace_gui.methods.registry import register_method as register_method
from ace_gui.methods.shared.experts import Diagnostics as Diagnostics
from ace_gui.methods.shared.experts import Merged as Merged
from ace_gui.methods.shared.survey import MethodSurvey as MethodSurvey
from ace_gui.methods.shared.trimming import trim_survey as trim_survey

PROBLEMS = load_plugins()
"""What is wrong with methods from outside, a sentence each."""
