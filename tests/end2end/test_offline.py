"""Nothing is asked of the network, though a config names models there and offline mode is off.

A hook in every Python process that is started notes each call that would reach it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.checkpoints import save_model, tiny_bert
from tests.helpers.recipes import file_over

GUARD = """
import os, sys
def note(event, arguments):
    names = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
    remote = event in ("socket.connect", "socket.sendto", "socket.sendmsg") and isinstance(
        arguments[1], tuple
    )
    if event in names or remote:
        with open(os.environ["NETWORK_LOG"], "a") as log:
            log.write(f"{event} {arguments[-1]!r}\\n")
        raise OSError(f"the network was asked: {event}")
sys.addaudithook(note)
"""

ONLINE = {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0"}

# What a config can say to have a part of the model fetched.
REMOTE = {
    "_name_or_path": "google-bert/bert-base-uncased",
    "name_or_path": "google-bert/bert-base-uncased",
    "use_pretrained_backbone": True,
    "auto_map": {"AutoConfig": "someone/model--configuration.Config"},
    "attn_implementation": "kernels-community/flash-attn",
    "_attn_implementation": "kernels-community/flash-attn",
    "base_model_name_or_path": "google-bert/bert-base-uncased",
}
BACKBONES = ("microsoft/resnet-50", "hf-hub:timm/resnet18.a1_in1k", "resnet50")

SWEEP = """
import json, sys
import huggingface_hub.constants  # before this program can say anything, as another library would
from ace_gui.architecture.describe import describe
for line in open(sys.argv[1]):
    describe(json.loads(line), {"a.weight": (2, 2)})
print("described")
"""


def run(
    folder: Path, *arguments: str, seconds: int = 240
) -> tuple[subprocess.CompletedProcess[str], str]:
    """Python with the hook, and what the hook noted."""
    (folder / "hook").mkdir(exist_ok=True)
    (folder / "hook/sitecustomize.py").write_text(GUARD)
    log = folder / "network.log"
    log.touch()
    paths = [str(folder / "hook"), str(Path(__file__).parents[2])]
    environment = {
        **os.environ,
        **ONLINE,
        "PYTHONPATH": os.pathsep.join(paths),
        "NETWORK_LOG": str(log),
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return done, log.read_text()


def test_the_hook_notes_what_would_reach_the_network(tmp_path: Path) -> None:
    program = "from huggingface_hub import HfApi; HfApi().repo_exists('microsoft/resnet-50')"
    _, noted = run(tmp_path, "-c", program)
    assert "socket.getaddrinfo" in noted or "socket.connect" in noted


def configs(types: list[str]) -> str:
    made = (
        {"model_type": kind, "backbone": backbone, "use_timm_backbone": timm, **REMOTE}
        for kind in types
        for backbone in BACKBONES
        for timm in (True, False)
    )
    wrapped = {
        "model_type": "timm_wrapper",
        "architecture": BACKBONES[1],
        "model_args": {"pretrained": True, "checkpoint_path": "https://example.org/weights.bin"},
        "label_names": ["a"],
    }
    composed = {
        "model_type": "encoder-decoder",
        "encoder": {"model_type": "bert", **REMOTE},
        "decoder": {"model_type": "bert", **REMOTE},
    }
    return "\n".join(map(json.dumps, [*made, wrapped, composed]))


def test_configs_that_name_backbones(tmp_path: Path) -> None:
    (tmp_path / "configs").write_text(configs(["detr", "timm_backbone"]))
    done, noted = run(tmp_path, "-c", SWEEP, str(tmp_path / "configs"))
    assert (done.stdout, noted) == ("described\n", ""), done.stderr


@pytest.mark.long
def test_every_model_type(tmp_path: Path) -> None:
    """Each in a config that names a backbone; those whose defaults are large take minutes."""
    from transformers import CONFIG_MAPPING

    (tmp_path / "configs").write_text(configs(sorted(CONFIG_MAPPING.keys())))
    done, noted = run(tmp_path, "-c", SWEEP, str(tmp_path / "configs"), seconds=7200)
    assert (done.stdout, noted) == ("described\n", ""), done.stderr


ENGINE = """
import sys
from pathlib import Path
from ace_gui.engine.contract.jobs import LoadRecipeJob, ScanJob
from ace_gui.engine.contract.engine_process import EngineProcess
from ace_gui.recipe.model_paths import cache_folder

if __name__ == "__main__":
    engine = EngineProcess()
    jobs = (ScanJob(paths=(cache_folder(),)), LoadRecipeJob(paths=(Path(sys.argv[1]),)))
    for number, job in enumerate(jobs, start=1):
        engine.submit(number, job)
        kind = ""
        while kind not in ("JobDone", "JobFailed"):
            found, event = engine.receive(200)
            kind = type(event).__name__ if found == number else ""
        print(kind)
    engine.close()
"""


def test_both_processes(tmp_path: Path) -> None:
    import torch

    tensors = tiny_bert(torch.Generator().manual_seed(0))
    config = {"model_type": "detr", "backbone": BACKBONES[0], "use_timm_backbone": False, **REMOTE}
    base = save_model(tmp_path / "base", tensors, config=config)
    moved = {name: tensor + 0.1 for name, tensor in tensors.items()}
    expert = save_model(tmp_path / "expert", moved, config=config)
    recipe = file_over(tmp_path / "recipe", base, [expert], merge_method="linear")
    done, noted = run(tmp_path, "-m", "ace_gui", "inspect", str(recipe))
    assert (done.returncode, noted) == (0, ""), done.stderr
    (tmp_path / "engine.py").write_text(ENGINE)
    done, noted = run(tmp_path, str(tmp_path / "engine.py"), str(recipe))
    assert (done.stdout, noted) == ("JobDone\nJobDone\n", ""), done.stderr
