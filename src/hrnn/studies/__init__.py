"""The paper's experiments: its figures as data, one recipe per row of its tables, and what is expected of them."""
