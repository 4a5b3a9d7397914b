"""Tensors from outside: what is wrong with their memory, where they may go, and files of them, checked before they are used."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hrnn.arguments import path_of, shown
from hrnn.files import replacing

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

_NAME = 230  # bytes of a file's name, so that there is room for that of a temporary one
# What a damaged or hostile header can cause in the reader, in torch and in the interpreter.
_UNREADABLE = (SafetensorError, RuntimeError, ValueError, TypeError, OverflowError, KeyError, AttributeError, MemoryError)


def in_memory(tensor: Tensor) -> str:
    """What is wrong with a tensor whose values are to be read; nothing where they are ordinary numbers in ordinary memory."""
    if tensor.is_nested:
        return "a nested tensor; give one of full shape, with lengths for shorter rows"
    if tensor.layout != torch.strided:
        return f"{tensor.layout}; give an ordinary tensor, e.g. with .to_dense()"
    if tensor.is_quantized:
        return f"quantised, {tensor.dtype}; give an ordinary tensor, e.g. with .dequantize()"
    if tensor.device.type == "meta":
        return "on meta, where nothing has a value; give a tensor with values"
    if any(getattr(tensor, "names", ())):
        return "a tensor with named dimensions; drop them with .rename(None)"
    return ""


def swapped(value: Any) -> Any:
    """A tensor with its first two dimensions the other way round; what has no two is left to whoever checks it."""
    return value.transpose(0, 1) if isinstance(value, Tensor) and not value.is_nested and value.dim() > 1 else value


def device_of(value: Any) -> torch.device:
    """A device that is there."""
    try:
        device = torch.device(value)
        torch.empty(0, device=device)
        return device
    except (RuntimeError, TypeError, ValueError, OverflowError, AssertionError, ImportError) as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise ValueError(f"device is {shown(value)}, which cannot be used: {reason[0][:100]}") from None


def write(path: Any, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """A safetensors file with `metadata` as JSON under "hrnn". A failure leaves what was there before."""
    path = path_of("path", path)
    if len(os.fsencode(path.name)) > _NAME or path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"path is {shown(str(path))}, which is not the name of a file in an existing folder; give one")
    copies = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    content = save(copies, metadata={"format": "pt", "hrnn": json.dumps(metadata)})
    with replacing(path) as file:
        file.write(content)


def read(path: Any) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """The tensors of a safetensors file, in main memory, and its metadata under "hrnn", None where there are none. The header
    is checked against the file's size before anything of a tensor's size is allocated."""
    path = path_of("path", path)
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ValueError(f"path is {shown(str(path))}, which cannot be read: {error.args[-1]}") from None
    if not regular:
        raise ValueError(f"path {path} is not a file; give what save() wrote")
    try:
        with safe_open(str(path), framework="pt", device="cpu") as file:
            text = (file.metadata() or {}).get("hrnn")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (*_UNREADABLE, OSError) as error:
        raise ValueError(f"{path} is damaged, or not a safetensors file: {shown(str(error))}") from None
    if text is None:
        return tensors, None
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise ValueError(f"{path} is damaged: its metadata are not a JSON object")
    return tensors, metadata
