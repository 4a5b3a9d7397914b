"""Saved models come back to the bit, from a folder or from a Hub that is played by a folder; the card says what a run was."""

import errno
import json
import re
import shlex
import shutil
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import hrnn
from hrnn import tensors
from hrnn.cli import main
from hrnn.commands.options import parse
from hrnn.commands.task import with_names
from hrnn.commands.train import Train
from hrnn.errors import UserError
from hrnn.files import move
from hrnn.hub import from_pretrained, push_to_hub, save_pretrained
from hrnn.report.summary import summarise
from hrnn.tasks import Copy, Pixels, Series, Text
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, resolved
from hrnn.training.loop import start
from tests.helpers import squares, steady
from tests.series.made import TINY, train, write
from tests.tiny import write_mnist, write_text, write_walks
from tests.user_cells import MinimalGRU

DROPPED = object()
QUIET = Runtime(tensorboard=False, journal_every=100)


def assert_equal(first, second):
    a, b = first.state_dict(), second.state_dict()
    assert list(a) == list(b)
    for name, tensor in a.items():
        assert tensor.dtype == b[name].dtype
        assert torch.equal(tensor, b[name]), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_model_and_its_head_come_back_to_the_bit(dtype, tmp_path):
    edges = {"reads": ["inputs", "both"], "reader": ["maximum", "linear"], "context": ["input", "state"], "burn_in": 2}
    cells = {"cell": ["lstm", "gru", "rnn"], "decoder_units": 8}
    model = steady(hrnn.HRNN(hrnn.Tokens(4), [5, 6, 7], [hrnn.Given(3), 2], **cells, **edges, output="all"))
    model, head = model.to(dtype), nn.Linear(5, 2, bias=False).to(dtype)
    known = [name for name, _ in model.named_buffers()]
    assert known  # the decoders' statistics
    found = from_pretrained(save_pretrained(model, tmp_path / "saved", head=head))
    assert_equal(model, found.model)
    assert_equal(head, found.head)
    assert found.model.config == model.config
    assert found.about["run"] is None
    card = (tmp_path / "saved" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: hrnn\n")
    assert "| levels above the lowest read | inputs (maximum), both (linear) |\n| contexts enter as | input, state |" in card
    assert "| inputs that are read once more before each segment | 2 |" in card


def test_statistics_that_were_learned_come_back(tmp_path):
    model = hrnn.HRNN(3, [5, 6], [4], decoder_units=8)
    hrnn.Restricted().backward(model, torch.randn(20, 2, 3), torch.zeros(20, 2, 5), loss=squares, betas=[1.0])
    assert_equal(model, from_pretrained(save_pretrained(model, tmp_path)).model)
    assert from_pretrained(tmp_path).head is None


def test_saving_again_replaces_what_was_there(tmp_path):
    model, head = hrnn.HRNN(3, [5]), nn.Linear(5, 2)
    save_pretrained(model, tmp_path, head=head)
    save_pretrained(hrnn.HRNN(3, [6]), tmp_path)
    assert from_pretrained(tmp_path).model.hidden_sizes == [6]
    assert from_pretrained(tmp_path).head is None


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    model, head = hrnn.HRNN(3, [5]), nn.Linear(5, 2)
    save_pretrained(model, tmp_path, head=head)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hrnn.hub.files.write_atomically", full)
    with pytest.raises(UserError, match="cannot be written: No space left on device; make room"):
        save_pretrained(hrnn.HRNN(3, [6]), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_is_not_written_over(runs, capsys):
    with pytest.raises(UserError, match=r"has a config\.json of something else, such as a run; give another folder"):
        save_pretrained(runs / "text", runs / "text")
    hrnn.load(runs / "text")
    save_pretrained(runs / "text", runs / "saved")
    found, skipped = summarise(runs)
    assert sorted(one.folder.name for one in found) == ["copy", "text"]
    assert not skipped


def test_scores_are_those_of_the_weights(runs):
    best = json.loads((runs / "text" / "result.json").read_text())["validation"]["update"]
    other = 3 if best == 6 else 6
    for update in (best, other):
        card = (save_pretrained(runs / "text", runs / "saved", checkpoint=str(update)) / "README.md").read_text()
        assert ("model-index" in card) == ("| bits per character, test |" in card) == (update == best)
        assert ("were not scored; the run's scores are of update" in card) == (update == other)


def test_a_head_a_cell_and_a_reader_of_ones_own_are_given_again(tmp_path):
    def own():
        return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))

    def reader(parts, inputs, size):
        return nn.Sequential(nn.Flatten(), nn.Linear(parts[0] * inputs, size))

    model, head = hrnn.HRNN(3, [5, 4], [2], cell=MinimalGRU, reads="inputs", reader=reader), own()
    save_pretrained(model, tmp_path, head=head)
    assert "inputs (by a reader of its own)" in (tmp_path / "README.md").read_text()
    found = from_pretrained(tmp_path, head=own(), cell=MinimalGRU, reader=reader)
    assert_equal(model, found.model)
    assert_equal(head, found.head)
    with pytest.raises(ValueError, match=r"cell of the user's at level 0; give it again"):
        from_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"a reader of the user's at level 1; give it again"):
        from_pretrained(tmp_path, cell=MinimalGRU)
    with pytest.raises(UserError, match=r"module of somebody's own, Sequential; give one like it: head="):
        from_pretrained(tmp_path, cell=MinimalGRU, reader=reader)
    with pytest.raises(UserError, match="does not fit the head"):
        from_pretrained(tmp_path, cell=MinimalGRU, reader=reader, head=nn.Linear(5, 1))


