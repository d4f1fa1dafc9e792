"""What the model card tells a hub and its readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from ace_gui.engine.contract.libraries import library_of
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.output.exporting import export
from ace_gui.engine.output.model_card import lineage_of
from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe.output_forms import ModelExport
from tests.helpers.adapters import factors, save_adapter
from tests.helpers.merges import merged_folder
from tests.helpers.recipes import recipe_over

Front = Mapping[str, object]


def model(folder: Path, front: object = None, **config: object) -> Path:
    """A model of one matrix, whose card begins with ``front``."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"encoder.layer.0.query.weight": torch.randn(3, 3)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"architecture": "mine", **config}))
    if front is not None:
        text = front if isinstance(front, str) else yaml.safe_dump(front)
        (folder / "README.md").write_text(f"---\n{text}\n---\n# A model\n", encoding="utf-8")
    return folder


def card_of(tmp_path: Path, base: Path, *experts: Path) -> str:
    recipe = recipe_over(base, experts, merge_method="linear")
    return (merged_folder(recipe, tmp_path / "out") / "README.md").read_text(encoding="utf-8")


def cached(tmp_path: Path, name: str) -> Path:
    return tmp_path / f"hub/models--{name.replace('/', '--')}/snapshots/0123abc"


def test_the_front_matter_of_models_of_the_hub(tmp_path):
    front = {"license": "apache-2.0", "language": ["en"], "pipeline_tag": "fill-mask"}
    base = model(cached(tmp_path, "org/base"), front)
    expert = model(cached(tmp_path, "me/tuned"), {**front, "language": "de"})
    card = card_of(tmp_path, base, expert)
    data = ModelCard(card).data.to_dict()
    assert data["base_model"] == ["org/base", "me/tuned"]
    assert data["base_model_relation"] == "merge"
    assert data["license"] == "apache-2.0"
    assert data["language"] == ["en", "de"]
    assert data["pipeline_tag"] == "fill-mask"
    assert data["library_name"] == "timm"
    assert data["tags"] == ["merge", "linear"]
    assert str(tmp_path) not in card
    assert "base_model: org/base" in card.split("```yaml")[1]


def test_a_licence_that_not_all_share_is_not_given_but_told(tmp_path):
    base = model(tmp_path / "base", {"license": "mit"})
    experts = [model(tmp_path / "a", {"license": "cc-by-nc-4.0"}), model(tmp_path / "b")]
    card = card_of(tmp_path, base, *experts)
    assert "license" not in ModelCard(card).data.to_dict()
    assert "- base: mit\n- a: cc-by-nc-4.0" in card
    assert "The others' cards name none." in card


def test_a_licence_of_another_name_comes_with_it(tmp_path):
    front = {"license": "other", "license_name": "llama3", "license_link": "LICENSE"}
    card = card_of(tmp_path, model(tmp_path / "0", front), model(tmp_path / "1", front))
    assert {**front}.items() <= yaml.safe_load(card.split("---")[1]).items()


@pytest.mark.parametrize(
    ("base", "experts", "name"),
    [
        ({}, [{"_name_or_path": "org/base"}, {"_name_or_path": "org/base"}], "org/base"),
        ({}, [{"_name_or_path": "org/base"}, {"_name_or_path": "other/base"}], None),
        ({"_name_or_path": "org/roberta"}, [{}], "org/roberta"),
        ({"_name_or_path": "outputs/run-7"}, [{}], None),
        ({"_name_or_path": "/home/me/roberta"}, [{"_name_or_path": "/home/me/roberta"}], None),
        ({}, [{"_name_or_path": "org/base"}], None),
        ({}, [{"_name_or_path": ["org/base"]}, {"_name_or_path": 7}], None),
    ],
)
def test_the_base_s_name_is_believed_where_files_agree(
    base: Front, experts: list[Front], name: str | None, tmp_path
):
    folders = [model(tmp_path / "roberta", **base)]
    folders += [model(tmp_path / str(n), **config) for n, config in enumerate(experts)]
    lineage = lineage_of(recipe_over(folders[0], folders[1:])).models
    assert lineage == (() if name is None else (name,))


