"""Callbacks for PyTorch Lightning and Hugging Face Transformers: on an order to stop they save, register the checkpoint and exit (R28).

    trainer = lightning.Trainer(callbacks=[lightning_callback()])
    trainer.fit(model, ckpt_path=job.resumed_from)

    trainer = transformers.Trainer(..., callbacks=[transformers_callback()])
    trainer.train(resume_from_checkpoint=job.resumed_from)

Neither library is a dependency of Headrace, or imported before one of these is called. Outside of Headrace the callbacks do nothing.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from headrace.client import job


class LibraryMissing(ImportError):
    """The library of a callback is not installed; the message names it."""


def lightning_callback() -> Any:
    """A callback for `lightning.Trainer` (or `pytorch_lightning`, if only that is installed). Raises LibraryMissing.

    After the batch in which the job is told to stop, a checkpoint is saved into the attempt's directory and training stops; what Lightning
    itself saves is registered at the end of each validation as well. When training ends by itself the job has finished (R30).
    """
    base = _first("lightning.pytorch", "pytorch_lightning").Callback

    class HeadraceCallback(base):  # type: ignore[misc, valid-type]
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if not job.preempting or trainer.should_stop:
                return
            path = str(job.checkpoint_dir / f"step-{trainer.global_step}.ckpt")
            trainer.save_checkpoint(path)
            if trainer.is_global_zero:
                job.checkpointed(path, trainer.global_step)
            trainer.should_stop = True

        def on_validation_end(self, trainer: Any, *_: Any) -> None:
            saved = getattr(trainer.checkpoint_callback, "last_model_path", "") or getattr(
                trainer.checkpoint_callback, "best_model_path", ""
            )
            if saved and os.path.exists(saved) and trainer.is_global_zero:
                job.checkpointed(saved, trainer.global_step)

        def on_train_end(self, *_: Any) -> None:
            if not job.preempting:
                job.finished()

    return HeadraceCallback()


def transformers_callback() -> Any:
    """A callback for `transformers.Trainer`. Raises LibraryMissing.

    After the step in which the job is told to stop, the trainer saves and stops; every checkpoint that it saves is registered. When
    training
    ends by itself the job has finished (R30).
    """
    base = _first("transformers").TrainerCallback

    class HeadraceCallback(base):  # type: ignore[misc, valid-type]
        def on_step_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> Any:
            if job.preempting:
                control.should_save = control.should_training_stop = True
            return control

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            if state.is_world_process_zero:
                job.checkpointed(os.path.join(args.output_dir, f"checkpoint-{state.global_step}"), state.global_step)
            return control

        def on_train_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> Any:
            if not job.preempting:
                job.finished()
            return control

    return HeadraceCallback()


def _first(*names: str) -> Any:
    """The first of these modules that is installed."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise LibraryMissing(f"{names[0].partition('.')[0]} is not installed in the environment of this job")
