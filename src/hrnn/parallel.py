"""One model on many processes: each has its share of the batch's rows, and what they sum is that of the whole batch.

    with hrnn.parallel.join() as group:  # torchrun says who is there; started without it, a group of one
        rows = group.rows(batch)
        ...
        group.all_reduce_gradients(parameters)  # after the backward passes of an update, before the optimizer's step

Every wait has a limit: where a process is gone or does not answer in time, the others get a `LostError`.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from hrnn.arguments import entries, named, number, shown, whole
from hrnn.precision import summed_in
from hrnn.torchrun import GroupError, LostError, many, restarts

TIMEOUT = 600.0  # seconds
LONGEST = 1e7  # seconds that a wait may be given


class Group:
    """The processes that train one model. Made by `join`; without arguments, a group of one, in which nothing waits.

    rank:  the number of this process, from 0
    size:  how many there are

    All of them must call the same verbs in the same order. Collected numbers are the same in every process.
    """

    def __init__(self, rank: int = 0, size: int = 1, store: Any = None, timeout: float = TIMEOUT):
        self.size, self.timeout = whole("size", size), number("timeout", timeout, positive=True)
        self.rank = whole("rank", rank, 0, self.size - 1)
        self._store = store
        self._names: dict[str, None] = {}  # of the sums that everyone knows of
        self._lent: deque[tuple[Tensor, ...]] = deque(maxlen=4)  # see _waiting

    @property
    def first(self) -> bool:
        """Is this the process that writes files and talks to the user?"""
        return self.rank == 0

    def rows(self, batch: int) -> range:
        """This process's rows of a batch."""
        batch = whole("batch", batch)
        if batch % self.size:
            raise GroupError(
                f"a batch of {batch} rows cannot be shared out evenly among {self.size} processes; give a multiple of "
                f"{self.size}, such as {-(-batch // self.size) * self.size}"
            )
        return self.shard(batch)

    def shard(self, count: int) -> range:
        """This process's part of `count` things, even or not, perhaps none."""
        count = whole("count", count, 0)
        return range(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def all_reduce_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Add up `.grad` over all processes, all parameters at once. One that has no gradient in any process keeps None."""
        parameters = entries("parameters", parameters, "model.parameters()")
        if wrong := [one for one in parameters if not isinstance(one, Tensor)]:
            raise TypeError(f"parameters has {shown(wrong[0])}; give tensors, e.g. model.parameters()")
        if self.size == 1:
            return
        found = {parameter: parameter.grad for parameter in parameters if parameter.grad is not None}
        for parameter, gradient in self.summed_gradients(parameters, found).items():
            if parameter.grad is None:
                parameter.grad = gradient.to(parameter.dtype)
            else:
                parameter.grad.copy_(gradient)

    def summed_gradients(self, parameters: Iterable[Tensor], gradients: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
        """Gradients added up over all processes, of those parameters that have one in any. One flat buffer for each dtype."""
        if self.size == 1:
            return dict(gradients)
        kinds: dict[tuple[torch.dtype, torch.device], dict[Tensor, None]] = {}
        for parameter in parameters:
            if parameter.requires_grad:
                kinds.setdefault((summed_in(parameter.dtype), parameter.device), {})[parameter] = None
        total: dict[Tensor, Tensor] = {}
        for (dtype, device), members in kinds.items():
            sizes = [member.numel() for member in members]
            buffer = torch.zeros(sum(sizes) + len(sizes), dtype=dtype, device=device)
            *places, there = buffer.split([*sizes, len(sizes)])
            # At the end, how many processes have each gradient: without it none could tell zeros from nothing.
            there.copy_(torch.tensor([float(member in gradients) for member in members]))
            for member, place in zip(members, places, strict=True):
                if member in gradients:
                    place.view(member.shape).copy_(gradients[member])
            with self._waiting(buffer):
                dist.all_reduce(buffer)
            total |= {
                member: place.view(member.shape)
                for member, place, count in zip(members, places, there.tolist(), strict=True)
                if count
            }
        return total

    def all_reduce_numbers(self, values: Mapping[str, float]) -> dict[str, float]:
        """Numbers by name, added up over all processes; a process need not have every name."""
        named("values", values)
        if self.size == 1:
            return dict(values)
        while True:
            new = [name for name in values if name not in self._names]
            numbers = [values.get(name, 0.0) for name in self._names]
            there = [float(name in values) for name in self._names]
            total = torch.tensor([float(len(new)), *numbers, *there], dtype=torch.float64)
            with self._waiting(total):
                dist.all_reduce(total)
            unknown, *rest = total.tolist()
            if not unknown:
                known = len(self._names)
                return {name: rest[i] for i, name in enumerate(self._names) if rest[known + i]}
            for names in self.all_gather_text(json.dumps(new)):  # once for each name: from then on all know it
                self._names |= dict.fromkeys(json.loads(names))

    def any(self, *flags: bool) -> list[bool]:
        """For each flag: is it true in any process?"""
        return [bool(flag) for flag in self.most([int(flag) for flag in flags])]

    def all_equal(self, *numbers: int) -> bool:
        """Have all processes these numbers?"""
        most = self.most([*numbers, *(-number for number in numbers)])
        return all(largest == -other for largest, other in zip(most[: len(numbers)], most[len(numbers) :], strict=True))

    def most(self, numbers: list[int]) -> list[int]:
        """For each number: the largest that any process has."""
        if self.size == 1:
            return numbers
        most = torch.tensor(numbers, dtype=torch.int64)
        with self._waiting(most):
            dist.all_reduce(most, dist.ReduceOp.MAX)
        return [int(number) for number in most]

    def all_reduce(self, values: Tensor) -> Tensor:
        """The sum of a tensor over all processes, in place."""
        if self.size > 1:
            with self._waiting(values):
                dist.all_reduce(values)
        return values

    def all_gather(self, tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """Every process's tensors, in the order of ranks; names and shapes are the same in all."""
        named("tensors", tensors, "{'a': torch.zeros(3)}")
        if self.size == 1:
            return [dict(tensors)]
        found: list[dict[str, Tensor]] = [{} for _ in range(self.size)]
        for name in sorted(tensors):
            mine = tensors[name].contiguous()
            places = [torch.empty_like(mine) for _ in found]
            with self._waiting(mine, *places):
                dist.all_gather(places, mine)
            for one, place in zip(found, places, strict=True):
                one[name] = place
        return found

    def all_gather_text(self, text: str) -> list[str]:
        """Every process's text, in the order of ranks."""
        if not isinstance(text, str):
            raise TypeError(f"text is {shown(text)}; give a str")
        if self.size == 1:
            return [text]
        mine = _as_tensor(text.encode())
        lengths = [int(one["length"]) for one in self.all_gather({"length": torch.tensor([len(mine)])})]
        padded = torch.cat([mine, mine.new_zeros(max(lengths) - len(mine))])
        rows = self.all_gather({"text": padded})
        return [bytes(row["text"][:length].tolist()).decode() for row, length in zip(rows, lengths, strict=True)]

    def broadcast(self, content: bytes | None) -> bytes:
        """What the first process has, in every process."""
        if content is not None and not isinstance(content, bytes):
            raise TypeError(f"content is {shown(content)}; give bytes, or None where this is not the first process")
        if self.size == 1:
            return content or b""
        length = torch.tensor([len(content or b"")])
        with self._waiting(length):
            dist.broadcast(length, 0)
        buffer = _as_tensor(content or b"") if self.first else torch.empty(int(length), dtype=torch.uint8)
        with self._waiting(buffer):
            dist.broadcast(buffer, 0)
        return buffer.numpy().tobytes()

    def barrier(self) -> None:
        """Until all processes are here."""
        self.any(False)

    @contextmanager
    def local_rank_zero_first(self) -> Iterator[None]:
        """Around what writes files that all processes of a machine read: one of them goes first."""
        leads = os.environ.get("LOCAL_RANK", "0") == "0"
        if not leads:
            self.barrier()
        yield
        if leads:
            self.barrier()

    def check_same_options(self, options: Mapping[str, Any]) -> None:
        """Refuse to go on where a process was started with other options than the first one; names may be nested."""
        try:
            mine = _flat(named("options", options))
        except ValueError as error:  # of json: what it cannot hold is a TypeError, which says so
            raise ValueError(f"options cannot be compared: {error}") from None
        theirs = json.loads(self.broadcast(json.dumps(mine).encode()))
        names = [name for name in {**theirs, **mine} if mine.get(name) != theirs.get(name)]
        found = [(name, theirs.get(name), mine.get(name)) for name in names[:1]]
        for rank, text in enumerate(self.all_gather_text(json.dumps(found))):
            for name, expected, got in json.loads(text):
                raise GroupError(
                    f"process {rank} was started with other options than process 0: {name} is {shown(got)} there "
                    f"and {shown(expected)} in process 0; give every process the same"
                )

    def fails_first(self) -> bool:
        """Asked by a process that is about to fail: true for the first one that asks, which says why to the user."""
        if self._store is None:
            return True
        try:
            return int(self._store.add("spoken", 1)) == 1
        except RuntimeError:  # the store went with the process that held it
            return True

    @contextmanager
    def _waiting(self, *tensors: Tensor) -> Iterator[None]:
        """Around a call of torch.distributed with these tensors. The last ones are kept: a thread of gloo may still hold them,
        and who lets go of a tensor last needs the interpreter, which waits for that thread where the group is destroyed."""
        self._lent.append(tensors)
        try:
            yield
        except RuntimeError as error:  # torch says no more than that
            late = "timed out" in str(error).lower() or "timeout" in str(error).lower()
            why = f"did not answer within {self.timeout:g} s" if late else "is gone"
            raise LostError(f"process {self.rank} cannot go on: another of the {self.size} processes {why}") from error


ALONE = Group()
_joined = itertools.count()  # how often this process has joined, as all others have


@contextmanager
def join(timeout: float = TIMEOUT) -> Iterator[Group]:
    """Join the processes that torchrun (or RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT) names, and leave them at the end.

    timeout: seconds that any wait for the others may take

    Tensors in main memory go through gloo, those on GPUs through nccl; each process gets a GPU, if there are any.
    """
    try:
        possible = number("timeout", timeout, positive=True) <= LONGEST
    except ValueError:
        possible = False
    if not possible:
        raise ValueError(f"timeout is {shown(timeout)}; give a number of seconds above 0 and at most {LONGEST:,.0f}")
    if not many():
        yield Group(timeout=timeout)
        return
    try:
        store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=timeout)))
        # Nothing there that a group of before has left: torchrun keeps the store when it starts the job again.
        store = dist.PrefixStore(f"hrnn/{restarts()}/{next(_joined)}", store)  # type: ignore[attr-defined]
        gpus = torch.cuda.is_available() and dist.is_nccl_available()
        if gpus:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout))
    except (RuntimeError, ValueError) as error:
        raise _cannot_join(error, timeout) from None
    group = Group(rank, size, store, timeout)
    try:
        yield group
        group.barrier()  # nobody leaves while another still needs what it holds
    finally:
        dist.destroy_process_group()


def _cannot_join(error: Exception, timeout: float) -> Exception:
    where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    text = str(error)
    if "EADDRINUSE" in text or "address already in use" in text.lower():
        return GroupError(f"{where} is in use by another program; choose another port (torchrun --master-port, or MASTER_PORT)")
    if isinstance(error, ValueError):
        return GroupError(f"the processes cannot find each other: {text}")
    return LostError(
        f"the {os.environ.get('WORLD_SIZE')} processes could not meet at {where} (limit {timeout:g} s); were all started, and "
        "can all reach it?"
    )


def _as_tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)


def _flat(options: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in options.items():
        found |= _flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {above + name: value}
    return json.loads(json.dumps(found)) if not above else found
