"""Trains a small network with PyTorch, and can be preempted at any step without a trace in its losses.

    headrace submit --queue ai-dev/half -- python deploy/examples/train_torch.py --steps 300

What has to be saved is everything that the next step depends on: the weights, the optimizer's state, the generators, and the step. The
losses of all steps are saved as well, and are in `losses.json` at the end, to compare them with those of an undisturbed run.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch

from headrace.client import job


def save(path: Path, state: dict[str, Any]) -> Path:
    """Write the checkpoint atomically."""
    fresh = path.with_suffix(".tmp")
    torch.save(state, fresh)
    os.replace(fresh, path)
    return path


def main() -> None:
    """Train until the last step, or until the job has to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    truth = torch.randn(16, 1)
    losses: list[float] = []
    if job.resumed_from:
        saved = torch.load(job.resumed_from, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["generator"])
        losses = saved["losses"]
    while len(losses) < arguments.steps:
        x = torch.randn(32, 16)
        loss = torch.nn.functional.mse_loss(model(x), x @ truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        step, yields = len(losses), job.preempting
        if yields or step % arguments.every == 0:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "generator": torch.get_rng_state(),
                "losses": losses,
            }
            job.checkpointed(save(job.checkpoint_dir / f"{step}.pt", state), step)
        if yields:
            print(f"yields at step {step}")
            return
    Path("losses.json").write_text(json.dumps(losses), encoding="utf-8")
    job.finished()
    print(f"done, loss {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