def test_cards_of_experts_name_the_base(tmp_path):
    expert = model(tmp_path / "a", {"base_model": "org/base"})
    assert lineage_of(recipe_over(model(tmp_path / "x"), [expert])).models == ("org/base",)


def test_a_path_that_looks_like_a_name_of_the_hub_is_none(tmp_path):
    base = model(tmp_path / "models/llama")
    expert = model(tmp_path / "a", {"base_model": "models/llama"})
    assert lineage_of(recipe_over(base, [expert])).models == ()


@pytest.mark.parametrize(
    "front",
    [
        "license: !!python/object/apply:os.system [id]",
        "license: [mit]\nlanguage: {en: 1}\nbase_model: 7",
        "license: 'mit\nnot yaml",
        "license: |\n  mit\n  evil: true",
        "- a\n- b",
        "[" * 5000,
        "language: no",
    ],
)
def test_what_a_card_says_is_not_believed_blindly(front: str, tmp_path):
    base = model(tmp_path / "base", front)
    data = ModelCard(card_of(tmp_path, base, model(tmp_path / "a"))).data.to_dict()
    assert "license" not in data
    assert data.get("language") in (None, ["no"])
    assert "base_model" not in data


@pytest.mark.parametrize(
    ("opened", "claim", "warned", "named"),
    [
        ("cache", "org/other", True, ["org/base"]),
        ("cache", "mirror/base", False, ["org/base"]),
        ("cache", "org/base", False, ["org/base"]),
        ("config", "org/other", True, ["org/base"]),
        ("config", "mirror/Base", False, ["org/base"]),
        ("folder", "org/other", False, None),
        ("folder", "org/base", False, None),
        ("folder", "outputs", False, None),
        ("cache", "/home/me/other", False, ["org/base"]),
    ],
)
def test_an_adapter_of_another_base_is_warned_of_and_not_believed(
    tmp_path, opened: str, claim: str, warned: bool, named: list[str] | None
):
    said = {"_name_or_path": "org/base"} if opened == "config" else {}
    base = model(cached(tmp_path, "org/base") if opened == "cache" else tmp_path / "base", **said)
    adapter = save_adapter(
        tmp_path / "adapter", factors("encoder.layer.0.query", 3, 3), base_model_name_or_path=claim
    )
    (adapter / "README.md").write_text(f"---\nbase_model: {claim}\n---\n")
    prepared = prepare(recipe_over(base, [adapter], merge_method="linear"))
    remarks = [c for c in prepared.plan.checks if c.title == "Files" and claim in c.sentence]
    assert bool(remarks) is warned
    if warned:
        assert all(name in remarks[0].sentence for name in ("org/other", "org/base"))
    data = ModelCard(card_of(tmp_path, base, adapter)).data.to_dict()
    assert data.get("base_model") == named


def test_what_a_single_file_says_of_itself_goes_into_the_merged_one(tmp_path):
    said = {"modelspec.title": "Mine", "modelspec.hash_sha256": "0xab", "sshs_model_hash": "1"}
    base = model(tmp_path / "base")
    expert = model(tmp_path / "a")
    tensors = load_file(base / "model.safetensors")
    save_file(tensors, base / "model.safetensors", metadata={**said, "format": "pt"})
    card_of(tmp_path, base, expert)
    with safe_open(tmp_path / "out/model.safetensors", "pt") as file:
        assert file.metadata() == {"modelspec.title": "Mine", "format": "pt"}
    store = tmp_path / "again"
    list(merge(prepare(recipe_over(base, [expert], merge_method="linear")), store))
    list(export(store, tmp_path / "exported", ModelExport(dtype="float16")))
    with safe_open(tmp_path / "exported/model.safetensors", "pt") as file:
        assert file.metadata() == {"modelspec.title": "Mine", "format": "pt"}


