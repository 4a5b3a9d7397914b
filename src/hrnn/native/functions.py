"""The compiled functions, as ctypes calls them: structures and signatures are those of the C beside this file.

They are told addresses: whatever is handed over is contiguous, of the functions' dtype, and kept alive by the caller.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from hrnn import native

_N, _P = ctypes.c_int64, ctypes.c_void_p
_TYPES = {torch.float32: "f32", torch.float64: "f64"}
KINDS = {"LSTM": 0, "GRU": 1, "RNN": 2}


class Block(ctypes.Structure):
    """Buffers of ticks."""

    _fields_ = [(name, _N) for name in ("kind", "places", "hidden", "vocabulary", "input", "context")] + [
        (name, _P) for name in ("gates", "states", "memory", "inputs")
    ]


class Weights(ctypes.Structure):
    """Where in a buffer which weights of a cell are."""

    _fields_ = [(name, _P) for name in ("table", "input", "context", "hidden", "back")]


class Decoding(ctypes.Structure):
    """A decoder, its gradients, and what it is to decode."""

    _fields_ = [(name, _N) for name in ("n", "m", "summary", "units", "outputs", "tokens")] + [
        (name, _P)
        for name in (
            *("w1", "b1", "index", "w2", "b2", "d_w1", "d_b1", "d_index", "d_w2", "d_b2"),
            *("summaries", "indices", "targets", "ticks", "weights", "symbols", "values", "d_summaries", "room"),
        )
    ]


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "forward": (None, [_P, _P, _N, _N, _N, _N, _N, _P, _N]),
    "sweep": (None, [_P, _P, _N, _N, _P, _P, _P, _P, _N]),
    "scatter": (None, [*[_N] * 4, *[_P] * 3]),
    "prepared_size": (_N, [_N] * 5),
    "prepare": (None, [*[_N] * 5, *[_P] * 7]),
    "activations": (None, [_N, _P, _P, _P]),
    "decode_room": (_N, [_N] * 4),
    "decode": (None, [_P]),
}


@functools.cache
def _share_threads(library: ctypes.CDLL) -> None:
    """Let the C use the threads that torch has, those of GNU's OpenMP; where that is not in memory, it starts its own."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    loaded = dict.fromkeys(line.split(maxsplit=5)[-1] for line in lines if "libgomp" in line)
    for path in sorted(loaded, key=lambda path: not path.startswith(str(Path(torch.__file__).parent)))[:1]:
        library.hrnn_use_openmp.argtypes = [_P]
        library.hrnn_use_openmp(ctypes.cast(ctypes.CDLL(path).GOMP_parallel, _P))


@functools.cache
def _of_level(dtype: torch.dtype) -> Any:
    library = native.library()
    if library is None or dtype not in _TYPES:
        return None
    _share_threads(library)
    found = {}
    for name, (result, arguments) in _SIGNATURES.items():
        function = library[f"hrnn_{_TYPES[dtype]}_{name}_{native.level()}"]
        function.restype, function.argtypes = result, arguments
        found[name] = function
    return SimpleNamespace(**found)


def functions(like: torch.Tensor) -> Any:
    """Those for tensors of this dtype and device, by name; None where there are none, and torch computes."""
    return _of_level(like.dtype) if like.device.type == "cpu" else None


def fits(tensor: torch.Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> bool:
    """Is it just what C would read at its address, once it is contiguous?"""
    plain = tensor.is_cpu and tensor.layout is torch.strided and not tensor.is_neg()
    return plain and tensor.dtype is dtype and tensor.shape == shape


def scatter(sums: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> None:
    """sums[index[i]] += rows[i]; torch takes a microsecond for every row."""
    run = functions(sums)
    if run is None or rows.dtype != sums.dtype or rows.stride(1) != 1:
        sums.index_add_(0, index, rows)
    else:
        index = index.contiguous()
        run.scatter(len(index), *sums.shape, rows.stride(0), index.data_ptr(), rows.data_ptr(), sums.data_ptr())
