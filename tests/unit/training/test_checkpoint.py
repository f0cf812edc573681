"""A run on disk: whole or not there, and the one before it still good."""

import json
import os
import shutil
import threading

import pytest
import torch
from torch import nn

from relmo.errors import OutputError, WeightError
from relmo.training import checkpoint
from relmo.training.checkpoint import (
    CheckpointWriter,
    Progress,
    find_checkpoints,
    load_checkpoint,
    save_checkpoint,
    take_snapshot,
)
from relmo.training.optim import OptimSettings, make_optimizer


def trained(steps=3, width=4, optimizer="adamw"):
    """A model after some steps, and its optimiser."""
    torch.manual_seed(0)
    model = nn.Linear(width, 2)
    made = make_optimizer(model, OptimSettings(optimizer=optimizer))
    for _ in range(steps):
        model(torch.randn(5, width)).square().sum().backward()
        made.step()
        made.zero_grad()
    return model, made


def save(folder, step, **options):
    model, optimizer = trained(steps=step, **options)
    carried = {"h": torch.full((1, 2, 3), float(step))}
    save_checkpoint(folder, Progress(step, 10.0 * step), model, optimizer, carried)
    return model, optimizer


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", ["adamw", "muon", "adagrad"])
def test_everything_comes_back_to_the_bit(tmp_path, kind):
    model, optimizer = save(tmp_path, 3, optimizer=kind)
    fresh, its_optimizer = trained(steps=0, optimizer=kind)
    progress, carried = load_checkpoint(tmp_path, fresh, its_optimizer)
    assert progress == Progress(3, 30.0)
    assert torch.equal(carried["h"], torch.full((1, 2, 3), 3.0))
    for one, two in zip(model.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(one, two)
        old, new = optimizer.state[one], its_optimizer.state[two]
        assert old.keys() == new.keys()
        assert all(torch.equal(old[name], new[name]) for name in old)


def test_without_a_checkpoint_there_is_none(tmp_path):
    assert load_checkpoint(tmp_path / "missing", *trained()) is None
    assert find_checkpoints(tmp_path / "missing") == []


def test_only_the_last_two_are_kept_and_no_leftover(tmp_path):
    (tmp_path / "step-000000009.tmp").mkdir()
    for step in (1, 2, 10):
        save(tmp_path, step)
    assert names(tmp_path) == ["step-000000002", "step-000000010"]


def test_only_folders_that_relmo_made_are_deleted(tmp_path):
    """A run's folder may come from elsewhere; checkpoint/ itself may be a link to another disk."""
    elsewhere, disk, folder = tmp_path / "a", tmp_path / "disk", tmp_path / "checkpoint"
    for each in (elsewhere, disk):
        each.mkdir()
    folder.symlink_to(disk)
    (elsewhere / "precious").write_text("")
    (disk / "step-000000099").symlink_to(elsewhere)
    foreign = {"step-by-step", "step-1.tmp", "step-000000098 (copy)", "step-000000099"}
    for name in foreign - {"step-000000099"}:
        (disk / name).mkdir()
    for step in (1, 2, 10):
        save(folder, step)
    assert set(names(disk)) == {"step-000000002", "step-000000010", *foreign}
    assert names(elsewhere) == ["precious"]
    assert load_checkpoint(folder, *trained())[0].step == 10


def cut_tensors(place):
    path = place / "tensors.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def cut_state(place):
    (place / "state.json").write_text('{"step": 2,')


def other_state(place):
    (place / "state.json").write_text("null")


def lost_state(place):
    (place / "state.json").unlink()


def damaged_header(place):
    path = place / "tensors.safetensors"
    path.write_bytes(b"\xff" * path.stat().st_size)


def flipped_bit(place):
    path = place / "tensors.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 16
    path.write_bytes(content)


def other_step(place):
    text = (place / "state.json").read_text()
    (place / "state.json").write_text(text.replace('"step": 2', '"step": 3', 1))


@pytest.mark.parametrize(
    "tear",
    [cut_tensors, cut_state, other_state, lost_state, damaged_header, flipped_bit, other_step],
)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, tear):
    before, _ = save(tmp_path, 1)
    save(tmp_path, 2)
    tear(tmp_path / "step-000000002")
    model, optimizer = trained(steps=0)
    what = r"step-000000002: damaged \(.*\); resuming from .*step-000000001 instead"
    with pytest.warns(UserWarning, match=what):
        progress, _ = load_checkpoint(tmp_path, model, optimizer)
    assert progress.step == 1
    assert torch.equal(model.weight, before.weight)
    save(tmp_path, 2)
    assert load_checkpoint(tmp_path, model, optimizer)[0].step == 2


