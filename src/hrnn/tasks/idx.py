"""MNIST's four idx files: reading them from a folder, plain or gzip, and downloading them by checksum."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hrnn.data.unpacking import unpacked
from hrnn.errors import UserError, require_extra
from hrnn.files import make_folder, refuse_link, write_atomically

MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


def find(folder: Path, name: str) -> Path:
    """The file `name`.gz or `name` in the folder."""
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise UserError(
        f"{folder} holds neither {name}.gz nor {name}; name the folder of MNIST's four idx files with --data, or add --download"
    )


def read(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """An idx file of unsigned bytes, whose items have the given shape: uint8 (items, *shape)."""
    with unpacked(path) as file:
        content = file.read()
    dimensions = 1 + len(shape)
    header = 4 + 4 * dimensions
    if len(content) < header or content[:3] != b"\x00\x00\x08":
        raise UserError(f"{path} is not an idx file of unsigned bytes; fetch it again")
    if content[3] != dimensions:
        raise UserError(f"{path} has {content[3]} dimensions; expected {dimensions}, items of shape {shape}")
    sizes = [int.from_bytes(content[at : at + 4], "big") for at in range(4, header, 4)]
    if tuple(sizes[1:]) != shape:
        raise UserError(f"{path} holds items of {' x '.join(map(str, sizes[1:]))}; expected {' x '.join(map(str, shape))}")
    if len(content) - header != math.prod(sizes):
        raise UserError(f"{path} should have {math.prod(sizes)} bytes of data and has {len(content) - header}; fetch it again")
    return np.frombuffer(content, np.uint8, offset=header).reshape(sizes)


def read_pair(folder: Path, part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 28, 28) and labels (n,) of "train" or "t10k"."""
    images_file, labels_file = find(folder, f"{part}-images-idx3-ubyte"), find(folder, f"{part}-labels-idx1-ubyte")
    images, labels = read(images_file, (28, 28)), read(labels_file, ())
    if len(images) != len(labels):
        raise UserError(f"{images_file} has {len(images)} images and {labels_file} {len(labels)} labels")
    if len(labels) == 0 or labels.max() > 9:
        raise UserError(f"{labels_file} should hold labels 0 to 9, at least one")
    return images, labels


def download(folder: Path, mirror: str) -> None:
    """Fetch what is missing, and check it by its SHA-256."""
    require_extra("cli", "--download")
    import pooch  # only here: a network library is a slow import for those who have the files

    make_folder(folder)
    for name, checksum in SHA256.items():
        if (folder / name).is_file() or (folder / name.removesuffix(".gz")).is_file():
            continue
        refuse_link(folder / name)
        try:
            with tempfile.TemporaryDirectory(prefix="hrnn-") as place:
                found = pooch.retrieve(mirror.rstrip("/") + "/" + name, f"sha256:{checksum}", fname=name, path=place)
                content = Path(found).read_bytes()
        except ValueError:
            raise UserError(f"{name} from {mirror} has a wrong checksum; try another --mirror") from None
        except Exception as error:  # requests, urllib3 and the socket layer each have their own
            raise UserError(
                f"{name} cannot be downloaded from {mirror} ({type(error).__name__}); put the file into {folder}"
            ) from None
        write_atomically(folder / name, content)
