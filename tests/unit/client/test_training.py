"""The callbacks as their libraries would call them; the libraries are played here by modules with the base classes alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from headrace.client import job
from headrace.client.training import LibraryMissing, lightning_callback, transformers_callback


@pytest.fixture
def control(tmp_path, monkeypatch) -> Path:
    for name, value in (("_control", ""), ("_preempt_file", "preempt.json"), ("_finished_file", "finished")):
        monkeypatch.setattr(job, name, str(tmp_path / value) if value else str(tmp_path))
    monkeypatch.setenv("HEADRACE_CHECKPOINT_DIR", str(tmp_path / "saved"))
    return tmp_path


def played(monkeypatch, name: str, **contents: object) -> None:
    module = ModuleType(name)
    vars(module).update(contents)
    monkeypatch.setitem(sys.modules, name.partition(".")[0], module if "." not in name else ModuleType(name.partition(".")[0]))
    monkeypatch.setitem(sys.modules, name, module)


def registered(control: Path) -> list[tuple[str, int]]:
    path = control / "checkpoints"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(Path(line["uri"]).name, line["step"]) for line in map(json.loads, lines)]


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_saves_registers_and_stops_when_the_job_has_to_yield(control, monkeypatch, name) -> None:
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    played(monkeypatch, name, Callback=object)
    saved: list[str] = []
    trainer = SimpleNamespace(should_stop=False, global_step=7, is_global_zero=True, save_checkpoint=saved.append)
    callback = lightning_callback()
    callback.on_train_batch_end(trainer, None, None, None, 0)
    assert (trainer.should_stop, saved) == (False, [])
    (control / "preempt.json").touch()
    callback.on_train_batch_end(trainer, None, None, None, 1)
    callback.on_train_batch_end(trainer, None, None, None, 2)
    assert (trainer.should_stop, registered(control)) == (True, [("step-7.ckpt", 7)])
    assert saved == [str(control / "saved" / "step-7.ckpt")]
    callback.on_train_end(trainer, None)
    assert not (control / "finished").exists()


def test_lightning_registers_what_it_saves_itself_and_says_when_all_is_done(control, monkeypatch) -> None:
    played(monkeypatch, "lightning.pytorch", Callback=object)
    (control / "best.ckpt").touch()
    trainer = SimpleNamespace(
        global_step=5,
        is_global_zero=True,
        checkpoint_callback=SimpleNamespace(last_model_path="", best_model_path=str(control / "best.ckpt")),
    )
    callback = lightning_callback()
    callback.on_validation_end(trainer, None)
    trainer.checkpoint_callback = None
    callback.on_validation_end(trainer, None)
    assert registered(control) == [("best.ckpt", 5)]
    callback.on_train_end(trainer, None)
    assert (control / "finished").exists()


def test_transformers_saves_registers_and_stops_when_the_job_has_to_yield(control, monkeypatch) -> None:
    played(monkeypatch, "transformers", TrainerCallback=object)
    callback = transformers_callback()
    args = SimpleNamespace(output_dir=str(control / "out"))
    state = SimpleNamespace(global_step=9, is_world_process_zero=True)
    flow = SimpleNamespace(should_save=False, should_training_stop=False)
    assert callback.on_step_end(args, state, flow) is flow
    assert (flow.should_save, flow.should_training_stop) == (False, False)
    (control / "preempt.json").touch()
    callback.on_step_end(args, state, flow)
    callback.on_save(args, state, flow)
    callback.on_train_end(args, state, flow)
    assert (flow.should_save, flow.should_training_stop, registered(control)) == (True, True, [("checkpoint-9", 9)])
    assert not (control / "finished").exists()
    (control / "preempt.json").unlink()
    callback.on_train_end(args, state, flow)
    assert (control / "finished").exists()


def test_without_the_library_it_is_said_which_one_is_missing(monkeypatch) -> None:
    for name in ("lightning.pytorch", "pytorch_lightning", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(LibraryMissing, match="lightning is not installed"):
        lightning_callback()
    with pytest.raises(LibraryMissing, match="transformers is not installed"):
        transformers_callback()
