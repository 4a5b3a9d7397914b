"""Pixels: MNIST digits read one pixel per step; the class is predicted after the last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hrnn.data.random import permutation
from hrnn.errors import UserError
from hrnn.limits import at_least, hidden, option
from hrnn.tasks.confusion import Confusion
from hrnn.tasks.contract import ACCURACY, Judge, Task, classified
from hrnn.tasks.idx import MIRROR, download, find, read_pair
from hrnn.tasks.windows import Batch, Reading, with_last_target

SIDE = 28
HELD_OUT = 12  # one of so many training images validates: 5,000 of MNIST's 60,000, the last ones


@dataclass(frozen=True)
class Pixels(Task):
    """Classify digits from 784 steps of one number each, or fewer with --pool.

    Examples:
        hrnn train pixels mnist
        hrnn train pixels mnist --pool 2 --hidden-sizes 64 64
        hrnn train pixels mnist --download --permuted
    """

    data: Path = Path("mnist")
    """Folder of the four idx files, gzip or not. It may stand right behind the task's name."""
    download: bool = False
    """Fetch missing files into that folder, by checksum."""
    mirror: str = MIRROR
    """Where --download fetches from."""
    permuted: bool = False
    """Read the pixels in one fixed random order, the same for every seed."""
    pool: int = option(1, at_least(1, 4))
    """Average squares of so many pixels: 2 gives 14 x 14, 4 gives 7 x 7."""
    order: tuple[int, ...] = hidden(())

    metrics, inputs, outputs = (ACCURACY,), 1, 10
    suggested: ClassVar[dict[str, Any]] = {
        "hidden_sizes": (128, 256),
        "periods": (SIDE,),  # one image row
        "window": SIDE**2,
        "batch": 50,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "epochs": 10,
    }
    published: ClassVar[dict[str, Any]] = {
        "hidden_sizes": (256, 256),
        "periods": (10,),
        "batch": 100,
        "learning_rate": 1e-3,
        "schedule": "constant",
        "epochs": 20,
    }

    def suggestions(self) -> dict[str, Any]:
        return {**self.suggested, "periods": (SIDE // self.pool,)}

    def check(self) -> None:
        if self.pool not in (1, 2, 4):
            raise UserError(f"--pool is {self.pool}; give 1, 2 or 4")
        if self.order and sorted(self.order) != list(range(self.steps)):
            raise UserError(f"the stored order of pixels is not a permutation of {self.steps} steps")

    def resolved(self) -> Pixels:
        task = super().resolved()
        if task.download:  # here and nowhere else: a run that is opened may be somebody else's
            download(task.data.expanduser().absolute(), task.mirror)
        order = task.order
        if task.permuted and not order:
            order = tuple(permutation(0, "pixels/order", 0, task.steps).tolist())
        return replace(task, data=task.data.expanduser().absolute(), order=order)

    def files(self, part: str) -> tuple[Path, ...]:
        name = "t10k" if part == "test" else "train"
        return tuple(find(self.data, f"{name}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))

    def with_test_data(self, path: Path) -> Pixels:
        return replace(self, data=path.expanduser().absolute())

    def steps_of_batch(self, reading: Reading) -> int:
        return self.steps

    @property
    def steps(self) -> int:
        return (SIDE // self.pool) ** 2

    def loss(self, logits: Tensor, target: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return classified(logits, target)

    def judge(self) -> Judge:
        return Confusion([str(digit) for digit in range(self.outputs)])

    def _pixels(self, images: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """Images (n, 28, 28) -> sums over squares (n, steps), in the order of reading."""
        side = SIDE // self.pool
        squares = images.reshape(-1, side, self.pool, side, self.pool)
        sums: NDArray[np.uint16] = squares.sum((2, 4), dtype=np.uint16).reshape(-1, self.steps)
        return sums[:, list(self.order)] if self.order else sums

    @cached_property
    def _learned(self) -> dict[str, tuple[NDArray[np.uint16], NDArray[np.uint8]]]:
        """Training and validation images (n, steps) with their labels (n,)."""
        images, labels = read_pair(self.data, "train")
        kept = len(images) - len(images) // HELD_OUT
        pixels = self._pixels(images)
        return {"training": (pixels[:kept], labels[:kept]), "validation": (pixels[kept:], labels[kept:])}

    @cached_property
    def _tested(self) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
        """Read apart, so that nothing before the end of a run can touch the test set."""
        images, labels = read_pair(self.data, "t10k")
        return self._pixels(images), labels

    def _batch(self, pixels: NDArray[np.uint16], labels: NDArray[np.uint8], window: int) -> Batch:
        """Images (B, steps) -> x (steps, B, 1) in 0..1, one target at the last step."""
        x = torch.from_numpy(pixels.T.astype(np.float32))[..., None] / (255 * self.pool**2)
        return with_last_target(x, torch.from_numpy(labels.astype(np.int64)), window)

    def batches_per_epoch(self, reading: Reading) -> int:
        images = len(self._learned["training"][1])
        if images < reading.batch:
            raise UserError(f"--batch {reading.batch} is more than the {images} training images of {self.data}")
        return images // reading.batch

    def batch(self, index: int, reading: Reading) -> Batch:
        pixels, labels = self._learned["training"]
        epoch, number = divmod(index, self.batches_per_epoch(reading))
        order = permutation(reading.seed, "pixels/epoch", epoch, len(labels))
        chosen = order[number * reading.batch :][reading.rows.start : reading.rows.stop]
        return self._batch(pixels[chosen], labels[chosen], reading.window)

    def evaluation(self, part: str, reading: Reading) -> Iterator[Batch]:
        pixels, labels = self._tested if part == "test" else self._learned["validation"]
        for first in range(0, len(labels), reading.batch):
            rows = slice(first, first + reading.batch)
            yield self._batch(pixels[rows], labels[rows], reading.window)