def test_if_all_are_damaged_the_error_names_them(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2)
    for place in find_checkpoints(tmp_path):
        flipped_bit(place)
    with pytest.raises(WeightError, match=r"000002: damaged .*000001: damaged .* start again"):
        load_checkpoint(tmp_path, *trained(steps=0))


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": None}, {"optimizer": [1]}, {"optimizer": {"nodot": 1}},
        {"optimizer": {"-1.step": 1}}, {"step": "x"}, {"step": -5}, {"step": 1e300},
        {"step": 10**300}, {"seconds": "y"}, {"seconds": None}, {"best": 5}, {"best": {"zz": 1}},
        {"best": {"scores": 3}}, {"is_pending": "no"},
    ],
    ids=str,
)  # fmt: skip
def test_a_state_that_says_nonsense_is_damaged(tmp_path, change):
    save(tmp_path, 1)
    path = tmp_path / "step-000000001" / "state.json"
    state = {**json.loads(path.read_text()), **change}
    del state["seal"]
    path.write_text(json.dumps({name: each for name, each in state.items() if each is not None}))
    with pytest.raises(WeightError, match="step-000000001: damaged .*start again"):
        load_checkpoint(tmp_path, *trained())


def test_a_pipe_in_place_of_the_tensors_is_not_waited_for(tmp_path):
    save(tmp_path, 1)
    place = tmp_path / "step-000000001"
    state = json.loads((place / "state.json").read_text())
    del state["seal"], state["sha256"]
    (place / "state.json").write_text(json.dumps({**state, "bytes": 0}))
    (place / "tensors.safetensors").unlink()
    os.mkfifo(place / "tensors.safetensors")
    with pytest.raises(WeightError, match="not a regular file"):
        load_checkpoint(tmp_path, *trained())


def test_a_damaged_one_of_a_later_step_goes_with_the_next(tmp_path):
    for step in (1, 9):
        save(tmp_path, step)
    for step in (2, 3):
        save(tmp_path, step)
    assert names(tmp_path) == ["step-000000002", "step-000000003"]


def test_a_checkpoint_of_an_earlier_version_has_no_checksums(tmp_path):
    save(tmp_path, 1)
    path = tmp_path / "step-000000001" / "state.json"
    state = json.loads(path.read_text())
    for key in ("seal", "sha256", "is_pending"):
        del state[key]
    path.write_text(json.dumps(state))
    assert load_checkpoint(tmp_path, *trained(steps=0))[0] == Progress(1, 10.0)


# ── in the background ───────────────────────────────────────────────────────────────────────


def test_training_goes_on_while_a_snapshot_is_written(tmp_path, monkeypatch):
    model, optimizer = trained(steps=2)
    taken = model.weight.detach().clone()
    may_write, write = threading.Event(), checkpoint.write_tensors

    def wait_and_write(*args):
        assert may_write.wait(20)
        write(*args)

    monkeypatch.setattr(checkpoint, "write_tensors", wait_and_write)
    writer = CheckpointWriter(tmp_path)
    writer.write(take_snapshot(Progress(2, 1.0), model, optimizer, {}))
    model(torch.randn(5, 4)).square().sum().backward()
    optimizer.step()
    assert not torch.equal(model.weight, taken)
    may_write.set()
    writer.wait()
    fresh, its_optimizer = trained(steps=0)
    load_checkpoint(tmp_path, fresh, its_optimizer)
    assert torch.equal(fresh.weight, taken)
    writer.close()


