"""Every number format of safetensors as base and as expert: merged, kept from the base, refused."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ace_gui.checkpoints.header import tag_of, torch_dtype
from ace_gui.checkpoints.pickle_conversion import convert_pickle
from ace_gui.engine.contract.plan import COMBINED, Disposition
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import CheckpointError, MismatchError, PickleConsentError
from ace_gui.paths import conversions_folder
from ace_gui.recipe.overrides import Override
from ace_gui.stored_formats import FORMATS, is_float
from tests.helpers.adapters import PREFIX, factors, save_adapter
from tests.helpers.checkpoints import entry, raw_file, save_model, tiny_bert
from tests.helpers.faults import complaint
from tests.helpers.merges import merged_tensors
from tests.helpers.recipes import recipe_over

QUERY = "bert.encoder.layer.0.attention.self.query"
WEIGHTS = {
    "matrix": f"{QUERY}.weight",
    "bias": f"{QUERY}.bias",
    "norm": "bert.encoder.layer.0.output.LayerNorm.weight",
    "embedding": "bert.embeddings.word_embeddings.weight",
    "unknown": "bert.table",
}
BUFFER = "bert.embeddings.position_ids"
PAIRS = list(itertools.product(FORMATS, FORMATS))
MATRICES = frozenset({"matrix", "embedding"})


def bare(file: Path, name: str, tag: str) -> Path:
    """A file with a tensor of zeros in this format, and one more in float32."""
    size = 8 * FORMATS[tag].bits
    header = {name: entry(tag, [8, 8], 0, size), "other": entry("F32", [2], size, size + 8)}
    return raw_file(file, header, bytes(size + 8))


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Callable[[str, str, str], Path]:
    folder = tmp_path_factory.mktemp("formats")

    def file(who: str, name: str, tag: str) -> Path:
        path = folder / f"{who}-{name}-{tag}.safetensors"
        return path if path.exists() else bare(path, name, tag)

    return file


def planned(files: Callable[[str, str, str], Path], name: str, base: str, expert: str) -> Prepared:
    return prepare(recipe_over(files("base", name, base), [files("expert", name, expert)]))


def outcome(files: Callable[[str, str, str], Path], name: str, base: str, expert: str) -> str:
    """What is said, or what becomes of the tensor."""
    error = complaint(lambda: planned(files, name, base, expert))
    if error is not None:
        assert error.tensor == name
        assert error.path is not None
        assert f"`{name}`" in error.sentence
        assert error.sentence.isprintable()
        return type(error).__name__
    prepared = planned(files, name, base, expert)
    row = next(row for row in prepared.plan.rows if row.name == name)
    said = any("Not floating point" in warning for warning in prepared.plan.warnings)
    return "combined" if row.disposition in COMBINED else "kept, said" if said else "kept"


def expected(kind: str, base: str, expert: str) -> str:
    if FORMATS[base].quantised or FORMATS[expert].quantised:
        return "CheckpointError"
    if kind == "buffer":
        return "kept"
    if is_float(base) and is_float(expert):
        return "combined"
    if is_float(base) or is_float(expert) or kind in MATRICES:
        return "MismatchError"
    return "kept, said"


@pytest.mark.parametrize("kind", [*WEIGHTS, "buffer"])
def test_every_pair_of_formats(kind: str, files: Callable[[str, str, str], Path]):
    name = WEIGHTS.get(kind, BUFFER)
    wrong = [
        (base, expert, actual)
        for base, expert in PAIRS
        if (actual := outcome(files, name, base, expert)) != expected(kind, base, expert)
    ]
    assert not wrong


FLOATS = [tag for tag in FORMATS if is_float(tag)]


@pytest.mark.parametrize("base", FLOATS)
@pytest.mark.parametrize("expert", FLOATS)
def test_floats_merge_to_the_mean_in_float64(base: str, expert: str, tmp_path):
    generator = torch.Generator().manual_seed(1)
    first = tiny_bert(generator)
    models = [{n: t.to(torch_dtype(base)) for n, t in first.items()}]
    for _ in range(2):
        tuned = {n: t + 0.1 * torch.randn(t.shape, generator=generator) for n, t in first.items()}
        models.append({n: t.to(torch_dtype(expert)) for n, t in tuned.items()})
    paths = [save_model(tmp_path / str(n), tensors) for n, tensors in enumerate(models)]
    prepared = prepare(recipe_over(paths[0], paths[1:], merge_method="linear"))
    merged = merged_tensors(prepared, tmp_path / "store", as_output=True)
    for name, tensor in merged.items():
        assert tensor.dtype is torch_dtype(base)
        mean = (models[1][name].double() + models[2][name].double()) / 2
        rounding = torch.finfo(tensor.dtype).eps
        assert torch.allclose(tensor.double(), mean, rtol=rounding, atol=4e-7)


OTHERS = {"integer": torch.int8, "mask": torch.bool, "complex": torch.complex64}
"""What torch and pickles know and no weight is."""


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return save_model(
        tmp_path_factory.mktemp("base") / "base", tiny_bert(torch.Generator().manual_seed(0))
    )


def with_other_format(base: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    tensors = load_file(base / "model.safetensors")
    return {**tensors, WEIGHTS["matrix"]: tensors[WEIGHTS["matrix"]].to(dtype)}


def assert_named(base: Path, expert: Path, dtype: torch.dtype, **changes: object) -> None:
    error = complaint(lambda: prepare(recipe_over(base, [expert], **changes)))
    assert isinstance(error, MismatchError)
    for part in (WEIGHTS["matrix"], tag_of(dtype), expert.name, "dequantise or convert"):
        assert part in error.sentence
    assert ". " not in error.sentence  # one sentence


@pytest.mark.parametrize("dtype", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("shards", [1, 2])
def test_the_sentence_names_tensor_format_and_expert(
    dtype: torch.dtype, shards: int, base: Path, tmp_path
):
    expert = save_model(tmp_path / "tuned", with_other_format(base, dtype), shards=shards)
    for method in ("ace", "linear", "ties", "slerp"):
        assert_named(base, expert, dtype, merge_method=method)


@pytest.mark.parametrize("dtype", OTHERS.values(), ids=OTHERS)
def test_converted_pickles_are_no_way_around(dtype: torch.dtype, base: Path, tmp_path):
    folder = tmp_path / "pickled"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    torch.save(with_other_format(base, dtype), folder / "pytorch_model.bin")
    with pytest.raises(PickleConsentError):
        prepare(recipe_over(base, [folder]))
    convert_pickle(folder, conversions_folder())
    assert_named(base, folder, dtype)


@pytest.mark.parametrize("dtype", OTHERS.values(), ids=OTHERS)
def test_what_an_adapter_replaces_is_no_way_around(dtype: torch.dtype, base: Path, tmp_path):
    replaced_name = f"{PREFIX}{QUERY}.modules_to_save.default.weight"
    low_rank = factors("bert.encoder.layer.0.attention.self.key", 8, 8)
    tensors = load_file(base / "model.safetensors")
    tensors["bert.encoder.layer.0.attention.self.key.weight"] = torch.zeros(8, 8)
    base_folder = save_model(tmp_path / "base", tensors)
    adapter = save_adapter(
        tmp_path / "tuned", {**low_rank, replaced_name: tensors[WEIGHTS["matrix"]].to(dtype)}
    )
    assert_named(base_folder, adapter, dtype)


@pytest.mark.parametrize("dtype", OTHERS.values(), ids=OTHERS)
def test_integer_factors_of_an_adapter_are_refused_by_name(
    dtype: torch.dtype, base: Path, tmp_path
):
    pair = {name: tensor.to(dtype) for name, tensor in factors(QUERY, 8, 8).items()}
    adapter = save_adapter(tmp_path / "tuned", pair)
    error = complaint(lambda: prepare(recipe_over(base, [adapter])))
    assert isinstance(error, CheckpointError)
    assert QUERY in error.sentence
    assert "tuned" in error.sentence
    assert tag_of(dtype) in error.sentence
    assert "not floating point" in error.sentence


def test_a_person_may_keep_the_bases_tensor_instead(base: Path, tmp_path):
    expert = save_model(tmp_path / "tuned", with_other_format(base, torch.int8))
    rule = Override(tensors=(WEIGHTS["matrix"],), disposition="base")
    prepared = prepare(recipe_over(base, [expert], overrides=(rule,)))
    merged = merged_tensors(prepared, tmp_path / "store")
    base_matrix = load_file(base / "model.safetensors")[WEIGHTS["matrix"]]
    assert torch.equal(merged[WEIGHTS["matrix"]], base_matrix)


def test_a_tied_tensor_is_looked_at_under_the_name_that_is_read(tmp_path):
    tensors = {"transformer.wte.weight": torch.randn(12, 8), "lm_head.weight": torch.randn(12, 8)}
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone()
    for name in tensors:
        expert = {**tensors, name: tensors[name].to(torch.int8)}
        save_file(tensors, tmp_path / "base.safetensors")
        save_file(expert, tmp_path / "tuned.safetensors")
        recipe = recipe_over(tmp_path / "base.safetensors", [tmp_path / "tuned.safetensors"])
        error = complaint(lambda recipe=recipe: prepare(recipe))
        assert isinstance(error, MismatchError)
        assert error.tensor == name


def test_an_integer_head_stays_its_experts_own(base: Path, tmp_path):
    tensors = load_file(base / "model.safetensors")
    head = torch.arange(16, dtype=torch.int8).reshape(2, 8)
    expert = save_model(tmp_path / "tuned", {**tensors, "classifier.weight": head})
    prepared = prepare(recipe_over(base, [expert]))
    (row,) = (row for row in prepared.plan.rows if row.name == "classifier.weight")
    assert row.disposition is Disposition.PER_EXPERT
    merged_tensors(prepared, tmp_path / "store")
    written = load_file(tmp_path / "store" / "model" / "heads" / "tuned.safetensors")
    assert torch.equal(written["classifier.weight"], head)
