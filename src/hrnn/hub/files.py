"""A model, its head and what is known of them as a folder: safetensors, JSON and a card. Nothing in it is code.

model.safetensors   the hierarchy with its decoders and their statistics, as `HRNN.save` writes it
head.safetensors    the weights of the head, where there is one
config.json         what the head is, the checksums of both, and of a run its options, without the paths of the machine that
                    trained it
README.md           the card
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import hrnn
from hrnn import tensors
from hrnn.arguments import flag, path_of, shown
from hrnn.data.fingerprints import fingerprint
from hrnn.errors import UserError, shortened, words_of
from hrnn.files import content_of, make_folder, move, refuse_link, remove, write_atomically, writing
from hrnn.formats import check_format, numbered
from hrnn.hierarchy import HRNN, CellChoice
from hrnn.hub import card, remote
from hrnn.hub.about import public, series_of, without_scores_of_others
from hrnn.readers import ReaderChoice
from hrnn.tasks import Series
from hrnn.training.entries import ABOUT, read_result, read_whole
from hrnn.training.network import Headed
from hrnn.training.trained import Predicts, load

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MODEL, HEAD, CONFIG, CARD = "model.safetensors", "head.safetensors", "config.json", "README.md"


@dataclass(frozen=True)
class Pretrained(Predicts):
    """
    model:  the hierarchy
    head:   reads its output; None where none was saved
    about:  what config.json says; `about["run"]` has the options and scores of a run, None for a model alone
    series: of a run on series, what it learned of its data: `predict`, `predict_proba`, `classes` and `stream` take values as
            these had them, as those of `hrnn.load` do; None for others
    """

    model: HRNN
    head: nn.Module | None
    about: dict[str, Any]
    series: Series | None = None

    @property
    def _of_series(self) -> tuple[Headed, Series]:
        if self.series is None or self.head is None:
            raise UserError("only runs on series predict; use model and head of others")
        return Headed(self.model, self.head), self.series


def save_pretrained(
    what: HRNN | str | Path,
    folder: str | Path,
    *,
    head: nn.Module | None = None,
    name: str | None = None,
    license: str | None = None,
    repository: str | None = None,
    **opening: Any,
) -> Path:
    """Write a model, or the network of a run, into a folder, with a card. What is there under the same names is replaced.

    what:       a model, or the folder of a run: its best weights, averaged where the run averages them, with its head
    head:       of a model: any nn.Module; a linear layer is made again by `from_pretrained`, any other has to be given to it
    name:       on the card; by default that of the run's folder, or of the folder
    license:    as the Hub names licences, for the card
    repository: where the card says that the model is; by default the folder's name
    opening:    of a run: checkpoint, task, cell, reader and trust, as `hrnn.load` takes them
    """
    folder = path_of("folder", folder)
    for entry, text in {"name": name, "license": license, "repository": repository}.items():
        if not isinstance(text, str | None):
            raise TypeError(f"{entry} is {shown(text)}; give a text, or None")
    if isinstance(what, HRNN):
        if opening:
            raise TypeError(f"{next(iter(opening))} is for runs, and what is a model; drop it")
        model, run, shown_name = what, None, name or folder.resolve().name
    else:
        place = path_of("what", what)
        if head is not None:
            raise TypeError("head is for models, and what is a run, which has its own; drop it")
        trained = load(place, **opening)
        model, head, shown_name = trained.network.levels, trained.network.head, name or place.resolve().name
        known = read_whole(place).get(ABOUT)
        run = public(trained, read_result(place), known["notes"] if isinstance(known, dict) else ())
        if opening.get("checkpoint", "best") != "best":
            run = without_scores_of_others(run)
    if head is not None and not isinstance(head, nn.Module):
        raise TypeError(f"head is {shown(head)}; give an nn.Module, or None")
    make_folder(folder)
    if (folder / CONFIG).exists() and not (folder / MODEL).exists():
        raise UserError(f"{folder} has a {CONFIG} of something else, such as a run; give another folder")
    entries = {"library_name": "hrnn", "version": hrnn.__version__, "head": _described(head), "run": run}
    entries = numbered("hub", entries)
    text = card.written(shown_name, model, entries, license, repository or folder.resolve().name)
    for file in (MODEL, HEAD, CONFIG, CARD):
        refuse_link(folder / file)
    # Everything is written before anything is replaced: a full disk leaves what was there.
    with writing(folder), tempfile.TemporaryDirectory(prefix=".partial-", dir=folder) as scratch:
        new = Path(scratch)
        model.save(new / MODEL)
        if head is not None:
            tensors.write(new / HEAD, head.state_dict(), numbered("hub", {"kind": "head"}))
        entries["files"] = {file: fingerprint(new / file)["sha256"] for file in (MODEL, HEAD) if (new / file).exists()}
        write_atomically(new / CONFIG, json.dumps(entries, indent=2).encode() + b"\n")
        write_atomically(new / CARD, text.encode(errors="backslashreplace"))
        for file in (MODEL, HEAD, CONFIG, CARD):
            if (new / file).exists():
                move(new / file, folder / file)
    if head is None:
        remove(folder / HEAD)
    return folder


def from_pretrained(
    where: str | Path,
    *,
    head: nn.Module | None = None,
    cell: CellChoice | list[CellChoice] | None = None,
    reader: ReaderChoice | list[ReaderChoice | None] | None = None,
    revision: str | None = None,
) -> Pretrained:
    """What `save_pretrained` or `push_to_hub` wrote, from a folder, or from the Hub by "owner/name". Equal to the bit; no code
    of the repository is run.

    head:     where the saved one was no linear layer: a module of the same kind, which gets its weights
    cell, reader: where the model has cells or readers of a user's own, these again, as `HRNN.load` takes them
    revision: of the repository on the Hub
    """
    folder = Path(where)
    if not folder.is_dir():
        folder = remote.fetched(str(where), revision, [MODEL, HEAD, CONFIG])
    elif revision is not None:
        raise UserError(f"revision is {revision!r} and {folder} is a folder of this machine, which has none; drop it")
    if head is not None and not isinstance(head, nn.Module):
        raise TypeError(f"head is {shown(head)}; give an nn.Module, or None")
    about = _read(folder)
    try:
        model = HRNN.load(folder / MODEL, cell=cell, reader=reader)
    except FileNotFoundError:
        raise UserError(f"{folder} lacks {MODEL}; put back a copy of it") from None
    made = _head(folder, about["head"], head)
    _check_files(folder, about["files"])
    try:
        return Pretrained(model, made, about, series_of(about["run"], model, made))
    except UserError as error:
        raise UserError(f"{folder / CONFIG} does not describe a model that was saved ({error})") from None


def push_to_hub(what: HRNN | str | Path, repository: str, *, private: bool = True, **saving: Any) -> str:
    """Save a model or a run as `save_pretrained` does, and send the folder to the Hub, as one commit to "owner/name", which is
    made if it is not there. Returns the address. Log in with huggingface_hub before.

    private: of a repository that is made; False shows it to everybody
    saving:  as `save_pretrained` takes them
    """
    remote.check(repository)
    flag("private", private)
    with tempfile.TemporaryDirectory() as place:
        name = repository.partition("/")[2]
        folder = save_pretrained(what, place, **{"name": name, "repository": repository, **saving})
        return remote.sent(folder, repository, private)


def _described(head: nn.Module | None) -> dict[str, Any] | None:
    """What is needed to make the head again; a module of the user's own is only named."""
    if head is None:
        return None
    if type(head) is nn.Linear:
        return {"kind": "linear", "inputs": head.in_features, "outputs": head.out_features, "bias": head.bias is not None}
    return {"kind": "own", "name": type(head).__name__}


