"""The library that loads a merged folder, and the Python code for it. No heavy imports."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.recipe.model_paths import json_object

# Tasks of transformers, by the ending of the class name; other classes have no single task.
_TASKS: Final = {
    "ForCausalLM": "text-generation",
    "LMHeadModel": "text-generation",
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMultipleChoice": "multiple-choice",
    "ForImageClassification": "image-classification",
    "ForObjectDetection": "object-detection",
    "ForSemanticSegmentation": "image-segmentation",
    "ForDepthEstimation": "depth-estimation",
    "ForSpeechSeq2Seq": "automatic-speech-recognition",
    "ForCTC": "automatic-speech-recognition",
    "ForAudioClassification": "audio-classification",
    "CLIPModel": "zero-shot-image-classification",
    "SiglipModel": "zero-shot-image-classification",
}
# Tasks of sentence-transformers, by the class named in its own config.
_SENTENCES: Final = {
    "SentenceTransformer": "sentence-similarity",
    "SparseEncoder": "feature-extraction",
    "CrossEncoder": "text-ranking",
}


@dataclass(frozen=True, kw_only=True)
class Library:
    """``name`` as spelled on model hubs, None if the weights are read directly.

    ``imports`` and ``load`` are lines of Python; ``{folder}`` in the second stands for the folder.
    ``task``: pipeline tag, empty if the model's class does not determine it.
    """

    name: str | None
    imports: str
    load: str
    task: str = ""

    def lines(self, folder: str) -> tuple[str, str]:
        """The code that loads the model; ``folder`` is a Python expression."""
        return self.imports, self.load.replace("{folder}", folder)


PEFT: Final = Library(
    name="peft",
    imports="from peft import PeftModel",
    load="model = PeftModel.from_pretrained(BASE_MODEL, {folder})",
)


def commands_of(folder: Path) -> tuple[str, ...]:
    """The shell commands that publish a model's folder, convert it to GGUF and serve it.

    The last two are only for language models of transformers.
    """
    # Words as the system's shell splits them.
    quote = shlex.quote if os.name == "posix" else lambda text: subprocess.list2cmdline([text])
    quoted = quote(str(folder))
    name = "YOUR-NAME/" + re.sub(r"[^\w.-]+", "-", folder.name)
    library = library_of(folder)
    commands = [f"hf upload {name} {quoted}"]
    if library.name == "transformers" and library.task == "text-generation":
        gguf = quote(f"{folder}.gguf")
        commands.append(f"python convert_hf_to_gguf.py {quoted} --outfile {gguf}")
        commands.append(f"transformers serve {quoted}")
    return tuple(commands)


_LINE: Final = 66
"""Letters of a path in a line of Python; a longer one takes several."""


def lines_to_load(folder: Path) -> tuple[str, ...]:
    """Lines of Python that load a model. ``folder`` holds its path, however long that is."""
    text = str(folder)
    pieces = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    if len(pieces) == 1:
        path = [f"folder = {text!r}"]
    else:
        path = ["folder = (", *(f"    {piece!r}" for piece in pieces), ")"]
    imports, load = library_of(folder).lines("folder")
    return (imports, *path, load)


def lines_to_ask(folder: Path) -> tuple[str, ...]:
    """Lines of Python after ``lines_to_load`` that ask a language model of transformers; none for
    other models. A chat model is asked with its template."""
    library = library_of(folder)
    settings = json_object(folder / "tokenizer_config.json")
    if library.name != "transformers" or library.task != "text-generation" or settings is None:
        return ()
    if "chat_template" in settings or (folder / "chat_template.jinja").is_file():
        asked = '[{"role": "user", "content": "Who are you?"}]'
        answer = 'answer[-1]["content"]'
    else:
        asked = '"Once upon a time"'
        answer = "answer"
    return (
        "from transformers import pipeline",
        'ask = pipeline("text-generation", model=model, tokenizer=folder)',
        f"asked = {asked}",
        'answer = ask(asked, max_new_tokens=100)[0]["generated_text"]',
        f"print({answer})",
    )


def library_of(folder: Path) -> Library:
    """The library that loads a model folder, recognised by files that only its models have."""
    names = ("adapter_config", "modules", "open_clip_config")
    files = (*(f"{name}.json" for name in names), "modules.safetensors", "model.safetensors")
    here = {name for name in files if (folder / name).is_file()}
    config = json_object(folder / "config.json")
    if "adapter_config.json" in here:
        return PEFT
    if json_object(folder / "model_index.json") is not None:
        return _pretrained("diffusers", "DiffusionPipeline", variable="pipeline")
    if "modules.json" in here and "modules.safetensors" not in here:
        return _sentences(folder)
    if "open_clip_config.json" in here and "model.safetensors" not in here:
        created = 'open_clip.create_model_and_transforms("local-dir:" + {folder})'
        return Library(
            name="open_clip",
            imports="import open_clip",
            load=f"model, _, preprocess = {created}",
            task="zero-shot-image-classification",
        )
    if config is None and "model.safetensors" in here:
        return Library(
            name=None,
            imports="from safetensors.torch import load_file",
            load='state = load_file({folder} + "/model.safetensors")',
        )
    config = config or {}
    if (kind := config.get("_class_name")) is not None:
        return _pretrained("diffusers", _identifier(kind) or "AutoModel")
    if "architecture" in config and "model_type" not in config:
        task = "image-classification" if config.get("num_classes") else "image-feature-extraction"
        return Library(
            name="timm",
            imports="import timm",
            load='model = timm.create_model("local-dir:" + {folder}, pretrained=True)',
            task=task,
        )
    return _transformers(config)


def _sentences(folder: Path) -> Library:
    settings = json_object(folder / "config_sentence_transformers.json") or {}
    name = settings.get("model_type")
    if not isinstance(name, str) or name not in _SENTENCES:
        name = "SentenceTransformer"
    return Library(
        name="sentence-transformers",
        imports=f"from sentence_transformers import {name}",
        load=f"model = {name}({{folder}})",
        task=_SENTENCES[name],
    )


def _transformers(config: Mapping[str, object]) -> Library:
    names = config.get("architectures")
    if isinstance(names, list) and names:
        name = _identifier(names[0])
    else:
        name = ""
    if not name or "auto_map" in config:  # a class of the model's own code, which is not here
        name = "AutoModel"
    task = next((task for end, task in _TASKS.items() if name.endswith(end)), "")
    if not task and re.fullmatch(r"\w+(?<!Auto)Model", name):
        task = "feature-extraction"
    return _pretrained("transformers", name, task)


def _pretrained(library: str, name: str, task: str = "", *, variable: str = "model") -> Library:
    return Library(
        name=library,
        imports=f"from {library} import {name}",
        load=f"{variable} = {name}.from_pretrained({{folder}})",
        task=task,
    )


def _identifier(name: object) -> str:
    """The value if it is a Python name, else empty."""
    if isinstance(name, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    return ""
