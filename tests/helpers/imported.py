"""What processes that tests fork have from the start: importing takes longer than a merge."""

import gc

import pytest
import transformers.models.roberta.modeling_roberta
import transformers.models.vit.modeling_vit  # noqa: F401

import ace_gui.cli.merging
import ace_gui.engine.inspecting.model_diff
import ace_gui.engine.service  # noqa: F401
from tests.helpers.engines import describe_here

describe_here(pytest.MonkeyPatch())
gc.freeze()  # as the engine's own process does
