from pathlib import Path

from PySide6.QtCore import QMimeData, QUrl

from ace_gui.gui.shell.projects.opener import is_collection, local_paths


def model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def test_only_local_paths_count(tmp_path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path)), QUrl("https://example.org/model")])
    assert local_paths(data) == (tmp_path,)


def test_a_folder_of_models_is_looked_into_and_a_model_is_not(tmp_path: Path) -> None:
    outer = model(tmp_path / "outer")
    model(outer / "checkpoint-500")
    assert is_collection(tmp_path)
    assert not is_collection(outer)
    (tmp_path / "empty").mkdir()
    assert not is_collection(tmp_path / "empty")
    assert not is_collection(tmp_path / "nowhere")


def test_a_pipeline_is_one_model_and_not_its_parts(tmp_path: Path) -> None:
    model(tmp_path / "sd/unet")
    (tmp_path / "sd/model_index.json").write_text("{}")
    assert not is_collection(tmp_path / "sd")
