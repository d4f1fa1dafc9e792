"""Which tensors are heads: the whole list for classes of every kind, by the modules they are in."""

from __future__ import annotations

import os

import pytest

from ace_gui.architecture import blueprint, transformers_library
from ace_gui.architecture.describe import describe
from ace_gui.architecture.traits import Role
from tests.architecture.feeding_heads import every_fed, fed
from tests.architecture.model_classes import built

# Modules with heads; those after the bar are vocabulary heads.
HEADS = {
    # Bodies to the last tensor, whatever their modules are called.
    "DINOv3ViTModel": "",
    "SiglipVisionModel": "",
    "Siglip2Model": "",
    "CLIPVisionModelWithProjection": "",
    "CLIPModel": "",
    "GraniteSpeechForConditionalGeneration": "| lm_head",
    "LlavaForConditionalGeneration": "| lm_head",
    "Blip2ForImageTextRetrieval": "",
    "DepthAnythingForDepthEstimation": "",
    "ViTMAEForPreTraining": "",
    "Wav2Vec2ForPreTraining": "",
    "OwlViTForObjectDetection": "",
    # Labels, and what stands between them and the base model.
    "RobertaForSequenceClassification": "classifier",
    "Wav2Vec2ForSequenceClassification": "classifier projector",
    "DistilBertForQuestionAnswering": "qa_outputs",
    "BertForMultipleChoice": "classifier",
    "SegformerForSemanticSegmentation": "decode_head",
    "UperNetForSemanticSegmentation": "decode_head auxiliary_head",
    "DeformableDetrForObjectDetection": "class_embed bbox_embed",
    "RTDetrForObjectDetection": (
        "model.decoder.class_embed model.enc_score_head model.denoising_class_embed"
    ),
    "PerceiverForSequenceClassification": "perceiver.decoder.decoder.",  # as wide as the labels
    "TapasForQuestionAnswering": "output_ column_output_",
    "GPT2DoubleHeadsModel": "multiple_choice_head | lm_head",
    "BertForPreTraining": "cls.seq_relationship | cls.predictions",
    # Vocabularies: the output embedding, not the model that it is in.
    "Llama4ForConditionalGeneration": "| language_model.lm_head",
    "Blip2ForConditionalGeneration": "| language_model.lm_head",
    "InstructBlipForConditionalGeneration": "| language_model.lm_head",
    "Kosmos2ForConditionalGeneration": "| text_model.lm_head",
    "Pix2StructForConditionalGeneration": "| decoder.lm_head",
    "TrOCRForCausalLM": "| output_projection",
    "FSMTForConditionalGeneration": "",
    "MusicgenForConditionalGeneration": "| decoder.lm_heads",
    "VisionEncoderDecoderModel": "| decoder.cls.predictions",
    "Wav2Vec2ForCTC": "| lm_head",
}


def heads(model: object, role: Role) -> set[str]:
    tensors = blueprint.read(model)
    return {name for name, tensor in tensors.items() if tensor.traits.role is role}


@pytest.mark.parametrize("name", HEADS)
def test_heads_of_a_class(name: str):
    model = built(getattr(transformers_library.transformers(), name))
    tensors = [tensor for tensor, _ in model.named_parameters(remove_duplicate=False)]
    for role, listed in zip(
        (Role.HEAD, Role.VOCABULARY_HEAD), (HEADS[name] + "|").split("|")[:2], strict=True
    ):
        starts = tuple(listed.split())
        assert heads(model, role) == {tensor for tensor in tensors if tensor.startswith(starts)}
        assert all(any(tensor.startswith(start) for tensor in tensors) for start in starts)


def test_names_alone_take_no_pooling_or_projection_for_a_head():
    shapes = {
        "head.attention.in_proj_weight": (48, 16),
        "head.mlp.fc1.weight": (64, 16),
        "head.layernorm.weight": (16,),
        "projector.linear.weight": (32, 16),
        "visual_projection.weight": (32, 16),
        "multi_modal_projector.linear_1.weight": (32, 16),
    }
    described = describe(None, shapes).traits
    assert not {Role.HEAD, Role.VOCABULARY_HEAD} & {traits.role for traits in described.values()}
    described = describe(None, {"head.weight": (10, 16), "head.fc.weight": (10, 16)}).traits
    assert {traits.role for traits in described.values()} == {Role.HEAD}


# Where what feeds a head alone lies; a class of each kind, and some that have none.
FEEDING = {
    "BertForSequenceClassification": "bert.pooler.",
    "AlbertForPreTraining": "albert.pooler.",
    "LxmertForQuestionAnswering": "lxmert.pooler.",
    "BeitForImageClassification": "beit.pooler.",
    "ConvNextForImageClassification": "convnext.layernorm.",
    "WhisperForAudioClassification": "projector.",
    "RobertaForSequenceClassification": "",
    "CLIPForImageClassification": "",
    "Dinov2ForImageClassification": "",
    "Wav2Vec2ForSequenceClassification": "",
    "T5ForTokenClassification": "",
    "GPT2DoubleHeadsModel": "",
}


@pytest.mark.parametrize("name", FEEDING)
def test_what_feeds_a_head_alone(name: str):
    feeders = fed(name)
    assert (feeders.why, feeders.is_wrong) == ("", False), feeders.wrong
    assert bool(feeders.alone) == bool(FEEDING[name])
    assert all(tensor.startswith(FEEDING[name]) for tensor in feeders.alone)


@pytest.mark.long
def test_what_feeds_the_heads_alone_in_all_classes():
    all_feeders = every_fed(os.cpu_count() or 1)
    counted = [feeders for feeders in all_feeders if not feeders.why]
    assert len(counted) > 400
    assert sum(bool(feeders.alone) for feeders in counted) > 50
    assert [feeders.wrong for feeders in counted if feeders.is_wrong] == []
