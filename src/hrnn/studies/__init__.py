"""The paper's experiments: its figures as data, one recipe per row of its tables, and what is expected of them."""

SEEDS = (0, 1, 2)  # those that tables report