@pytest.fixture
def runs(tmp_path):
    """One on text, finished, and one on copy."""
    (tmp_path / "private").mkdir()
    text = Config(
        Text((write_text(tmp_path / "private" / "book.txt"),)),
        Model(hidden_sizes=(8, 8), window=10),
        Learning(batch=10, learning_rate=0.01),
        Budget(updates=6, validate_every=3),
        QUIET,
    )
    edges = {"reads": ("inputs",), "context": ("state",), "output_levels": "all", "burn_in": 2, "segments": (2,)}
    model = Model(hidden_sizes=(8, 8), periods=(3,), window=9, **edges)
    copy = Config(Copy(until=2), model, Learning(batch=5), Budget(updates=2), QUIET)
    for name, config in (("text", text), ("copy", copy)):
        start(config, tmp_path / name)
    return tmp_path


def test_the_network_of_a_run_comes_back_to_the_bit(runs):
    trained = hrnn.load(runs / "text")
    found = from_pretrained(save_pretrained(runs / "text", runs / "saved"))
    assert_equal(trained.network.levels, found.model)
    assert_equal(trained.network.head, found.head)
    assert found.about["run"]["task"]["vocabulary"] == trained.config.task.vocabulary
    last = from_pretrained(save_pretrained(runs / "text", runs / "saved", checkpoint=3))
    assert last.about["run"]["update"] == 3


def test_the_card_of_a_run(runs):
    save_pretrained(runs / "text", runs / "saved", license="mit", name="Book & <script>alert(1)</script> | `x`")
    card = (runs / "saved" / "README.md").read_text()
    result = json.loads((runs / "text" / "result.json").read_text())
    assert f"| bits per character, test | {result['test']['bits_per_character']:.4f} |" in card
    assert f"| bits per character, validation | {result['validation']['bits_per_character']:.4f} |" in card
    assert "trained on the task *text* (Predict the next character)" in card
    assert re.search(r"\| book\.txt \| [\d,]+ bytes, SHA-256 \w{16}\.\.\. \|", card)
    assert "# Book &amp; &lt;script&gt;alert(1)&lt;/script&gt; \\| \\`x\\`" in card
    assert "<script>" not in card.partition("\n---\n")[2]
    assert "None" not in card
    for file in (runs / "saved").iterdir():
        assert str(runs) not in file.read_bytes().decode(errors="replace"), file  # whose machine it was is nobody's business


def test_the_header_is_one_that_the_hub_reads(runs):
    hub = pytest.importorskip("huggingface_hub", reason='huggingface_hub is not installed: pip install "hrnn[hub]"')
    save_pretrained(runs / "text", runs / "saved", license="mit", name="a: 'b' \"c\"")
    data = hub.ModelCard.load(runs / "saved" / "README.md").data.to_dict()
    assert (data["library_name"], data["license"]) == ("hrnn", "mit")
    index = data["model-index"][0]
    assert index["name"] == "a: 'b' \"c\""
    score = json.loads((runs / "text" / "result.json").read_text())["test"]["bits_per_character"]
    assert score in [metric["value"] for metric in index["results"][0]["metrics"]]