@pytest.mark.parametrize("nested", [False, True])
def test_a_config_that_calls_plain_weights_quantised_is_not_written(tmp_path, nested: bool):
    said = {"quantization_config": {"quant_method": "fp8"}}
    config = {"text_config": {"a": 1, **said}} if nested else said
    card_of(tmp_path, model(tmp_path / "base", **config), model(tmp_path / "a", **config))
    written = json.loads((tmp_path / "out/config.json").read_text())
    assert "quantization_config" not in json.dumps(written)
    assert written.get("text_config") == ({"a": 1} if nested else None)
    assert "quantization_config" in (tmp_path / "base/config.json").read_text()


texts = st.text(st.characters(exclude_characters="/\x00", exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(licence=texts, language=texts, name=texts)
def test_front_matter_is_yaml_whatever_the_models_say(
    licence: str, language: str, name: str, tmp_path
):
    from ace_gui.engine.output.model_card import front_matter
    from ace_gui.recipe import ModelEntry, Recipe

    front = {"license": licence, "language": language, "base_model": name}
    folder = model(tmp_path / "base", front)
    recipe = Recipe(base_model=folder, models=(ModelEntry(model=folder, name=name),))
    text = f"---\n{front_matter('ace', library_of(folder), lineage_of(recipe))}\n---"
    data = yaml.safe_load(text.strip("-\n"))
    assert set(data) <= {
        *("library_name", "pipeline_tag", "license", "language", "base_model"),
        *("base_model_relation", "tags"),
    }
    assert data.get("license") in (None, licence)
    ModelCard(text + "\n")


LIBRARIES = [
    ({"config.json": {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}},
     "transformers", "text-generation", "model = GPT2LMHeadModel.from_pretrained(F)"),
    ({"config.json": {"architectures": ["RobertaModel"], "model_type": "roberta"}},
     "transformers", "feature-extraction", "model = RobertaModel.from_pretrained(F)"),
    ({"config.json": {"architectures": ["x; import os"], "model_type": "gpt2"}},
     "transformers", "", "model = AutoModel.from_pretrained(F)"),
    ({"config.json": {"architectures": ["Own"], "model_type": "own", "auto_map": {}}},
     "transformers", "", "model = AutoModel.from_pretrained(F)"),
    ({"modules.json": [], "config.json": {"model_type": "bert"}},
     "sentence-transformers", "sentence-similarity", "model = SentenceTransformer(F)"),
    ({"modules.json": [], "config_sentence_transformers.json": {"model_type": "CrossEncoder"}},
     "sentence-transformers", "text-ranking", "model = CrossEncoder(F)"),
    ({"model_index.json": {"_class_name": "FluxPipeline"}},
     "diffusers", "", "pipeline = DiffusionPipeline.from_pretrained(F)"),
    ({"config.json": {"_class_name": "UNet2DConditionModel"}},
     "diffusers", "", "model = UNet2DConditionModel.from_pretrained(F)"),
    ({"config.json": {"architecture": "resnet18", "num_classes": 10}},
     "timm", "image-classification",
     'model = timm.create_model("local-dir:" + F, pretrained=True)'),
    ({"open_clip_config.json": {}, "open_clip_model.safetensors": {}},
     "open_clip", "zero-shot-image-classification",
     'model, _, preprocess = open_clip.create_model_and_transforms("local-dir:" + F)'),
    ({"model.safetensors": {}}, None, "", 'state = load_file(F + "/model.safetensors")'),
]  # fmt: skip


@pytest.mark.parametrize(("files", "name", "task", "load"), LIBRARIES)
def test_each_library_is_known_by_its_files(
    files: Mapping[str, object], name: str | None, task: str, load: str, tmp_path
):
    for file, content in files.items():
        (tmp_path / file).write_text(json.dumps(content))
    library = library_of(tmp_path)
    assert (library.name, library.task, library.lines("F")[1]) == (name, task, load)
    compile("\n".join(library.lines("F")), "card", "exec")
