import gzip
import hashlib
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch

from hrnn.errors import UserError
from hrnn.tasks import Pixels, Reading, idx
from tests.tiny import idx_bytes, real_data, write_mnist

READING = Reading(seed=0, batch=20, window=1000)


@pytest.fixture
def folder(tmp_path):
    return write_mnist(tmp_path / "mnist")


def test_plain_and_packed_files_read_the_same(tmp_path):
    packed, plain = write_mnist(tmp_path / "a"), write_mnist(tmp_path / "b", packed=False)
    first, second = (Pixels(data=data).resolved().batch(0, READING).windows[0] for data in (packed, plain))
    assert torch.equal(first.x, second.x)
    assert first.x.shape == (784, 20, 1)
    assert 0 <= first.x.min() < first.x.max() <= 1


def test_an_epoch_has_every_training_image_once_and_no_other(folder):
    task = Pixels(data=folder).resolved()
    images, _ = idx.read_pair(folder, "train")
    assert task.batches_per_epoch(READING) == 11  # 220 of 240; the last 20 validate
    seen = torch.cat([task.batch(index, READING).windows[0].x[..., 0].T for index in range(11)])
    assert sorted(map(bytes, (seen * 255).round().to(torch.uint8).numpy())) == sorted(map(bytes, images[:220].reshape(220, -1)))
    again = torch.cat([task.batch(index, READING).windows[0].x[..., 0].T for index in range(11, 22)])
    assert not torch.equal(again, seen)
    held_out = torch.cat([batch.windows[0].x[..., 0].T for batch in task.evaluation("validation", READING)])
    assert np.array_equal((held_out * 255).round().numpy(), images[220:].reshape(20, -1))


def test_images_and_labels_belong_together(folder):
    window = Pixels(data=folder).resolved().batch(5, READING).windows[-1]
    rows = window.x[..., 0].T.reshape(20, 28, 28).mean(2)
    assert torch.equal((rows.argmax(1) - 4) // 2, window.y[-1])


def test_rows_of_a_process_are_those_of_the_whole_batch(folder):
    task = Pixels(data=folder).resolved()
    whole, part = (task.batch(3, reading).windows[0] for reading in (READING, replace(READING, rows=range(5, 9))))
    assert torch.equal(whole.x[:, 5:9], part.x)
    assert torch.equal(whole.y[:, 5:9], part.y)


def test_pooling_averages_squares(folder):
    whole = Pixels(data=folder).resolved().batch(0, READING).windows[0].x[..., 0].T.reshape(20, 1, 28, 28)
    for pool in (2, 4):
        pooled = Pixels(data=folder, pool=pool).resolved().batch(0, READING).windows[0].x[..., 0].T
        assert torch.allclose(pooled, torch.nn.functional.avg_pool2d(whole, pool).flatten(1), atol=1e-6)


def test_the_order_of_pixels_is_stored_and_the_same_for_every_seed(folder):
    task = Pixels(data=folder, permuted=True, pool=4).resolved()
    assert sorted(task.order) == list(range(49))
    assert task.resolved().order == task.order == Pixels(data=folder, permuted=True, pool=4).resolved().order
    straight = Pixels(data=folder, pool=4).resolved()
    for seed in (0, 1):
        reading = replace(READING, seed=seed)
        x, y = straight.batch(0, reading).windows[0].x, task.batch(0, reading).windows[0].x
        assert torch.equal(x[list(task.order)], y)


def test_short_windows_are_aligned_to_the_end_and_only_the_last_has_targets(folder):
    batch = Pixels(data=folder).resolved().batch(0, replace(READING, window=166))
    assert [window.steps for window in batch.windows] == [120, 166, 166, 166, 166]
    assert [window.targets for window in batch.windows] == [0, 0, 0, 0, 20]


def test_damaged_files_are_named(folder):
    images = folder / "train-images-idx3-ubyte.gz"
    content = images.read_bytes()

    def complaint():
        with pytest.raises(UserError) as error:
            Pixels(data=folder).resolved().batch(0, READING)
        return str(error.value)

    images.write_bytes(content[: len(content) // 2])
    assert "train-images-idx3-ubyte.gz is truncated or damaged" in complaint()
    images.write_bytes(gzip.compress(gzip.decompress(content)[:-5]))
    assert "188160 bytes of data and has 188155" in complaint()
    images.write_bytes(gzip.compress(idx_bytes(np.zeros((240, 32, 32)))))
    assert "32 x 32; expected 28 x 28" in complaint()
    images.write_bytes(gzip.compress(idx_bytes(np.zeros((240, 784)))))
    assert "2 dimensions; expected 3" in complaint()
    images.write_bytes(b"no idx file at all")
    assert "not an idx file" in complaint()
    images.write_bytes(gzip.compress(idx_bytes(np.zeros((239, 28, 28)))))
    assert "239 images and" in complaint()
    images.unlink()
    assert "holds neither train-images-idx3-ubyte.gz nor train-images-idx3-ubyte" in complaint()


@contextmanager
def serve(folder):
    """A folder on a local web server; gives its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture
def mirror(folder):
    with serve(folder) as address:
        yield address


def test_a_download_is_checked(tmp_path, folder, mirror, monkeypatch):
    task = Pixels(data=tmp_path / "new", download=True, mirror=mirror)
    with pytest.raises(UserError, match="wrong checksum"):
        task.resolved()
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in idx.SHA256}
    monkeypatch.setattr(idx, "SHA256", sums)
    with pytest.raises(UserError, match="holds neither"):  # of a run that is opened: what it names is not fetched
        task.batch(0, READING)
    assert torch.equal(
        task.resolved().batch(0, READING).windows[0].x, Pixels(data=folder).resolved().batch(0, READING).windows[0].x
    )
    with pytest.raises(UserError, match="cannot be downloaded"):
        idx.download(tmp_path / "other", "http://127.0.0.1:9/")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / next(iter(sums))).symlink_to(tmp_path / "victim")
    with pytest.raises(UserError, match="is a symbolic link"):
        idx.download(tmp_path / "linked", mirror)
    assert not (tmp_path / "victim").exists()


def test_real_mnist_has_55_000_to_train_and_5_000_to_validate():
    data = real_data("mnist")
    task = Pixels(data=data, pool=2).resolved()
    assert task.batches_per_epoch(Reading(0, 100, 196)) == 550
    assert sum(batch.rows for batch in task.evaluation("validation", Reading(0, 100, 196))) == 5000
    assert sum(batch.rows for batch in task.evaluation("test", Reading(0, 100, 196))) == 10000
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in data.glob("*.gz")} == idx.SHA256