def test_a_run_without_scores_says_so(runs):
    card = (save_pretrained(runs / "copy", runs / "saved") / "README.md").read_text()
    assert "| reached | no length solved |" in card
    assert "| memory of a window | 9 vectors of hidden-state size for each row (the paper's count) |" in card
    assert "The task makes its own data from the seed." in card
    (runs / "copy" / "result.json").unlink()
    card = (save_pretrained(runs / "copy", runs / "saved") / "README.md").read_text()
    assert "The run was not finished when its weights were taken, after 2 updates" in card


@pytest.mark.parametrize("name", ["text", "copy", "pixels"])
def test_the_command_of_the_card_trains_the_same(runs, name, monkeypatch):
    if name == "pixels":
        task = Pixels(write_mnist(runs / "private" / "mnist"), pool=4, permuted=True)
        model = Model(model="hrnn", hidden_sizes=(8, 8), periods=(7,), window=49, indices="sampled", normalized=False)
        learning = Learning(batch=5, optimizer="sgd", momentum=0.5, clip=None, average=None)
        start(Config(task, model, learning, Budget(updates=1), replace(QUIET, seed=3)), runs / "pixels")
    about = from_pretrained(save_pretrained(runs / name, runs / "saved")).about["run"]
    program, train, task_name, *words = shlex.split(about["command"])
    assert (program, train, task_name) == ("hrnn", "train", name)
    monkeypatch.chdir(runs / "private")
    kind = {"text": Text, "copy": Copy, "pixels": Pixels}[name]
    again, began = resolved(parse(Train[kind], "train", with_names(kind, words)).config), hrnn.load(runs / name).config
    assert again.task == began.task
    assert (again.model, again.learning, again.budget) == (began.model, began.learning, began.budget)
    assert again.upkeep.seed == began.upkeep.seed


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A Hub that is a folder, by the calls that are made of huggingface_hub."""
    said = []

    class HfApi:
        def create_repo(self, repository, private, exist_ok):
            said.append((repository, private))
            (tmp_path / "hub" / repository).mkdir(parents=True, exist_ok=exist_ok)
            return f"https://hub/{repository}"

        def upload_folder(self, folder_path, repo_id, commit_message):
            for file in Path(folder_path).iterdir():
                (tmp_path / "hub" / repo_id / file.name).write_bytes(file.read_bytes())

    def snapshot_download(repository, revision, allow_patterns):
        said.append((repository, revision))
        if not (tmp_path / "hub" / repository).is_dir():
            raise OSError("404: there is none")
        return str(tmp_path / "hub" / repository)

    module = types.ModuleType("huggingface_hub")
    module.HfApi, module.snapshot_download = HfApi, snapshot_download
    module.__spec__ = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    monkeypatch.chdir(tmp_path)
    return said


def test_to_the_hub_and_back(hub, tmp_path):
    model, head = steady(hrnn.HRNN(3, [5, 5], [2], decoder_units=8)), nn.Linear(5, 1)
    assert push_to_hub(model, "me/mine", head=head) == "https://hub/me/mine"
    found = from_pretrained("me/mine", revision="v1")
    assert_equal(model, found.model)
    assert_equal(head, found.head)
    assert hub == [("me/mine", True), ("me/mine", "v1")]
    card = (tmp_path / "hub" / "me" / "mine" / "README.md").read_text()
    assert "# mine\n" in card
    assert 'hrnn.hub.from_pretrained("me/mine")' in card


def test_what_goes_wrong_with_the_hub_is_a_sentence(hub, tmp_path):
    with pytest.raises(UserError, match="me/none is no folder, and cannot be fetched from the Hub: OSError: 404"):
        from_pretrained("me/none")
    with pytest.raises(UserError, match="nowhere is neither a folder nor a repository"):
        from_pretrained("nowhere")
    with pytest.raises(UserError, match="a/b/c is neither"):
        push_to_hub(hrnn.HRNN(3, [5]), "a/b/c")
    (tmp_path / "hub" / "me").parent.mkdir()
    (tmp_path / "hub" / "me").write_text("a file")
    with pytest.raises(UserError, match="me/mine cannot be written to the Hub: "):
        push_to_hub(hrnn.HRNN(3, [5]), "me/mine")


def test_without_the_extra_folders_work_and_the_hub_does_not(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    save_pretrained(hrnn.HRNN(3, [5]), tmp_path)
    from_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"hrnn.hub needs hrnn\[hub\]; pip install 'hrnn\[hub\]'"):
        from_pretrained("me/mine")


def broken(tmp_path, **changes):
    save_pretrained(hrnn.HRNN(3, [5]), tmp_path, head=nn.Linear(5, 2))
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return tmp_path


def test_damaged_folders_are_named(tmp_path):
    with pytest.raises(UserError, match=r"holds no model \(no config.json\); hrnn.hub.save_pretrained writes one"):
        from_pretrained(tmp_path)
    for changes, sentence in (
        ({"format": 9}, "in format 9 and this is hrnn .*, which knows formats up to 5"),
        ({"head": 7}, "its head is 7"),
        ({"run": 7}, "its run is 7"),
        ({"files": 7}, "its files is 7"),
        ({"files": {}}, r"model.safetensors is not what was saved with .*config.json"),
        ({"head": {"kind": "own", "name": "x" * 5000}}, "somebody's own, x+"),
    ):
        with pytest.raises(UserError, match=sentence):
            from_pretrained(broken(tmp_path, **changes))
    folder = broken(tmp_path)
    (folder / "head.safetensors").write_bytes(b"noise")
    with pytest.raises(ValueError, match=r"head.safetensors is damaged"):
        from_pretrained(folder)
    tensors.write(folder / "head.safetensors", {"weight": torch.zeros(2, 5, dtype=torch.int64)}, {"format": 5})
    with pytest.raises(UserError, match=r"head.safetensors does not hold the linear layer"):
        from_pretrained(folder)
    (folder / "config.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="does not describe a model"):
        from_pretrained(folder)


@pytest.mark.parametrize("name", ["outputs", "inputs", "bias", "kind"])
@pytest.mark.parametrize("value", [0, 7, -1, 2.0, "../../etc/passwd", None, [], True])
def test_a_head_is_what_it_is_said_to_be(tmp_path, name, value):
    right = {"kind": "linear", "inputs": 5, "outputs": 2, "bias": True}
    folder = broken(tmp_path, head={**right, name: value})
    if {**right, name: value} == right:
        return
    with pytest.raises(UserError, match=r"config\.json has the head .*; save it again|module of somebody's own"):
        from_pretrained(folder)


@pytest.mark.parametrize("file", ["model.safetensors", "head.safetensors"])
def test_weights_of_another_model_of_the_same_shape_are_refused(tmp_path, file):
    first, other = (broken(tmp_path / name) for name in ("first", "other"))
    (first / file).write_bytes((other / file).read_bytes())
    with pytest.raises(UserError, match=rf"{file} is not what was saved with .*config.json; put back copies of both"):
        from_pretrained(first)


def test_a_folder_that_was_replaced_by_half_is_refused(tmp_path, monkeypatch):
    folder, replace_file, done = broken(tmp_path / "model"), move, []

    def killed_after_the_first(source, target):
        if done:
            raise KeyboardInterrupt
        done.append(target)
        replace_file(source, target)

    monkeypatch.setattr("hrnn.hub.files.move", killed_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        broken(folder)
    with pytest.raises(UserError, match=r"model.safetensors is not what was saved"):
        from_pretrained(folder)


def test_arguments_that_contradict_each_other(tmp_path):
    model = hrnn.HRNN(3, [5])
    with pytest.raises(TypeError, match="checkpoint is for runs, and what is a model; drop it"):
        save_pretrained(model, tmp_path, checkpoint="best")
    with pytest.raises(TypeError, match="head is for models, and what is a run"):
        save_pretrained(tmp_path, tmp_path / "x", head=nn.Linear(1, 1))
    with pytest.raises(TypeError, match=r"head is .*; give an nn.Module"):
        save_pretrained(model, tmp_path, head=torch.zeros(1))
    with pytest.raises(UserError, match=r"revision is 'v1' and .* is a folder of this machine"):
        from_pretrained(save_pretrained(model, tmp_path), revision="v1")
    with pytest.raises(TypeError, match=r"head is .linear.; give an nn.Module, or None"):
        from_pretrained(tmp_path, head="linear")
    with pytest.raises(UserError, match="was saved without a head; drop head="):
        from_pretrained(tmp_path, head=nn.Linear(5, 1))


def test_a_run_on_series_says_what_its_values_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = Series(data=(write_walks(tmp_path / "my walks.csv"),), id="walk", target="gait", values=("x", "y"))
    shape = Model(hidden_sizes=(8, 8), periods=(3,), window=12)
    start(Config(task, shape, Learning(batch=5), Budget(updates=2), QUIET), tmp_path / "run")
    saved = save_pretrained("run", tmp_path / "saved")
    found = from_pretrained(saved)
    learned = found.about["run"]["task"]["preprocessing"]
    assert (learned["channels"], learned["classes"], len(learned["mean"])) == (["x", "y"], ["fast", "slow"], 2)
    card = (saved / "README.md").read_text()
    assert "hrnn train series 'my walks.csv' --id walk --values x y --target gait" in card
    assert "- sequences: training 32, validation 4, test 4" in card
    assert "answers = pretrained.predict(data)" in card
    assert "preprocessing |" not in card
    assert str(tmp_path) not in card + (saved / "config.json").read_text()


@pytest.mark.parametrize("kind", ["class", "number", "panel", "patched series", "bases"])
def test_a_run_on_series_predicts_from_values_as_they_are(kind, tmp_path, capsys, monkeypatch):
    arguments = write(tmp_path / "data")[kind]
    trained = hrnn.load(train(capsys, tmp_path / "run", arguments, 1))
    saved = save_pretrained(tmp_path / "run", tmp_path / "saved")
    expected = trained.predict(arguments[0])
    monkeypatch.chdir(tmp_path / "saved")  # where the data of training are not
    found = from_pretrained(saved)
    for some, others in zip(found.predict(arguments[0]), expected, strict=True):
        assert np.array_equal(some, others)
    assert found.classes == trained.classes
    if kind in ("class", "bases"):
        assert np.array_equal(found.predict_proba(arguments[0]), trained.predict_proba(arguments[0]))
    values = (
        "A" if kind == "bases" else {name: "c1" if name == "code" else 1.5 for name in trained.config.task.learned.channels}
    )
    assert str(found.stream().step(values, 1)) == str(trained.stream().step(values, 1))


def test_models_of_their_own_do_not_predict(tmp_path):
    found = from_pretrained(save_pretrained(hrnn.HRNN(3, [5]), tmp_path))
    with pytest.raises(UserError, match="only runs on series predict; use model and head of others"):
        found.predict([np.zeros((5, 3))])


@pytest.fixture(scope="module")
def of_series(tmp_path_factory):
    """The folder of a run on series, which every test copies."""
    place = tmp_path_factory.mktemp("series")
    arguments = ["train", "series", *write(place / "data")["class"], *TINY, "--updates", "1", "--run", str(place / "run")]
    assert main(arguments) == 0
    return save_pretrained(place / "run", place / "saved")


@pytest.mark.parametrize(
    ("entry", "value", "words"),
    [
        ("scale", [0.0, 1.0, 1.0], "scale"),
        ("mean", [0.0], "mean"),
        ("mean", ["../../etc/passwd", 0.0, 0.0], "mean"),
        ("channels", ["a", "a", "code"], "channels"),
        ("masked", [], "is not that of the model and its head"),
        ("classes", ["fast", "medium", "slow"], "is not that of the model and its head"),
        ("target_scale", DROPPED, "preprocessing lacks target_scale"),
        (None, None, "the preprocessing is None"),
        (None, DROPPED, "the task lacks preprocessing"),
    ],
)
def test_preprocessing_that_does_not_fit_is_refused(of_series, tmp_path, entry, value, words):
    folder = Path(shutil.copytree(of_series, tmp_path / "saved"))
    entries = json.loads((folder / "config.json").read_text())
    task = entries["run"]["task"]
    holder, name = (task, "preprocessing") if entry is None else (task["preprocessing"], entry)
    holder.pop(name) if value is DROPPED else holder.update({name: value})
    (folder / "config.json").write_text(json.dumps(entries))
    with pytest.raises(UserError, match=f"does not describe a model that was saved .*{words}"):
        from_pretrained(folder)
