"""Tests run side by side, one thread each."""

import signal

import torch

torch.set_num_threads(1)

# A shell without job control lets what it starts in the background ignore Ctrl-C, and children would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
