"""Models of several parts, laid out by hand as diffusers and sentence-transformers publish them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.pickle_conversion import convert_pickle
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.output.exporting import export, publish
from ace_gui.engine.planning import models as opening
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import MismatchError, PickleConsentError
from ace_gui.recipe.output_forms import ModelExport
from tests.helpers.merges import merged_folder
from tests.helpers.recipes import recipe_over

UNET = "diffusion_pytorch_model"
TEXT = "model"
DENSE = "model"
PARTS = {
    "unet": (UNET, {"conv_in.weight": (4, 2, 3, 3), "mid.attentions.0.to_q.weight": (6, 6)}),
    "text_encoder": (TEXT, {"text_model.encoder.layers.0.mlp.fc1.weight": (8, 4)}),
    "vae": (UNET, {"encoder.conv_in.weight": (3, 2, 3, 3), "encoder.conv_in.bias": (3,)}),
}
Parts = Mapping[str, Mapping[str, Tensor]]


def tensors_of(seed: int, parts: Iterable[str] = PARTS) -> dict[str, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return {
        part: {
            name: torch.randn(size, generator=generator) for name, size in PARTS[part][1].items()
        }
        for part in parts
    }


def pipeline(folder: Path, tensors: Parts) -> Path:
    """As ``StableDiffusionPipeline.save_pretrained``, but for empty configs of no weights."""
    index: dict[str, object] = {
        "_class_name": "StableDiffusionPipeline",
        "_diffusers_version": "0.35.1",
        "safety_checker": [None, None],
        "requires_safety_checker": False,
        "scheduler": ["diffusers", "DDIMScheduler"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
    }
    for name in ("scheduler/scheduler_config.json", "tokenizer/vocab.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    for part, part_tensors in tensors.items():
        index[part] = ["diffusers", "UNet2DConditionModel"]
        part_folder(folder / part, part, part_tensors)
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def part_folder(folder: Path, part: str, tensors: Mapping[str, Tensor]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"_class_name": part, "sample_size": 8}))
    save_file(dict(tensors), folder / f"{PARTS[part][0]}.safetensors", {"format": "pt"})
    return folder


def merged(tmp_path: Path, base: Path, experts: Iterable[Path], **changes: object) -> Path:
    """The output folder of a merge by ``linear``, or as ``changes`` say."""
    recipe = recipe_over(base, experts, **{"merge_method": "linear", **changes})
    return merged_folder(recipe, tmp_path / "out")


def loaded(folder: Path) -> dict[str, dict[str, Tensor]]:
    return {
        part: load_file(folder / part / f"{stem}.safetensors") for part, (stem, _) in PARTS.items()
    }


def mean(*tensors: Tensor) -> Tensor:
    return torch.stack(tensors).double().mean(0).float()


def test_a_pipeline_is_merged_whole(tmp_path: Path):
    base, a, b = (tensors_of(seed) for seed in range(3))
    a["vae"] = b["vae"] = base["vae"]
    folders = [
        pipeline(tmp_path / name, parts) for name, parts in zip("0ab", (base, a, b), strict=True)
    ]
    out = merged(tmp_path, folders[0], folders[1:])
    parts = loaded(out)
    for part in ("unet", "text_encoder"):
        for name, tensor in parts[part].items():
            torch.testing.assert_close(tensor, mean(a[part][name], b[part][name]))
    assert all(torch.equal(tensor, base["vae"][name]) for name, tensor in parts["vae"].items())
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    inputs = {
        path.relative_to(folders[0]).as_posix() for path in folders[0].rglob("*") if path.is_file()
    }
    assert files == inputs | {"README.md", "merge_recipe.yaml"}


@pytest.mark.parametrize("name", ["unet", "my-fine-tune"])
def test_an_expert_may_lack_parts_or_be_one(tmp_path: Path, name: str):
    base = tensors_of(0)
    a = tensors_of(1, ["unet", "text_encoder"])
    b = tensors_of(2, ["unet"])
    experts = [
        pipeline(tmp_path / "a", a),
        part_folder(tmp_path / "b" / name, "unet", b["unet"]),
    ]
    parts = loaded(merged(tmp_path, pipeline(tmp_path / "base", base), experts))
    for name, tensor in parts["unet"].items():
        torch.testing.assert_close(tensor, mean(a["unet"][name], b["unet"][name]))
    for name, tensor in parts["text_encoder"].items():
        torch.testing.assert_close(tensor, a["text_encoder"][name])
    assert all(torch.equal(tensor, base["vae"][name]) for name, tensor in parts["vae"].items())


def test_one_part_of_two_that_are_alike_needs_its_name(tmp_path: Path):
    base = tensors_of(0)
    pipeline(tmp_path / "base", base)
    twin = part_folder(tmp_path / "base/text_encoder_2", "text_encoder", base["text_encoder"])
    index = json.loads((tmp_path / "base/model_index.json").read_text())
    index["text_encoder_2"] = ["transformers", "CLIPTextModel"]
    (tmp_path / "base/model_index.json").write_text(json.dumps(index))
    assert twin.is_dir()
    encoder = tensors_of(1, ["text_encoder"])["text_encoder"]
    recipe = recipe_over(
        tmp_path / "base", [part_folder(tmp_path / "mine", "text_encoder", encoder)]
    )
    with pytest.raises(MismatchError, match="any of `text_encoder`, `text_encoder_2`"):
        prepare(recipe)
    named = part_folder(tmp_path / "text_encoder_2", "text_encoder", encoder)
    rows = prepare(recipe_over(tmp_path / "base", [named])).plan.rows
    assert {row.name.split("/")[0] for row in rows if row.experts} == {"text_encoder_2"}


def test_a_part_that_the_base_has_not_is_left_out_and_named(tmp_path: Path):
    base = pipeline(tmp_path / "base", tensors_of(0, ["unet", "text_encoder"]))
    expert = pipeline(tmp_path / "a", tensors_of(1))
    prepared = prepare(recipe_over(base, [expert]))
    assert not [row for row in prepared.plan.rows if not row.in_base]
    assert any("no `vae`" in warning for warning in prepared.plan.experts[0].warnings)


def test_a_pipeline_is_shown_by_its_parts(tmp_path: Path):
    plan = prepare(recipe_over(pipeline(tmp_path / "base", tensors_of(0)), [])).plan
    assert plan.base.architecture == "unet, text_encoder, vae"
    (note,) = (warning for warning in plan.warnings if "described by their names" in warning)
    assert note.startswith("unet, text_encoder, vae: ")


def test_each_part_has_shards_and_an_index_of_its_own(tmp_path: Path):
    tensors = [tensors_of(seed) for seed in range(2)]
    folders = [pipeline(tmp_path / str(seed), parts) for seed, parts in enumerate(tensors)]
    recipe = recipe_over(folders[0], folders[1:], merge_method="linear")
    for _ in merge(prepare(recipe), tmp_path / "store"):
        pass
    for _ in export(tmp_path / "store", tmp_path / "out", ModelExport(gigabytes=160e-9)):
        pass
    index = json.loads((tmp_path / f"out/unet/{UNET}.safetensors.index.json").read_text())
    assert index["weight_map"] == {
        "conv_in.weight": f"{UNET}-00001-of-00002.safetensors",
        "mid.attentions.0.to_q.weight": f"{UNET}-00002-of-00002.safetensors",
    }
    assert (tmp_path / "out/text_encoder/model.safetensors").is_file()
    merged_again = open_checkpoint(tmp_path / "out")
    assert set(merged_again.tensors) == set(open_checkpoint(folders[0]).tensors)
    assert set(merged_again.parts) == set(PARTS)


def test_an_unfinished_pipeline_is_resumed(tmp_path: Path):
    folders = [pipeline(tmp_path / str(seed), tensors_of(seed)) for seed in range(3)]
    recipe = recipe_over(folders[0], folders[1:], merge_method="linear")
    prepared = prepare(recipe)
    store = tmp_path / "store"
    steps = merge(prepared, store, as_output=True)
    list(islice(steps, 3))
    steps.close()  # type: ignore[attr-defined]
    list(merge(prepared, store, as_output=True, resume=True))
    publish(store, tmp_path / "out")
    first = load_file(folders[1] / f"vae/{UNET}.safetensors")
    second = folders[2]
    again = load_file(second / f"vae/{UNET}.safetensors")
    for name, tensor in loaded(tmp_path / "out")["vae"].items():
        torch.testing.assert_close(tensor, mean(first[name], again[name]))


def test_a_variant_is_read_and_written_under_the_usual_name(tmp_path: Path):
    folders = [pipeline(tmp_path / str(seed), tensors_of(seed)) for seed in range(2)]
    for folder in folders:
        weights_file = folder / f"unet/{UNET}.safetensors"
        halves = {name: tensor.half() for name, tensor in load_file(weights_file).items()}
        save_file(halves, folder / f"unet/{UNET}.fp16.safetensors")
        weights_file.unlink()
    assert any("Only the variant" in warning for warning in open_checkpoint(folders[0]).warnings)
    out = merged(tmp_path, folders[0], folders[1:])
    assert load_file(out / f"unet/{UNET}.safetensors")["conv_in.weight"].dtype == torch.float16


def test_a_pickled_part_is_read_once_it_is_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(opening, "conversions_folder", lambda: tmp_path / "cache")
    folders = [pipeline(tmp_path / str(seed), tensors_of(seed)) for seed in range(2)]
    expert = folders[1] / f"unet/{UNET}.safetensors"
    tensors = load_file(expert)
    torch.save(tensors, expert.with_suffix(".bin"))
    expert.unlink()
    with pytest.raises(PickleConsentError) as caught:
        prepare(recipe_over(folders[0], folders[1:]))
    assert caught.value.path == folders[1] / "unet"
    convert_pickle(caught.value.path, tmp_path / "cache")
    out = merged(tmp_path, folders[0], folders[1:])
    for name, tensor in load_file(out / f"unet/{UNET}.safetensors").items():
        torch.testing.assert_close(tensor, tensors[name])


def sentence_transformer(folder: Path, seed: int, transformer: str) -> Path:
    """``SentenceTransformer.save``: a transformer in the root or a folder, pooling and dense."""
    generator = torch.Generator().manual_seed(seed)
    modules = [transformer, "1_Pooling", "2_Dense", "3_Normalize"]
    listed = [{"idx": n, "name": str(n), "path": path} for n, path in enumerate(modules)]
    for path in modules:
        (folder / path).mkdir(parents=True, exist_ok=True)
        (folder / path / "config.json").write_text(json.dumps({"word_embedding_dimension": 4}))
    (folder / "modules.json").write_text(json.dumps(listed))
    query = torch.randn(4, 4, generator=generator)
    encoder = {"encoder.layer.0.attention.self.query.weight": query}
    dense = {"linear.weight": torch.randn(3, 4, generator=generator), "linear.bias": torch.ones(3)}
    save_file(encoder, folder / transformer / "model.safetensors")
    save_file(dense, folder / "2_Dense/model.safetensors")
    return folder


@pytest.mark.parametrize("layouts", [("", ""), ("0_Transformer", "0_Transformer"), ("0_T", "")])
def test_the_modules_of_sentence_transformers_are_merged(tmp_path: Path, layouts: tuple[str, str]):
    base = sentence_transformer(tmp_path / "base", 0, layouts[0])
    experts = [sentence_transformer(tmp_path / str(n), n, layouts[1]) for n in (1, 2)]
    out = merged(tmp_path, base, experts)
    for theirs, ours in (("2_Dense", "2_Dense"), (layouts[1], layouts[0])):
        tensors = load_file(out / ours / "model.safetensors")
        first, second = (load_file(folder / theirs / "model.safetensors") for folder in experts)
        for name, tensor in tensors.items():
            torch.testing.assert_close(tensor, mean(first[name], second[name]))
    assert (out / "1_Pooling/config.json").is_file()
    assert (out / "modules.json").is_file()


def test_ace_merges_the_matrix_of_a_dense_module(tmp_path: Path):
    base = sentence_transformer(tmp_path / "base", 0, "")
    experts = [sentence_transformer(tmp_path / str(n), n, "") for n in (1, 2)]
    rows = {row.name: row for row in prepare(recipe_over(base, experts)).plan.rows}
    assert rows["2_Dense/linear.weight"].disposition.value == "merged"
    assert rows["2_Dense/linear.bias"].disposition.value == "averaged"


@pytest.mark.parametrize(
    ("file", "written"),
    [
        ("open_clip_model.safetensors", "open_clip_model.safetensors"),
        ("open_clip_pytorch_model.bin", "open_clip_model.safetensors"),
        ("diffusion_pytorch_model.bin", "diffusion_pytorch_model.safetensors"),
        ("pytorch_model.bin", "model.safetensors"),
        ("model.fp16.safetensors", "model.safetensors"),
        ("fine-tune-v3.safetensors", "model.safetensors"),
    ],
)
def test_the_file_has_the_name_its_library_looks_for(
    file: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(opening, "conversions_folder", lambda: tmp_path / "cache")
    folders = [tmp_path / "base", tmp_path / "a"]
    for seed, folder in enumerate(folders):
        folder.mkdir()
        (folder / "open_clip_config.json").write_text("{}")
        tensors = tensors_of(seed)["unet"]
        if file.endswith(".bin"):
            torch.save(tensors, folder / file)
            convert_pickle(folder, tmp_path / "cache")
        else:
            save_file(tensors, folder / file)
    out = merged(tmp_path, *folders[:1], folders[1:])
    assert {path.name for path in out.glob("*.safetensors")} == {written}
    assert load_file(out / written).keys() == tensors_of(0)["unet"].keys()
    assert (out / "open_clip_config.json").is_file()


def test_a_base_of_one_part_takes_it_from_whole_pipelines(tmp_path: Path):
    base = part_folder(tmp_path / "base", "unet", tensors_of(0)["unet"])
    tensors = [tensors_of(seed) for seed in (1, 2)]
    experts = [pipeline(tmp_path / str(seed), parts) for seed, parts in enumerate(tensors)]
    unet = load_file(merged(tmp_path, base, experts) / f"{UNET}.safetensors")
    for name, tensor in unet.items():
        torch.testing.assert_close(tensor, mean(*(parts["unet"][name] for parts in tensors)))
