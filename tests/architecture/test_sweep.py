"""Every model class of transformers (long), and some of each kind that was once wrong."""

import pytest

from tests.architecture.sweep import summary, sweep, verdict

ONCE_WRONG = (
    "DINOv3ViTModel",
    "IBertForMaskedLM",
    "Gemma3ForConditionalGeneration",
    "RecurrentGemmaForCausalLM",
    "UniSpeechForPreTraining",
    "CpmAntForCausalLM",
    "DistilBertForQuestionAnswering",
)


@pytest.mark.parametrize("name", ONCE_WRONG)
def test_parameters_of_a_class(name: str) -> None:
    found = verdict(name)
    assert (found.refused, found.wrong) == ("", ())
    assert found.tensors


@pytest.mark.long
def test_parameters_of_all_classes() -> None:
    found = sweep()
    built = [each for each in found if not each.refused]
    assert len(built) > 1500, summary(found)
    assert [line for each in built for line in each.wrong] == [], summary(found)
