"""The paper's experiments: its figures as data, one recipe a row of its tables, and what is expected of them."""
