"""A run: the folder it writes, the record it leaves, and whether it may start or resume there.

    FOLDER/run.json            the record of a finished run, with a checksum
    FOLDER/metrics.jsonl       one line per log interval and per evaluation
    FOLDER/checkpoint/         the last checkpoints; course.json holds the settings they depend on
    FOLDER/best.safetensors    the best weights so far, for tasks that keep them
    FOLDER/tensorboard/        the metrics again, where TensorBoard is installed

`write_record` and `read_record` are also used for probes and other measurements: a record says what
was found, with which versions, on which hardware, from which commit.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

import relmo
from relmo.errors import ConfigError, Interrupted, WeightError
from relmo.files import (
    checksum,
    explain,
    locked_folder,
    make_folder,
    open_own,
    read_json,
    replacing,
    tidy,
    write_json,
)
from relmo.training.checkpoint import Best, check_weights, find_checkpoints, last_step, load_weights
from relmo.training.distributed import World
from relmo.weights.safetensors_files import SCALE, tensor_shapes, unpack_int8, write_tensors
from relmo.weights.tensors import check_memory, check_shape

AGAIN = "copy it again, or train again"
OTHER_RUN = "the file belongs to another run: train again in an empty folder"


class Run:
    """The folder of a run, and the rules for writing to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record_path = folder / "run.json"  # written last: a run that has one is finished
        self.metrics_path = folder / "metrics.jsonl"
        self.best_path = folder / "best.safetensors"
        self.checkpoints = folder / "checkpoint"

    # ── start and resume ────────────────────────────────────────────────────────────────────────

    @contextmanager
    def opened(self, *, resume: bool, is_main: bool = True) -> Iterator[None]:
        """Make sure that the run may start, and that nobody else writes to its folder meanwhile.

        Args:
            resume: continue from the last checkpoint.
            is_main: whether this process, of several, holds the lock.

        Raises:
            InUse: Another process writes to the folder.
            ConfigError: The folder has a run that would be overwritten, or none to resume.
            Interrupted: Ctrl-C or SIGTERM came; the message says what is safe.
        """
        with locked_folder(self.folder) if is_main else nullcontext():
            if is_main:  # what a killed process left
                tidy(self.folder)
                tidy(self.checkpoints)
            self.check_start(resume=resume)
            try:
                yield
            except KeyboardInterrupt as error:
                raise self._interrupted(error) from error

    def _interrupted(self, error: KeyboardInterrupt) -> KeyboardInterrupt:
        """What to say of an interruption."""
        if str(error):
            return error
        can_resume = last_step(self.checkpoints) is not None
        if not can_resume and not self.best_path.exists():
            return Interrupted("interrupted before the first checkpoint", cause=error)
        return Interrupted(f"interrupted; {self.what_is_safe()}", can_resume, error)

    def what_is_safe(self) -> str:
        """Up to which step a run can go on, and of which step its best weights can be used."""
        step, best, said = last_step(self.checkpoints), self.read_best(), []
        if step is not None:
            said.append(f"everything up to step {step:,} is saved in {self.checkpoints}")
        if best is not None:
            use = shlex.join(["relmo", "predict", str(self.folder)])
            said.append(f"{use} uses the best weights so far, of step {best.step:,}")
        if step is None:
            said.append(f"without a checkpoint it cannot go on: delete {self.folder} first")
        return "; ".join(said)

    def check_start(self, *, resume: bool) -> None:
        """Raise ConfigError rather than overwrite a run, or resume what has no checkpoint."""
        can_resume, problem = bool(find_checkpoints(self.checkpoints)), ""
        without = "without a checkpoint to resume from"
        if self.record_path.exists() and not (resume and can_resume):
            problem = f"a finished run {without};" if resume else "a finished run;"
        elif can_resume and not resume:
            problem = "an unfinished run; resume it with --resume, or"
        elif not can_resume and self.best_path.exists():
            problem = f"the weights of an unfinished run {without}; delete it to start again, or"
        if problem:
            raise ConfigError(f"{self.folder} contains {problem} choose another folder")
        if resume and not can_resume:
            raise ConfigError(
                f"{self.folder} has no checkpoint to resume from: the run was never started, or "
                f"killed before its first checkpoint; start it without --resume"
            )

    def settings(self) -> dict[str, Any]:
        """The settings that the checkpoints depend on; empty if there are none."""
        path = self.checkpoints / "course.json"
        return read_json(path) if path.is_file() else {}

    def check_settings(
        self,
        settings: Mapping[str, Any],
        *,
        save: bool = True,
        defaults: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Raise ConfigError if the checkpoints belong to a run with other settings.

        The length of a run, its intervals and its learning rate may change; leave them out.

        Args:
            settings: what each step depends on, as JSON.
            save: whether this process writes the settings where there is no checkpoint yet.
            defaults: by section, the values of settings that did not exist when a run started.
        """
        path, settings = self.checkpoints / "course.json", json.loads(json.dumps(settings))
        if path.is_file() and find_checkpoints(self.checkpoints):
            before = read_json(path)
            for name, values in (defaults or {}).items():
                known = before.get(name, {})
                if isinstance(known, dict):
                    before[name] = {**json.loads(json.dumps(values)), **known}
            changed = sorted(name for name in settings if settings[name] != before.get(name))
            old = ", ".join(each for name in changed for each in _changes(name, before, settings))
            if changed:
                others = ", ".join(changed)
                raise ConfigError(
                    f"{self.checkpoints} was made with different settings ({others}); resume with "
                    f"the original ones{old and f' ({old})'}, or choose another folder"
                )
        elif save:
            make_folder(self.checkpoints)
            write_json(path, settings)

    # ── metrics ─────────────────────────────────────────────────────────────────────────────────

    def append_metrics(self, values: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        path = self.metrics_path
        with explain(path), open(path, "a", encoding="utf-8", opener=open_own) as file:
            file.write(json.dumps(values) + "\n")

    def drop_metrics_after(self, step: int, *, is_over: bool = False) -> None:
        """Drop lines after the last completed step, which a resumed run will repeat.

        If that step was the last of the run (`is_over`), its scores will be computed again, too.
        """
        if not self.metrics_path.is_file():
            return
        text = self.metrics_path.read_text(encoding="utf-8", errors="replace")
        kept, lines = [], text.splitlines()
        with suppress(ValueError, KeyError, TypeError, RecursionError):  # a half-written line
            for line in lines:
                values = json.loads(line)
                is_last_score = is_over and values["step"] == step and "loss" not in values
                if values["step"] <= step and not is_last_score:
                    kept.append(line)
        with replacing(self.metrics_path) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def curve(self, score: str) -> dict[str, list[float]]:
        """The values of a score over the run, and the steps at which it was measured."""
        with self.metrics_path.open(encoding="utf-8") as file:
            found = [line for line in map(json.loads, file) if score in line]
        return {"step": [v["step"] for v in found], score: [round(v[score], 4) for v in found]}

    # ── the best weights ────────────────────────────────────────────────────────────────────────

    def save_best(self, model: nn.Module, best: Best) -> None:
        """Replace best.safetensors by the model's weights and their scores."""
        self.write_best(model.state_dict(), best)

    def write_best(self, tensors: Mapping[str, Tensor], best: Best) -> None:
        """Write best.safetensors: weights, some perhaps in 8 bits with scales, and their scores."""
        scores = json.dumps(asdict(best))
        metadata = {"best": scores, "sha256": _digest(tensors, scores)}
        with replacing(self.best_path) as temporary:
            write_tensors(temporary, tensors, metadata)

    def load_best(self, model: nn.Module) -> Best:
        """Load the best weights into the model and return their scores."""
        best = self.read_best()
        if best is None:
            raise WeightError(f"{self.best_path}: this run has no scores yet; continue training")
        load_weights(model, self.read_weights(), self.best_path, OTHER_RUN)
        return best

    def read_weights(self) -> dict[str, Tensor]:
        """The best weights, verified; those that are stored in 8 bits as float32."""
        tensors, metadata = load_file(self.best_path), self._best_metadata()
        if metadata.get("sha256") not in (None, _digest(tensors, metadata["best"])):
            raise WeightError(f"{self.best_path}: damaged, its checksum does not match; {AGAIN}")
        return unpack_int8(tensors, self.best_path)

    def check_best(self, model: nn.Module) -> None:
        """Raise WeightError unless the best weights are a model's and fit into memory.

        Only the file's header is read, and the model's tensors may be on the device "meta".
        """
        if self.best_path.is_file():
            shapes = tensor_shapes(self.best_path)
            for name in [name for name in shapes if name + SCALE in shapes]:
                scale = shapes.pop(name + SCALE)
                check_shape(self.best_path, name + SCALE, scale, shapes[name][:1], OTHER_RUN)
            check_weights(model, shapes, self.best_path, OTHER_RUN)
            check_memory(self.best_path, shapes.values())

    def read_best(self) -> Best | None:
        """The scores of the best weights; None if there are none."""
        if not self.best_path.is_file():
            return None
        try:
            return Best(**json.loads(self._best_metadata()["best"]))
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            what = f"not the weights of a run ({error})"
            raise WeightError(f"{self.best_path}: {what}; {AGAIN}") from error

    def _best_metadata(self) -> dict[str, str]:
        with safe_open(self.best_path, "pt") as file:
            return file.metadata() or {}


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """SHA-256 of tensors, by name, and of the text that is stored with them."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _changes(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """`model.dropout 0.3` for each changed value of a section: what the run started with."""
    old, new = before.get(name), now[name]
    if not (isinstance(old, dict) and isinstance(new, dict)) or name == "data":
        return []
    return [f"{name}.{key} {old[key]}" for key in old if key in new and old[key] != new[key]]


class TensorBoard:
    """Writes metrics for TensorBoard where it is installed (pip install 'relmo[tensorboard]').

    metrics.jsonl is the record: if TensorBoard is missing or fails, the run goes on without it.
    `step` is the last completed one; later ones of an earlier process are hidden.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self._writer: Any = None
        with suppress(Exception):  # not installed, or broken
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder), purge_step=step + 1, flush_secs=30)

    def write(self, line: Mapping[str, Any]) -> None:
        """Add the numbers of a line of metrics at its `step`."""
        with suppress(Exception):  # a full disk is reported by metrics.jsonl
            for key, value in line.items():
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                if self._writer is not None and is_number and key != "step":
                    self._writer.add_scalar(key, value, line["step"])

    def close(self) -> None:
        """Write what is buffered."""
        with suppress(Exception):  # the same, or there is no writer
            self._writer.close()


