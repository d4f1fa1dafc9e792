"""A copy of the program with one change for each row of *To add* that changes its sources."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Insertion:
    """Lines that are added to a file of the package, before the first line that is ``before``."""

    file: str
    before: str
    lines: str


KIND = (
    Insertion(
        file="recipe/task_kinds.py",
        before="    CLIP_ZERO_SHOT = (",
        lines="""
    MASKED_WORD = (
        "masked-word",
        KindTraits(
            classes=r"ForMaskedLM$",
            roles=(TEXT, LABEL),
            metrics=(Metric.ACCURACY, Metric.CONTAINS),
            form_fields=("system",),
            unused=("chat", "max_new_tokens", "stop"),
        ),
    )
""",
    ),
    Insertion(
        file="engine/evaluating/kinds.py",
        before="_EVALUATORS: Final",
        lines='''
class MaskedWord(OfWholeText):
    """The likeliest word in place of one that the tokenizer does not know."""

    kind = TaskKind.MASKED_WORD
    has_entropy = learns = False

    @staticmethod
    def judge(data, answers, targets, names):
        return share(a == t for a, t in zip(answers, targets, strict=True))

    @classmethod
    def text(cls, example, answer, names):
        return str(answer)

    def choices(self, inputs):
        hidden = inputs["input_ids"] == self.tokenizer.unk_token_id
        return super().choices(inputs)[hidden]

    def run(self, batch):
        return [self.tokenizer.decode(index) for index in self.choices(batch.inputs).argmax(dim=1)]


''',
    ),
    Insertion(
        file="engine/evaluating/kinds.py",
        before="    ClipZeroShot,",
        lines="        MaskedWord,\n",
    ),
    Insertion(
        file="engine/evaluating/kinds.py",
        before="from ace_gui.engine.evaluating.subjects import",
        lines="from ace_gui.engine.evaluating.metrics import share\n",
    ),
)
OUTPUT = (
    Insertion(
        file="recipe/output_forms.py",
        before="class Output(StrEnum):",
        lines='''
@dataclass(frozen=True, kw_only=True)
class NumpyExport:
    """How a merge is written for NumPy."""

    is_small: bool = option(False, Option(label="Small", values={"no": False, "yes": True}))
    """Whether the file is compressed."""


''',
    ),
    Insertion(
        file="recipe/output_forms.py",
        before="    ADAPTER = (",
        lines="""
    NUMPY = (
        "numpy",
        OutputTraits(
            noun="an archive for NumPy",
            title="an archive (NumPy)",
            export=NumpyExport,
            models_beside=1,
            has_scores=False,
            files="weights.npz",
        ),
    )
