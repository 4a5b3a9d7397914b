"""A short share of the campaign against the API, and that it sees what it is there to see."""

from __future__ import annotations

import os
import signal

from campaigns import api, calls, scenes
from campaigns.defects import Limit


def test_a_share_of_the_campaign(tmp_path):
    summary = api.run(0, Limit(cases=120), tmp_path)
    assert [f"{defect.what}: {defect.reproduction}" for defect in summary.defects] == []
    assert summary.calls == 120
    assert summary.counts["done"] > 20
    assert summary.counts["refused"] > 40


def test_the_campaign_sees_other_exceptions_changes_and_crashes(tmp_path, monkeypatch):
    """Calls that do what none should: each is found, named, and the rest go on."""

    def changes(model):
        next(iter(model.parameters())).data.add_(1)
        raise ValueError("model is changed")

    def dies(model):
        os.kill(os.getpid(), signal.SIGKILL)

    broken = {
        "key": "(lambda model: {}[model])",
        "silent": "(lambda model: int('x'))",
        "changes": "changes",
        "dies": "dies",
    }
    monkeypatch.setattr(
        api, "CALLS", {name: calls.Call(text, {"model": ["s.model"]}, ("model",), ("single",)) for name, text in broken.items()}
    )
    monkeypatch.setattr(api, "NAMES", {**scenes.NAMES, "changes": changes, "dies": dies})
    summary = api.run(0, Limit(cases=40), tmp_path)
    assert summary.calls == 40
    said = " ".join(defect.what for defect in summary.defects)
    for words in (
        "key: KeyError",
        "silent: ValueError that names no argument",
        "changes something",
        "dies: the process ends with -9",
    ):
        assert words in said
