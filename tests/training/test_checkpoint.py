import pytest
import torch

from hrnn.training.checkpoint import (
    Checkpoint,
    CheckpointFolder,
    DamagedError,
    flatten_optimizer,
    read,
    restore_optimizer,
    write,
)
from hrnn.training.config import Learning
from hrnn.training.network import KINDS, make_optimizer


def checkpoint(update, pins=()):
    facts = {"position": {"updates": update}, "course": {}, "optimizers": [], "journal": {}, "pins": list(pins), "torch": ""}
    return Checkpoint({"network.w": torch.full((3,), float(update))}, {"run": "a", "config": {}, "engine": "", **facts})


def test_what_is_written_is_read(tmp_path):
    tensors = {"a.x": torch.randn(3, 4), "a.y": torch.arange(5), "b.z": torch.tensor(True)}
    write(tmp_path / "c", Checkpoint(tensors, {"number": 0.1, "list": [1, None, "ü"]}))
    again = read(tmp_path / "c")
    assert again.facts == {"number": 0.1, "list": [1, None, "ü"]}
    assert set(again.section("a")) == {"x", "y"}
    assert all(torch.equal(again.tensors[name], value) for name, value in tensors.items())


@pytest.mark.parametrize("damage", ["truncated", "one bit", "empty", "header", "facts"])
def test_damage_is_noticed(tmp_path, damage):
    path = tmp_path / "c"
    write(path, Checkpoint({"w": torch.randn(100)}, {"updates": 1234, "pins": []}))
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        content = content[:-1]
    elif damage == "one bit":
        content[-17] ^= 4
    elif damage == "empty":
        content = bytearray()
    elif damage == "header":
        content[3] ^= 255
    else:
        place = content.index(b"1234")
        content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedError):
        read(path)


def test_the_last_few_are_kept_and_what_they_refer_to(tmp_path):
    checkpoints = CheckpointFolder(tmp_path / "checkpoints", kept=2)
    for update in (10, 20):
        checkpoints.put(update, checkpoint(update))
    checkpoints.put(30, checkpoint(30, pins=[10]))
    assert checkpoints.updates() == [10, 20, 30]
    checkpoints.put(40, checkpoint(40, pins=[40]))
    assert checkpoints.updates() == [10, 30, 40]  # 30 may still be fallen back to, and refers to 10
    CheckpointFolder(tmp_path / "checkpoints", kept=2).put(50, checkpoint(50, pins=[40]))  # a new process reads what was pinned
    assert checkpoints.updates() == [40, 50]


def test_a_damaged_newest_one_is_reported_and_nothing_is_changed(tmp_path):
    checkpoints = CheckpointFolder(tmp_path, kept=3)
    checkpoints.put(10, checkpoint(10))
    checkpoints.put(20, checkpoint(20))
    checkpoints.path(20).write_bytes(checkpoints.path(20).read_bytes()[:-1])
    found, complaints = checkpoints.newest()
    assert found.facts["position"]["updates"] == 10
    assert len(complaints) == 1
    assert "update-000000020" in complaints[0]
    assert checkpoints.updates() == [10, 20]
    checkpoints.path(10).write_bytes(b"")
    with pytest.raises(DamagedError, match="update-000000010"):
        checkpoints.newest()


@pytest.mark.parametrize("name", KINDS)
def test_every_optimizer_comes_back_exactly(tmp_path, name):
    learning = Learning(optimizer=name, momentum=0.9 if name in ("sgd", "rmsprop") else 0.0, weight_decay=0.01)

    def moved(optimizer, parameters, steps):
        for step in steps:
            for number, parameter in enumerate(parameters):
                parameter.grad = torch.sin(parameter.detach() * (step + 2) + number)
            optimizer.step()

    straight = [torch.nn.Parameter(torch.linspace(-1, 1, 6)), torch.nn.Parameter(torch.ones(2, 2))]
    optimizer = make_optimizer(learning, straight)
    moved(optimizer, straight, range(3))
    tensors, facts = flatten_optimizer(optimizer)
    write(tmp_path / "c", Checkpoint({f"o.{name}": value for name, value in tensors.items()}, facts))
    resumed = [torch.nn.Parameter(parameter.detach().clone()) for parameter in straight]
    moved(optimizer, straight, range(3, 6))
    other = make_optimizer(learning, resumed)
    stored = read(tmp_path / "c")
    restore_optimizer(other, stored.section("o"), stored.facts)
    moved(other, resumed, range(3, 6))
    assert all(torch.equal(a, b) for a, b in zip(straight, resumed, strict=True))
