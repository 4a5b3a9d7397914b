"""Pictures of tables: what stands in a legend can be read, and hides no curve."""

import json

import pytest

from hrnn.report.committed import FOLDER
from hrnn.report.picture import draw, from_json


@pytest.mark.parametrize("name", ["deep-copy-desk-searched", "ptb-desk-searched", "needle-desk", "needle-replay-desk"])
def test_legends_are_whole_and_hide_nothing(name):
    figure = draw(from_json(json.loads((FOLDER / f"{name}.json").read_text())["curves"]))
    figure.draw_without_rendering()
    own = [(axes, axes.get_legend()) for axes in figure.axes if axes.get_legend() is not None]
    assert len(figure.legends) + len(own) >= 1
    for legend in [*figure.legends, *(legend for _, legend in own)]:
        box = legend.get_window_extent()
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
        assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes)
