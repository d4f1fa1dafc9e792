"""Tiny models made, tuned and loaded by the libraries that publish them (extra ``clients``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

CLASSES = 5
"""Of every classifier."""

Modules = Mapping[str, nn.Module]
"""The parts of a model by name; an ordinary model is one part, called ``""``."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """How one library writes and reads a kind of model. ``call`` is one forward pass."""

    make: Callable[[], object]
    save: Callable[[object, Path], None]
    load: Callable[[Path], object]
    parts: Callable[[object], Modules]
    call: Callable[[object], Tensor]


def family(client: Client, folder: Path, experts: int = 2) -> tuple[Path, list[Path]]:
    """A base and its experts, each with every parameter moved a little."""
    torch.manual_seed(0)
    model = client.make()
    client.save(model, folder / "base")
    modules = client.parts(model)
    start = {part: _copied(module.state_dict()) for part, module in modules.items()}
    folders = []
    for number in range(experts):
        for part, module in modules.items():
            module.load_state_dict(start[part])
            _shake(module, number + 1)
        client.save(model, folder / f"expert-{number}")
        folders.append(folder / f"expert-{number}")
    return folder / "base", folders


def states(client: Client, folder: Path) -> dict[str, dict[str, Tensor]]:
    """The tensors of a folder, by part, as its own library loads them."""
    modules = client.parts(client.load(folder))
    return {part: _copied(module.state_dict()) for part, module in modules.items()}


def linear_weights(client: Client, folder: Path) -> Iterator[tuple[str, str, bool]]:
    """Part and name of every weight that maps inputs to outputs, by the type of its module.

    True: it is stored inputs × outputs, as the projections of CLIP are, which are bare parameters.
    """
    for part, module in client.parts(client.load(folder)).items():
        for name, inner in module.named_modules():
            if isinstance(inner, nn.Linear):
                yield part, f"{name}.weight" if name else "weight", False
            elif isinstance(inner, nn.MultiheadAttention):
                yield part, f"{name}.in_proj_weight", False
            for local_name, parameter in inner.named_parameters(name, recurse=False):
                if local_name in {"visual.proj", "text_projection"} and parameter.dim() == 2:
                    yield part, local_name, True


def _copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def _shake(module: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.01 * seed * torch.randn(parameter.shape, generator=generator))


def _alone(model: object) -> Modules:
    assert isinstance(model, nn.Module)
    return {"": model.eval()}


def timm_client(name: str, **settings: object) -> Client:
    """A classifier of timm."""
    import timm
    from timm.models import save_for_hf

    size = {"img_size": 32} if "img_size" in settings else {}
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(9))
    arguments = {"num_classes": CLASSES, **settings}
    return Client(
        make=lambda: timm.create_model(name, **arguments),
        save=lambda model, folder: save_for_hf(
            model, folder, model_args={**settings, **size}, safe_serialization=True
        ),
        load=lambda folder: timm.create_model(f"local-dir:{folder}", pretrained=True),
        parts=_alone,
        call=lambda model: model.eval()(images),
    )


def open_clip_client() -> Client:
    """A CLIP of open_clip, as ``push_to_hf_hub`` publishes it, without the tokenizer."""
    import open_clip
    from safetensors.torch import save_file

    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 16},
        "text_cfg": {"context_length": 8, "vocab_size": 50, "width": 32, "heads": 2, "layers": 2},
    }
    generator = torch.Generator().manual_seed(9)
    images = torch.rand(2, 3, 32, 32, generator=generator)
    tokens = torch.randint(0, 50, (2, 8), generator=generator)

    def save(model: object, folder: Path) -> None:
        assert isinstance(model, nn.Module)
        folder.mkdir(parents=True, exist_ok=True)
        save_file(_copied(model.state_dict()), folder / "open_clip_model.safetensors")
        document = {"model_cfg": config, "preprocess_cfg": {}}
        (folder / "open_clip_config.json").write_text(json.dumps(document))

    def call(model: object) -> Tensor:
        image, text, _ = model(images, tokens)
        return torch.cat([image, text])

    return Client(
        make=lambda: open_clip.CLIP(**config),
        save=save,
        load=lambda folder: open_clip.create_model(f"local-dir:{folder}"),
        parts=_alone,
        call=call,
    )


def _tokenizer(folder: Path) -> None:
    from transformers import BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(chr(97 + i) for i in range(26))]
    BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(folder)


def _bert(folder: Path, model_class: str, **settings: object) -> None:
    import transformers

    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        vocab_size=31,
        max_position_embeddings=32,
        **settings,
    )
    getattr(transformers, model_class)(config).save_pretrained(folder)
    _tokenizer(folder)


def sentence_client(work: Path) -> Client:
    """BERT, pooling, two dense layers and normalisation in sentence-transformers."""
    from sentence_transformers import SentenceTransformer, models

    _bert(work, "BertModel")

    def make() -> object:
        modules = [models.Transformer(str(work)), models.Pooling(32), models.Dense(32, 16)]
        return SentenceTransformer(modules=[*modules, models.Dense(16, 8), models.Normalize()])

    return Client(
        make=make,
        save=lambda model, folder: model.save(str(folder)),
        load=lambda folder: SentenceTransformer(str(folder)),
        parts=_alone,
        call=lambda model: torch.as_tensor(model.encode(["a b", "c"])),
    )


def cross_encoder_client(work: Path) -> Client:
    """A cross-encoder of sentence-transformers with one output."""
    from sentence_transformers import CrossEncoder

    _bert(work, "BertForSequenceClassification", num_labels=1)
    return Client(
        make=lambda: CrossEncoder(str(work)),
        save=lambda model, folder: model.save_pretrained(str(folder)),
        load=lambda folder: CrossEncoder(str(folder)),
        parts=_alone,
        call=lambda model: torch.as_tensor(model.predict([("a", "b"), ("c", "d")])),
    )


def _unet() -> nn.Module:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=8,
        layers_per_block=1,
        block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
    )


def _unet_call(unet: nn.Module) -> Tensor:
    generator = torch.Generator().manual_seed(9)
    latents = torch.randn(1, 4, 8, 8, generator=generator)
    states = torch.randn(1, 3, 32, generator=generator)
    return unet(latents, torch.tensor([3]), encoder_hidden_states=states).sample


def unet_client() -> Client:
    """A UNet of diffusers by itself."""
    from diffusers import UNet2DConditionModel

    return Client(
        make=_unet,
        save=lambda model, folder: model.save_pretrained(folder),
        load=UNet2DConditionModel.from_pretrained,
        parts=_alone,
        call=lambda model: _unet_call(model),
    )


def pipeline_client() -> Client:
    """A whole Stable Diffusion pipeline of diffusers."""
    from diffusers import AutoencoderKL, DDIMScheduler, DiffusionPipeline, StableDiffusionPipeline
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    text = CLIPTextConfig(
        hidden_size=32,
        intermediate_size=48,
        num_attention_heads=4,
        num_hidden_layers=2,
        vocab_size=100,
        bos_token_id=0,
        eos_token_id=1,
    )
    words = ["<|startoftext|>", "<|endoftext|>", "a", "b", "a</w>", "b</w>"]
    blocks = {
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
    }

    def make() -> object:
        return StableDiffusionPipeline(
            unet=_unet(),
            vae=AutoencoderKL(block_out_channels=(32, 64), **blocks),
            text_encoder=CLIPTextModel(text),
            tokenizer=CLIPTokenizer(vocab={w: i for i, w in enumerate(words)}, merges=[]),
            scheduler=DDIMScheduler(),
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )

    return Client(
        make=make,
        save=lambda model, folder: model.save_pretrained(folder),
        load=DiffusionPipeline.from_pretrained,
        parts=lambda model: {
            name: getattr(model, name).eval() for name in ("unet", "vae", "text_encoder")
        },
        call=lambda model: _unet_call(model.unet),
    )


def transformer_2d_client() -> Client:
    """A DiT of diffusers, with a table of classes."""
    from diffusers import DiTTransformer2DModel

    generator = torch.Generator().manual_seed(9)
    latents = torch.randn(1, 4, 8, 8, generator=generator)
    return Client(
        make=lambda: DiTTransformer2DModel(
            num_attention_heads=2, attention_head_dim=16, num_layers=2, sample_size=8, patch_size=2
        ),
        save=lambda model, folder: model.save_pretrained(folder),
        load=DiTTransformer2DModel.from_pretrained,
        parts=_alone,
        call=lambda model: model(latents, torch.tensor([3]), class_labels=torch.tensor([1])).sample,
    )


def adapters_of_peft(folder: Path, experts: int = 2) -> tuple[Path, list[Path], list[Path]]:
    """A Llama, LoRA adapters on it, and the whole models that PEFT makes of these."""
    import peft
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        vocab_size=64,
        bos_token_id=0,
        eos_token_id=1,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "base")
    adapters = []
    merged_folders = []
    for number in range(experts):
        model = transformers.LlamaForCausalLM.from_pretrained(folder / "base")
        lora = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])
        tuned = peft.get_peft_model(model, lora)
        trained = [p for p in tuned.parameters() if p.requires_grad]
        generator = torch.Generator().manual_seed(number)
        with torch.no_grad():
            for parameter in trained:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
        adapters.append(folder / f"adapter-{number}")
        tuned.save_pretrained(adapters[-1])
        merged_folders.append(folder / f"whole-{number}")
        tuned.merge_and_unload().save_pretrained(merged_folders[-1])
    assert json.loads((adapters[0] / "adapter_config.json").read_text())["r"] == 4
    return folder / "base", adapters, merged_folders


def lora_of_diffusers(folder: Path, **settings: Any) -> tuple[Path, Path, Path]:
    """A pipeline, a LoRA file of its UNet and text encoder, and what diffusers makes of both."""
    import peft
    from diffusers import StableDiffusionPipeline

    torch.manual_seed(0)
    client = pipeline_client()
    client.save(client.make(), folder / "base")
    pipe = StableDiffusionPipeline.from_pretrained(folder / "base")
    options: dict[str, Any] = {}
    for name, targets in (("unet", settings.pop("targets")), ("text_encoder", ["q_proj", "fc1"])):
        config = peft.LoraConfig(init_lora_weights=False, target_modules=targets, **settings)
        part = getattr(pipe, name)
        part.add_adapter(config)
        options[f"{name}_lora_layers"] = peft.get_peft_model_state_dict(part)
        options[f"{name}_lora_adapter_metadata"] = part.peft_config["default"].to_dict()
    StableDiffusionPipeline.save_lora_weights(folder / "lora", **options)
    pipeline = StableDiffusionPipeline.from_pretrained(folder / "base")
    pipeline.load_lora_weights(folder / "lora")
    pipeline.fuse_lora(components=["unet", "text_encoder"])
    pipeline.unload_lora_weights()
    pipeline.save_pretrained(folder / "whole")
    return folder / "base", folder / "lora", folder / "whole"


def lora_of_lycoris(folder: Path, **settings: Any) -> tuple[Path, Path, Path]:
    """A UNet, a file that LyCORIS trains for it, and what LyCORIS makes of both."""
    import lycoris
    from diffusers import UNet2DConditionModel

    torch.manual_seed(0)
    _unet().save_pretrained(folder / "base")
    unet = UNet2DConditionModel.from_pretrained(folder / "base")
    preset = {"target_module": ["Attention", "ResnetBlock2D", "Transformer2DModel"]}
    lycoris.LycorisNetwork.apply_preset(preset)
    # Its merge_to multiplies LoHa and LoKr by their scale twice, its forward pass once.
    sizes = {"linear_dim": 4, "linear_alpha": 4, "conv_dim": 2, "conv_alpha": 2}
    network = lycoris.create_lycoris(unet, 1.0, **sizes, **settings)
    network.apply_to()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    network.save_weights(str(folder / "lora.safetensors"), torch.float32, {})
    network.restore()
    network.merge_to(1.0)
    unet.save_pretrained(folder / "whole")
    return folder / "base", folder / "lora.safetensors", folder / "whole"
