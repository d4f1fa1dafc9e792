"""Which files travel with a model, and that they travel unchanged."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace_gui.checkpoints.side_files import belongs, copy_side_files, find_side_files
from ace_gui.errors import CheckpointError, OutputError

BELONG = [
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "special_tokens_map.json"),
    *("added_tokens.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"),
    *("chat_template.jinja", "preprocessor_config.json", "processor_config.json"),
    *("modules.json", "tekken.json", "qwen.tiktoken", "LICENSE", "LICENCE.md", "license.txt"),
    *("NOTICE", "USE_POLICY.md", "LICENSE-2.0", "COPYING", "spm.vocab", "bpe.codes"),
]

PURPOSES = [
    *("license", "LICENCE", "notice", "copying", "use_policy", "vocab", "tokenizer.model"),
    *("config.json", "merges.txt", "chat_template.jinja", "spiece.model"),
]
CODE = [
    *(".py", ".pyc", ".pyo", ".pyd", ".so", ".so.1", ".dll", ".dylib", ".sh", ".exe", ".js"),
    *(".PY", ".txt.py", ".cu", ".wasm"),
]

OTHERS = [
    *("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"),
    *("pytorch_model.bin.index.json", "training_args.bin", "optimizer.pt", "rng_state.pth"),
    *("model.ckpt", "model.gguf", "model.onnx", "tf_model.h5", "flax_model.msgpack"),
    *("README.md", "readme.md", ".gitattributes", ".secret.json", "trainer_state.json"),
    *("eval_results.json", "adapter_config.json", "photo.png"),
]


def test_sorting_a_folder(tmp_path):
    for name in (*BELONG, *OTHERS, "modeling_x.py"):
        (tmp_path / name).write_text("[]" if name == "modules.json" else name)
    (tmp_path / "folder.json").mkdir()
    side_files = find_side_files(tmp_path)
    assert set(side_files.files) == set(BELONG)
    assert [file.name for file in side_files.code] == ["modeling_x.py"]
    assert side_files.outside == ()


@pytest.mark.parametrize("suffix", CODE)
def test_code_is_not_copied_whatever_it_is_named_after(tmp_path, suffix: str):
    names = {f"{purpose}{suffix}" for purpose in PURPOSES}
    for name in names:
        (tmp_path / name).write_text("import os")
    side_files = find_side_files(tmp_path)
    assert side_files.files == {}
    assert {file.name for file in side_files.code} == names


@given(stem=st.sampled_from(PURPOSES), suffix=st.from_regex(r"\.[a-z0-9]{1,5}", fullmatch=True))
def test_what_travels_ends_like_data(stem: str, suffix: str):
    data = {".json", ".jinja", ".txt", ".model", ".spm", ".tiktoken", ".bpe", ".vocab", ".md"}
    text = {".rst", ".pdf", ".tsv"}
    if belongs(stem + suffix):
        assert suffix in data | text or suffix[1:].isdigit()


def test_unknown_formats_are_named(tmp_path):
    (tmp_path / "vocab.dill").write_text("")
    (tmp_path / "license.html").write_text("")
    (tmp_path / "photo.png").write_text("")
    side_files = find_side_files(tmp_path)
    assert [file.name for file in side_files.code] == ["license.html", "vocab.dill"]


def test_copying_byte_for_byte(tmp_path):
    source = tmp_path / "a"
    target = tmp_path / "b"
    source.mkdir()
    target.mkdir()
    contents = {"vocab.txt": bytes(range(256)) * 9000, "merges.txt": b"", "config.json": b"{\r\n}"}
    for name, content in contents.items():
        (source / name).write_bytes(content)
    copy_side_files(find_side_files(source).files, target)
    assert {file.name: file.read_bytes() for file in target.iterdir()} == contents


def test_links_out_of_the_folder_are_not_copied(folder: Path):
    (folder / "tokenizer.json").symlink_to(folder.with_name("secret.json"))
    (folder / "added_tokens.json").symlink_to("vocab.json")
    side_files = find_side_files(folder)
    assert list(side_files.files) == ["added_tokens.json", "vocab.json"]
    assert [file.name for file in side_files.outside] == ["tokenizer.json"]
    (folder.with_name("link")).symlink_to(folder)  # a folder reached by a link is itself
    assert list(find_side_files(folder.with_name("link")).files) == list(side_files.files)


def test_a_file_that_is_there_is_not_overwritten(folder: Path, tmp_path):
    _file(tmp_path / "out/vocab.json", "old")
    with pytest.raises(OutputError, match=r"out/vocab\.json: Something is already there"):
        copy_side_files({"vocab.json": folder / "vocab.json"}, tmp_path / "out")
    assert (tmp_path / "out/vocab.json").read_text() == "old"


def test_a_fifo_that_took_a_file_s_place(tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("no FIFOs on this system")
    os.mkfifo(tmp_path / "vocab.json")
    assert find_side_files(tmp_path).files == {}
    with pytest.raises(CheckpointError, match="Not a regular file"):
        copy_side_files({"vocab.json": tmp_path / "vocab.json"}, tmp_path)


@pytest.fixture
def folder(tmp_path):
    """A folder of a model, beside what is secret and an empty folder for its copy."""
    _file(tmp_path / "secret.json", "secret")
    _file(tmp_path / "model/vocab.json")
    (tmp_path / "out").mkdir()
    return tmp_path / "model"


def _swap(folder: Path) -> None:
    (folder / "vocab.json").unlink()
    (folder / "vocab.json").symlink_to(folder.with_name("secret.json"))


def test_a_link_that_took_a_file_s_place_is_not_followed(folder: Path, tmp_path):
    side_files = find_side_files(folder).files
    _swap(folder)
    with pytest.raises(CheckpointError, match="leads out of the model's folder"):
        copy_side_files(side_files, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_link_that_appears_between_the_check_and_opening(folder: Path, tmp_path, monkeypatch):
    real_open = os.open
    copy = tmp_path / "out/vocab.json"

    def swapped(path: Path, *arguments: object, **options: object) -> int:
        if Path(path) == folder / "vocab.json":
            _swap(folder)
        return real_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(CheckpointError):
        copy_side_files({"vocab.json": folder / "vocab.json"}, copy.parent)
    assert not copy.exists() or copy.read_text() != "secret"


def test_a_link_to_a_hidden_file_or_code_of_the_folder(tmp_path):
    (tmp_path / ".env").write_text("secret")
    (tmp_path / "modeling.py").write_text("import os")
    (tmp_path / "vocab.json").symlink_to(".env")
    (tmp_path / "merges.txt").symlink_to("modeling.py")
    assert find_side_files(tmp_path).files == {}


def _sub_folders(folder: Path) -> set[str]:
    """Places of side files that lie in sub-folders of ``folder``."""
    return {name for name in find_side_files(folder).files if "/" in name}


def _file(path: Path, text: str = "{}") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_modules_of_sentence_transformers_come_with_their_files(tmp_path):
    paths = ["", "1_Pooling", "2_Dense", "3_Normalize", "4_Router"]
    _file(tmp_path / "modules.json", json.dumps([{"path": path} for path in paths]))
    (tmp_path / "3_Normalize").mkdir()
    _file(tmp_path / "1_Pooling/config.json")
    _file(tmp_path / "2_Dense/config.json")
    _file(tmp_path / "2_Dense/model.safetensors")
    _file(tmp_path / "4_Router/query_0_Transformer/sentence_bert_config.json")
    assert _sub_folders(tmp_path) == {
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "4_Router/query_0_Transformer/sentence_bert_config.json",
    }


def test_parts_of_a_pipeline_come_with_their_files(tmp_path):
    index = {
        "_class_name": "StableDiffusionPipeline",
        "scheduler": ["diffusers", "DDIMScheduler"],
        "unet": ["diffusers", "UNet2DConditionModel"],
        "safety_checker": [None, None],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    _file(tmp_path / "model_index.json", json.dumps(index))
    _file(tmp_path / "scheduler/scheduler_config.json")
    _file(tmp_path / "unet/config.json")
    _file(tmp_path / "unet/diffusion_pytorch_model.safetensors")
    _file(tmp_path / "safety_checker/config.json")
    assert _sub_folders(tmp_path) == {"scheduler/scheduler_config.json", "unet/config.json"}


def test_other_sub_folders_come_only_where_they_belong_to_the_model(tmp_path):
    _file(tmp_path / "additional_chat_templates/tool_use.jinja")
    _file(tmp_path / "qformer_tokenizer/tokenizer_config.json")
    _file(tmp_path / "qformer_tokenizer/vocab.txt")
    _file(tmp_path / "checkpoint-500/tokenizer.json")
    _file(tmp_path / "checkpoint-500/model.safetensors")
    _file(tmp_path / "onnx/tokenizer.json")
    _file(tmp_path / "onnx/model.onnx")
    _file(tmp_path / "data/train.json")
    _file(tmp_path / ".cache/tokenizer.json")
    assert _sub_folders(tmp_path) == {
        "additional_chat_templates/tool_use.jinja",
        "qformer_tokenizer/tokenizer_config.json",
        "qformer_tokenizer/vocab.txt",
    }


@pytest.mark.parametrize(
    "name", ["../other", "/etc", "a/../..", ".hidden", "a/b/c/d", "a\\b", "li", "\udcff", "a\0b"]
)
def test_lists_that_name_folders_outside_are_refused(name: str, tmp_path):
    _file(tmp_path / "other/tokenizer.json")
    model = tmp_path / "model"
    _file(model / "modules.json", json.dumps([{"path": name}]))
    (model / "li").symlink_to(tmp_path / "other")
    with pytest.raises(CheckpointError, match="Names a folder outside"):
        find_side_files(model)


def test_sub_folders_of_the_hub_s_cache(tmp_path):
    _file(tmp_path / "blobs/abc")
    snapshot = tmp_path / "snapshots/1"
    _file(snapshot / "modules.json", json.dumps([{"path": "1_Pooling"}]))
    (snapshot / "1_Pooling").mkdir()
    (snapshot / "1_Pooling/config.json").symlink_to("../../../blobs/abc")
    (snapshot / "1_Pooling/other.json").symlink_to(tmp_path / "snapshots/secret.json")
    _file(tmp_path / "snapshots/secret.json")
    assert _sub_folders(snapshot) == {"1_Pooling/config.json"}


def test_copying_makes_the_sub_folders(tmp_path):
    _file(tmp_path / "a/additional_chat_templates/tool_use.jinja", "x")
    copy_side_files(find_side_files(tmp_path / "a").files, tmp_path / "b")
    assert (tmp_path / "b/additional_chat_templates/tool_use.jinja").read_text() == "x"