# ── records ─────────────────────────────────────────────────────────────────────────────────────


def write_record(path: Path, facts: Mapping[str, Any], world: World | None = None) -> None:
    """Write a record: the facts, versions, hardware, commit, and a checksum of all of them."""
    made_with = {"versions": versions(), "hardware": hardware(world or World()), "commit": commit()}
    record = json.loads(json.dumps({**facts, **made_with}))
    record["seal"] = checksum(record)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def read_record(path: Path) -> dict[str, Any]:
    """Read a record; WeightError if it was changed since it was written."""
    record = read_json(path)
    check_record(record, path)
    return record


def check_record(record: Mapping[str, Any], where: object) -> None:
    """Raise WeightError, which names `where`, unless the record's checksum matches."""
    if "seal" not in record:
        raise WeightError(f"{where}: has no checksum, so relmo did not write it; move it away")
    if record["seal"] != checksum(record):
        what = "its checksum does not match: it was changed after the run"
        raise WeightError(f"{where}: {what}; run again")


def versions() -> dict[str, str]:
    """Versions of relmo and what it runs on."""
    return {
        "relmo": relmo.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": str(np.__version__),
    }


def hardware(world: World) -> str:
    """The device that was used, which need not be the best one available."""
    each = f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    if world.device.type == "cuda":
        each = torch.cuda.get_device_name(world.device)
    return each if world.size == 1 else f"{world.size} x {each}"


def commit() -> str:
    """The commit of the source if it is in a git repository, else an empty string."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    with suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
        return found.stdout.strip()
    return ""