def _read(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        entries = json.loads(content_of(path))
        if not isinstance(entries, dict) or not {"format", "head", "run", "files"} <= entries.keys():
            raise TypeError("it has no format, head, run and files")
        check_format("hub", entries, path)
        kinds = {"head": dict | None, "run": dict | None, "files": dict}
        if wrong := [name for name, kind in kinds.items() if not isinstance(entries[name], kind)]:
            raise TypeError(f"its {wrong[0]} is {shortened(entries[wrong[0]])}")
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{folder} holds no model (no {CONFIG}); hrnn.hub.save_pretrained writes one") from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path} does not describe a model that was saved ({words_of(error)})") from None
    return entries


def _check_files(folder: Path, checksums: dict[str, Any]) -> None:
    """Refuse weights that are not those that were saved with the configuration: damaged, of another model, or half replaced."""
    for file in (MODEL, HEAD):
        path = folder / file
        if path.is_file() and fingerprint(path)["sha256"] != checksums.get(file):
            raise UserError(f"{path} is not what was saved with {folder / CONFIG}; put back copies of both, or save again")


def _head(folder: Path, described: dict[str, Any] | None, given: nn.Module | None) -> nn.Module | None:
    """The head with its weights: made again, or the one that was given."""
    if described is None:
        if given is not None:
            raise UserError(f"{folder} was saved without a head; drop head=")
        return None
    try:
        weights, metadata = tensors.read(folder / HEAD)
    except FileNotFoundError:
        raise UserError(f"{folder} lacks {HEAD}; put back a copy of it") from None
    check_format("hub", metadata or {}, folder / HEAD)
    if given is None:
        if described.get("kind") != "linear":
            own = shortened(described.get("name"))
            raise UserError(f"the head of {folder} is a module of somebody's own, {own}; give one like it: head=...")
        weight = weights.get("weight")
        if weight is None or weight.dim() != 2 or set(weights) - {"weight", "bias"} or weight.dtype not in DTYPES:
            raise UserError(f"{folder / HEAD} does not hold the linear layer that it should; put back a copy of it")
        given = nn.Linear(weight.shape[1], weight.shape[0], bias="bias" in weights, dtype=weight.dtype)
        if json.dumps(described, sort_keys=True) != json.dumps(there := _described(given), sort_keys=True):
            raise UserError(f"{folder / CONFIG} has the head {shortened(described)}, and {HEAD} holds {there}; save it again")
    try:
        given.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{folder / HEAD} does not fit the head ({words_of(error)})") from None
    return given
