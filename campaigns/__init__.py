"""Campaigns: kills, faults of the disk, hostile commands, damaged files, links, hostile calls; a stated time, one seed.

    python -m campaigns --minutes 30 --seed 0 [--only kills,disk,commands,damage,links,api]

A part is a module of its name with

    def run(seed: int, limit: Limit, scratch: Path) -> Summary

that works through `limit.numbers()`, draws whatever it does from the seed and the number alone, and reports each defect with
the shortest call that shows it.
"""
