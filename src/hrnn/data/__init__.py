"""Sequences from files and arrays to what a network reads: sources, a cache on disk, splits, preprocessing, batches.

    sequences = cache(table("sensors.parquet", target="label"), "sensors.cache")
    parts = split(sequences)
    preprocessing = learn(sequences, parts)
    training = Part(sequences, preprocessing, parts["training"])

docs/data.md shows the rest.
"""

from hrnn.data.array_sources import array_files, arrays
from hrnn.data.batches import Buckets, Piece, chunks, crops, in_order
from hrnn.data.caching import cache, differences
from hrnn.data.description import Description, describe, inspect
from hrnn.data.finding import find
from hrnn.data.folders import folder
from hrnn.data.learning import learn
from hrnn.data.parts import Part
from hrnn.data.preprocessing import Preprocessing
from hrnn.data.sequences import Sequences
from hrnn.data.source import Source
from hrnn.data.splits import Spans, split, whole
from hrnn.data.streams import Streams
from hrnn.data.tables import table
from hrnn.data.ts import archive

__all__ = [
    "Buckets",
    "Description",
    "Part",
    "Piece",
    "Preprocessing",
    "Sequences",
    "Source",
    "Spans",
    "Streams",
    "archive",
    "array_files",
    "arrays",
    "cache",
    "chunks",
    "crops",
    "describe",
    "differences",
    "find",
    "folder",
    "in_order",
    "inspect",
    "learn",
    "split",
    "table",
    "whole",
]