def test_an_error_in_the_background_is_raised_by_the_next_call(tmp_path):
    (tmp_path / "file").write_text("")
    writer = CheckpointWriter(tmp_path / "file")
    snapshot = take_snapshot(Progress(1, 1.0), *trained(), {})
    writer.write(snapshot)
    with pytest.raises(OutputError, match="cannot write"):
        writer.write(snapshot)
    writer.write(snapshot)
    with pytest.raises(OutputError, match="cannot write"):
        writer.wait()
    writer.wait()
    writer.write(snapshot)
    writer.close()


# ── what is wrong ───────────────────────────────────────────────────────────────────────────


def test_one_that_was_being_written_is_no_checkpoint(tmp_path):
    save(tmp_path, 1)
    shutil.copytree(tmp_path / "step-000000001", tmp_path / "step-000000002.tmp")
    assert load_checkpoint(tmp_path, *trained())[0].step == 1


@pytest.mark.parametrize("file", ["tensors.safetensors", "state.json"])
def test_a_full_disk_is_an_error_and_leaves_the_earlier_one_whole(tmp_path, file):
    resource = pytest.importorskip("resource", reason="only Unix bounds the size of files")
    save(tmp_path, 1)
    size = (tmp_path / "step-000000001" / file).stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 10, hard))
        with pytest.raises(OutputError, match=r"cannot write .*resume from the previous"):
            save(tmp_path, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == ["step-000000001"]
    assert load_checkpoint(tmp_path, *trained())[0].step == 1


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        save(tmp_path / "file", 1)


def test_a_checkpoint_of_another_model_is_named(tmp_path):
    save(tmp_path, 1, width=4)
    with pytest.raises(
        WeightError, match=r"step-000000001: 'weight' has the shape \(2, 4\), .* another model"
    ):
        load_checkpoint(tmp_path, *trained(width=5))
    _, optimizer = trained()
    with pytest.raises(WeightError, match=r"lacks '0.bias', .* resume with the one it"):
        load_checkpoint(tmp_path, nn.Sequential(nn.Linear(4, 2)), optimizer)


def test_a_checkpoint_of_another_optimiser_is_named(tmp_path):
    save(tmp_path, 1)
    with pytest.raises(WeightError, match="was made with AdamW, not Adagrad"):
        load_checkpoint(tmp_path, *trained(optimizer="adagrad"))


def test_a_run_with_another_rate_of_its_bilm_finds_each_weights_state(tmp_path):
    def made(rate):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        model.bilm = nn.Linear(2, 3)
        return model, make_optimizer(model, OptimSettings(bilm_rate=rate))

    model, optimizer = made(1.0)
    model.bilm(model[1](model[0](torch.randn(5, 3)))).square().sum().backward()
    optimizer.step()
    save_checkpoint(tmp_path, Progress(1, 1.0), model, optimizer, {})
    fresh, its_optimizer = made(0.1)
    load_checkpoint(tmp_path, fresh, its_optimizer)
    for one, two in zip(model.parameters(), fresh.parameters(), strict=True):
        old, new = optimizer.state[one], its_optimizer.state[two]
        assert torch.equal(old["exp_avg"], new["exp_avg"])


def test_weights_in_another_order_are_no_checkpoints(tmp_path):
    save(tmp_path, 1)
    model, _ = trained()
    turned = torch.optim.AdamW([model.bias, model.weight])
    with pytest.raises(WeightError, match="an optimizer of other weights; start again"):
        load_checkpoint(tmp_path, model, turned)


def test_the_state_is_json_for_people(tmp_path):
    save(tmp_path, 1)
    state = json.loads((tmp_path / "step-000000001/state.json").read_text())
    assert (state["step"], state["seconds"], state["kind"]) == (1, 10.0, "AdamW")