""",
    ),
    Insertion(
        file="engine/output/exporters.py",
        before="_EXPORTERS",
        lines='''
class NumpyArchive(FromModel):
    """One archive with every tensor."""

    output = Output.NUMPY

    def require(self, prepared):
        super().require(prepared)
        if prepared.recipe.out_dtype == "bfloat16":
            raise RecipeError("NumPy has no bfloat16; write float32.", key="out_dtype")

    def after(self, model, folder, chosen):
        tensors = load_file(model / "model.safetensors")
        save = numpy.savez_compressed if chosen.is_small else numpy.savez
        save(folder / "weights.npz", **{name: tensors[name].numpy() for name in tensors})
        yield JobProgress(done=1, total=1)


''',
    ),
    Insertion(
        file="engine/output/exporters.py",
        before="    PeftAdapter(),",
        lines="        NumpyArchive(),\n",
    ),
    Insertion(
        file="engine/output/exporters.py",
        before="from ace_gui.",
        lines="import numpy\nfrom safetensors.torch import load_file\n"
        "from ace_gui.errors import RecipeError\n",
    ),
)
CHOICE = (
    Insertion(
        file="recipe/values.py",
        before="    non_finite: NonFinite",
        lines="    quietly: bool = False\n",
    ),
    Insertion(
        file="gui/panels/method_panel.py",
        before='        name="split_fused",',
        lines="""
        name="quietly",
        label="Quietly",
        help="Whether nothing is said.",
        values={"no": False, "yes": True},
    ),
    Option(
""",
    ),
)
TAB = (
    Insertion(
        file="gui/panels/scores_page.py",
        before="TABS: Final[tuple",
        lines='''
class WordsTab(JobPage):
    """A new page."""

    def __init__(self, session: Session, scoring: Scoring, pages: Any) -> None:
        super().__init__(session, scoring, pages)
        self.set_pages(muted_label("Some words."))


''',
    ),
    Insertion(
        file="gui/panels/scores_page.py",
        before="    (TuneTab,",
        lines='    (WordsTab, "Words", "Where words are"),\n',
    ),
    Insertion(
        file="gui/panels/scores_page.py",
        before="from ace_gui.gui.panels.",
        lines="from typing import Any\nfrom ace_gui.gui.widgets.labels import muted_label\n",
    ),
)
ACTION = (
    Insertion(
        file="gui/shell/actions.py",
        before="    about = _Action(",
        lines='    praise = _Action("Prai&se", "Say something nice", _no_model, "Ctrl+Alt+P")\n',
    ),
    Insertion(
        file="gui/shell/actions.py",
        before="                a.about,",
        lines="                a.praise,\n",
    ),
)
COLUMN = (
    Insertion(
        file="gui/models/layer_columns.py",
        before="COLUMNS: Final = (",
        lines='LETTERS = Column(title="Letters", tip="How long its name is.",'
        " value=lambda layer: float(len(layer.row.name)))\n",
    ),
    Insertion(file="gui/models/layer_columns.py", before="    *FURTHER,", lines="    LETTERS,\n"),
    Insertion(
        file="gui/models/layer_columns.py",
        before="def exported(",
        lines="_CSV += (LETTERS,)\n\n\n",
    ),
)
COMMAND = (
    Insertion(
        file="cli/commands.py",
        before="def main() -> None:",
        lines='''
@command(app, "praise", "listing:praise")
class Praise(WithJson):
    """Say something nice about a model."""

    model: str = argument("NAME", "Which model.", default=...)
    often: int = option("N", "How often to say it.", default=1, min=1)


''',
    ),
    Insertion(
        file="cli/listing.py",
        before="def known_methods()",
        lines="""
def praise(command: Any) -> None:
    said = [f"{command.model} is good."] * command.often
    Outputs.of(command, (), "said").write_json(command.json, {"said": said})
    for sentence in said:
        Terminal.of(command).results.print(sentence)


""",
    ),
)
JOB = (
    Insertion(
        file="engine/contract/jobs.py",
        before="class EvaluateJob(",
        lines='''
class PraiseJob(Job):
    """Say something nice."""

    name: str


''',
    ),
    Insertion(
        file="engine/job_steps.py",
        before="@steps_of.register(jobs.ScanJob)",
        lines="""
@steps_of.register(jobs.PraiseJob)
def praise(job: jobs.PraiseJob, _: Runner) -> Events:
    yield None
    yield JobProgress(done=1, total=1, title=f"{job.name} is good")


""",
    ),
)
PAGE = (
    Insertion(
        file="gui/dialogs/help_dialogs.py",
        before='    *("start",',
        lines='    "praise",\n',
    ),
)
CHANGES: Mapping[str, tuple[Insertion, ...]] = {
    "kind": KIND,
    "output": OUTPUT,
    "choice": CHOICE,
    "tab": TAB,
    "action": ACTION,
    "column": COLUMN,
    "command": COMMAND,
    "job": JOB,
    "page": PAGE,
}


def make_copy(folder: Path) -> Path:
    """The program with all changes, in a new folder, which is returned."""
    shutil.copytree(ROOT / "ace_gui", folder / "ace_gui", symlinks=True)
    resources = folder / "resources"
    resources.mkdir()
    for entry in (ROOT / "resources").iterdir():
        if entry.name != "help":
            (resources / entry.name).symlink_to(entry)
    shutil.copytree(ROOT / "resources" / "help", resources / "help")
    (resources / "help" / "praise.md").write_text("# Praise\n\nGood words.\n")
    for insertions in CHANGES.values():
        for insertion in insertions:
            _insert(folder / "ace_gui" / insertion.file, insertion)
    return folder


def _insert(file: Path, insertion: Insertion) -> None:
    lines = file.read_text("utf-8").splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if line.startswith(insertion.before))
    lines.insert(place, insertion.lines)
    file.write_text("".join(lines), "utf-8")


def result_of(program: Path, module: str, *arguments: str | Path) -> Any:
    """What ``python -m MODULE`` prints as JSON when it imports the changed program."""
    ended = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (program, ROOT))),
            "PYTHONSAFEPATH": "1",  # else the working directory comes first
        },
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])
