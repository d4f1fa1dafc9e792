"""Model files on disk: opened by their headers, read and written one tensor at a time."""

from ace_gui.checkpoints.adapters.adapter_reader import AdapterReader, ExpandedReader, reader_of
from ace_gui.checkpoints.adapters.lora import (
    Adapter,
    ExpandedCheckpoint,
    ModuleRows,
    expand,
    same_bytes,
)
from ace_gui.checkpoints.adapters.opening import is_adapter, open_adapter
from ace_gui.checkpoints.adapters.weight_changes import LowRank
from ace_gui.checkpoints.claims import Claim, claimed, claimed_output
from ace_gui.checkpoints.dtypes import tag_of, torch_dtype
from ace_gui.checkpoints.extended_vocabulary import (
    NOWHERE,
    ExtendedCheckpoint,
    Extension,
    Source,
    grow,
    new_parts,
    runs,
)
from ace_gui.checkpoints.folder import nested_models
from ace_gui.checkpoints.header import Header, TensorInfo, read_header
from ace_gui.checkpoints.index import Checkpoint, open_checkpoint
from ace_gui.checkpoints.input_files import FileStamp
from ace_gui.checkpoints.parts import MAIN, MODULES, PIPELINE, ModelPart, full_name, part_of
from ace_gui.checkpoints.pickle.conversion import convert_pickle, converting, find_converted
from ace_gui.checkpoints.read_checksums import ReadChecksums, Readings
from ace_gui.checkpoints.reader import (
    TensorReader,
    non_finite_error,
    non_finite_values,
    require_finite,
)
from ace_gui.checkpoints.shards import OutputTensor, Shard, plan_parts, plan_shards
from ace_gui.checkpoints.side_files import SideFiles, copy_side_files, find_side_files
from ace_gui.checkpoints.staging import (
    discard,
    new_stage,
    promote,
    staged,
)
from ace_gui.checkpoints.writer import ShardedWriter, write_in_place
from ace_gui.formatting import listing, path_text, plain
from ace_gui.output_files import check_output_folder, staging_folder

__all__ = [
    "MAIN",
    "MODULES",
    "NOWHERE",
    "PIPELINE",
    "Adapter",
    "AdapterReader",
    "Checkpoint",
    "Claim",
    "ExpandedCheckpoint",
    "ExpandedReader",
    "ExtendedCheckpoint",
    "Extension",
    "FileStamp",
    "Header",
    "LowRank",
    "ModelPart",
    "ModuleRows",
    "OutputTensor",
    "ReadChecksums",
    "Readings",
    "Shard",
    "ShardedWriter",
    "SideFiles",
    "Source",
    "TensorInfo",
    "TensorReader",
    "check_output_folder",
    "claimed",
    "claimed_output",
    "convert_pickle",
    "converting",
    "copy_side_files",
    "discard",
    "expand",
    "find_converted",
    "find_side_files",
    "full_name",
    "grow",
    "is_adapter",
    "listing",
    "nested_models",
    "new_parts",
    "new_stage",
    "non_finite_error",
    "non_finite_values",
    "open_adapter",
    "open_checkpoint",
    "part_of",
    "path_text",
    "plain",
    "plan_parts",
    "plan_shards",
    "promote",
    "read_header",
    "reader_of",
    "require_finite",
    "runs",
    "same_bytes",
    "staged",
    "staging_folder",
    "tag_of",
    "torch_dtype",
    "write_in_place",
]
