"""For loops of other libraries: windows of a part as a `torch.utils.data` dataset, and rows of any lengths side by side.

windows = Windows(part, steps=200, target="next")
for batch in DataLoader(windows, batch_size=32, shuffle=True, collate_fn=padded):
    result = gradient.backward(model, batch["x"], batch["y"], mask=batch["mask"], lengths=batch["lengths"], loss=loss)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from hrnn.arguments import shown, whole
from hrnn.data import Part
from hrnn.data.batches import Stretch, Wanted, check_target, filled

Item = dict[str, Tensor]


class Windows(Dataset[Item]):
    """Stretches of the rows of a part, in order: `steps` steps each, the next one `stride` steps further; the last of a row may
    be shorter. Each is read when it is asked for, by whatever process asks. A window starts with a fresh state.

    steps:  None: whole rows
    stride: by default as many as steps
    target, horizon: as `hrnn.data.chunks` has them

    An item is a dict: x (steps, inputs) float32 or (steps,) int64 tokens; with a target also y (steps, ...) and mask (steps,),
    true where y is known.
    """

    def __init__(
        self, part: Part, steps: int | None = None, stride: int | None = None, *, target: Wanted | None = None, horizon: int = 1
    ):
        if not isinstance(part, Part):
            raise TypeError(f"part is {shown(part)}; give an hrnn.data.Part")
        if steps is None and stride is not None:
            raise ValueError(f"stride is {shown(stride)} and steps is None, which is whole rows; give both, or neither")
        check_target(part, target)
        self.part, self.target, self.horizon = part, target, whole("horizon", horizon)
        self.steps = None if steps is None else whole("steps", steps)
        self.stride = self.steps if stride is None else whole("stride", stride)
        # The first window of each row, and behind the last row how many there are.
        counts = np.ones(len(part), np.int64)
        if self.steps is not None and self.stride is not None:
            counts = 1 + -(-np.maximum(part.lengths - self.steps, 0) // self.stride)
            counts = np.minimum(counts, -(-part.lengths // self.stride))  # a wide stride may lead past a row's end
        self._firsts = np.concatenate([[0], np.cumsum(counts)])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, number: int) -> Item:
        if not -len(self) <= number < len(self):
            raise IndexError(f"window {shown(number)} of {len(self)}; give 0 to {len(self) - 1}")
        number %= len(self)
        row = int(np.searchsorted(self._firsts, number, side="right")) - 1
        length = int(self.part.lengths[row])
        start = (number - int(self._firsts[row])) * (self.stride or 0)
        steps = length if self.steps is None else min(self.steps, length - start)
        piece = filled(
            self.part, [Stretch(0, 0, row, start, steps, start + steps == length)], steps, 1, self.target, self.horizon
        )
        item = {"x": torch.from_numpy(piece.x[:, 0])}
        if piece.y is not None and piece.known is not None:
            known = piece.known[:, 0]
            item |= {"y": torch.from_numpy(piece.y[:, 0]), "mask": torch.from_numpy(known.reshape(steps, -1).all(1))}
        return item


def padded(items: Sequence[Mapping[str, Tensor]]) -> Item:
    """A batch for `model` and `backward`, to be given to a DataLoader as collate_fn: every entry (steps, ...) of the items side
    by side, (time, batch, ...), zeros behind a row's end; and lengths, (batch,), how many steps each row has.

    items: dicts of tensors that have the same number of steps each; "x" is one of them
    """
    if not items or not all(isinstance(item, Mapping) and "x" in item and _all_tensors(item) for item in items):
        raise TypeError(f"items is {shown(items)}; give dicts of tensors, each with an x of shape (steps, ...)")
    names = list(items[0])
    if "lengths" in names:
        raise ValueError("items have an entry lengths, which is what padded adds; call it something else")
    for place, item in enumerate(items):
        lengths = {name: value.shape[:1] for name, value in item.items()}
        if list(item) != names or len(set(lengths.values())) != 1 or not lengths["x"]:
            raise ValueError(
                f"item {place} has {shown({name: tuple(shape) for name, shape in lengths.items()})}; give every item the "
                "entries of the first, all with as many steps as x"
            )
    batch = {name: pad_sequence([item[name] for item in items]) for name in names}
    return {**batch, "lengths": torch.tensor([len(item["x"]) for item in items])}


def _all_tensors(item: Mapping[str, object]) -> bool:
    return all(isinstance(value, Tensor) for value in item.values())
