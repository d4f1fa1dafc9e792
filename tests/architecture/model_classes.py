"""Every model class of transformers, built on the meta device from a small config.

A default config is made smaller (four layers), and completed where a class needs what its default
leaves out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final

from ace_gui.architecture import transformers_library

_LAYERS: Final = (
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "n_layers",
    "encoder_layers",
    "decoder_layers",
    "num_encoder_layers",
    "num_decoder_layers",
    "depth",
)
_FEW: Final = 4
LABELS: Final = 1237
"""Of every config: a number that no other size has."""

# What a default leaves out or has wrong; `timm` backbones become transformers' own.
_STAGES: Final = ["stage1", "stage2", "stage3", "stage4"]
_RESNET: Final = {
    "use_timm_backbone": False,
    "backbone_config": {"model_type": "resnet", "out_features": _STAGES},
}
_COMPLETIONS: Final[dict[str, dict[str, Any]]] = {
    "AutoformerConfig": {"prediction_length": 8},
    "InformerConfig": {"prediction_length": 8},
    "TimeSeriesTransformerConfig": {"prediction_length": 8},
    "EsmConfig": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "ReformerConfig": {"is_decoder": True},
    "BridgeTowerConfig": {"contrastive_hidden_size": 512, "logit_scale_init_value": 2.65},
    "ConvNextConfig": {"depths": [3, 3, 9, 3]},
    "ConvNextV2Config": {"depths": [3, 3, 9, 3]},
    "FocalNetConfig": {"depths": [2, 2, 6, 2]},
    "Wav2Vec2BertConfig": {"vocab_size": 32},
    "Wav2Vec2ConformerConfig": {"vocab_size": 32},
    "ConditionalDetrConfig": _RESNET,
    "DabDetrConfig": _RESNET,
    "DeformableDetrConfig": _RESNET,
    "DetrConfig": _RESNET,
    "TableTransformerConfig": _RESNET,
    "NemotronConfig": {"head_dim": 128, "num_key_value_heads": 8},
    "MinistralConfig": {"head_dim": 128},
    "HunYuanDenseV1Config": {"head_dim": 128},
    "HunYuanMoEV1Config": {"head_dim": 128},
    "BeitConfig": {"out_indices": [3, 5, 7, 11]},
    "ViltConfig": {"num_images": 2, "modality_type_vocab_size": 3},
}


def model_classes() -> Iterator[type[Any]]:
    """Those that a config's ``architectures`` may name."""
    transformers = transformers_library.transformers()
    members = (getattr(transformers, name, None) for name in sorted(dir(transformers)))
    for member in members:
        is_model = isinstance(member, type) and issubclass(member, transformers.PreTrainedModel)
        if is_model and not member.__name__.lower().endswith("pretrainedmodel"):
            yield member


def families() -> list[str]:
    """The packages of transformers that have the models, without importing them."""
    (package,) = transformers_library.transformers().__path__
    return sorted(entry.name for entry in Path(package, "models").iterdir() if entry.is_dir())


def classes_of(family: str) -> list[type[Any]]:
    """The model classes in one of the ``families``."""
    return _classes_by_family().get(family, [])


@cache
def _classes_by_family() -> dict[str, list[type[Any]]]:
    classes: dict[str, list[type[Any]]] = {}
    for model_class in model_classes():
        _, _, inner = model_class.__module__.partition("transformers.models.")
        classes.setdefault(inner.partition(".")[0], []).append(model_class)
    return classes


def built(model_class: type[Any]) -> Any:
    """The model from the first of its configs that it accepts; the last one's error."""
    import torch

    failure: Exception | None = None
    # Some classes insist on their own number of labels.
    for config_of, labels in product((few_layers, _completed, _default), (True, False)):
        try:
            with transformers_library.quiet(), warnings.catch_warnings(), torch.device("meta"):
                warnings.simplefilter("ignore")
                config = config_of(model_class.config_class)
                return model_class(_labelled(config) if labels else config)
        except Exception as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _labelled(config: Any) -> Any:
    for section in (config, *vars(config).values()):
        if hasattr(section, "num_labels"):
            section.num_labels = LABELS
    return config


def _default(config_class: Any) -> Any:
    return config_class()


def _completed(config_class: Any) -> Any:
    return config_class(**_COMPLETIONS.get(config_class.__name__, {}))


def few_layers(config_class: Any) -> Any:
    """A default config, completed, with few layers."""
    return config_class(**fewer_layers(_completed(config_class)))


def fewer_layers(config: Any) -> dict[str, Any]:
    """The arguments that make a config of this kind with few layers, its parts included."""
    settings = dict(_COMPLETIONS.get(type(config).__name__, {}))
    for key, value in vars(config).items():
        if key in _LAYERS and isinstance(value, int):
            settings[key] = min(value, _FEW)
        elif key not in settings and hasattr(value, "model_type") and hasattr(value, "to_dict"):
            settings[key] = type(value)(**fewer_layers(value))
    return settings
