"""Tests run side by side, one thread each."""

import torch

torch.set_num_threads(1)
