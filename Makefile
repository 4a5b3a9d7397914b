# Every target works on a fresh clone: it creates .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
OLDEST := .venv-oldest
SITE_TOOLS := $(VENV)/.site-tools

# One thread per process: tests run side by side, and two OpenMP threads on a busy machine can be far slower than one.
export OMP_NUM_THREADS = 1

MINUTES ?= 30
SEED ?= 0
JOBS ?= 1

.PHONY: test test-long matrix lock docs results demo campaign bench memory growth million report streaming planner checkpointed trainer clean

CONFIG ?=
VARIANT ?=
RESULTS := benchmarks/results

# What is compiled, and what compiles it: whoever changes that installs again
NATIVE := hatch_build.py $(wildcard src/hrnn/native/*.c src/hrnn/native/*.h src/hrnn/native/*.py)

$(INSTALLED): pyproject.toml constraints.txt $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	$(BIN)/hrnn --version
	touch $@

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest --numprocesses 2

# The versions that are installed now, as those that every target installs
lock: $(SITE_TOOLS)
	printf '# Every version that make installs, for .[dev], .[docs] and make test-long; the package itself accepts ranges.\n' > constraints.txt
	$(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//' >> constraints.txt

# What takes minutes, too: the README's commands as they stand, loops of other libraries, other examples of every property
test-long: $(INSTALLED)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt lightning accelerate
	$(BIN)/pytest -m "long or hypothesis" --hypothesis-profile random -r s

# The tests under other circumstances, one after the other, or under one of them: make matrix VARIANT=torch (tests/matrix.py)
matrix: $(INSTALLED) $(if $(filter oldest,$(or $(VARIANT),oldest)),$(OLDEST)/.installed)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt pytest-random-order
	$(BIN)/python -m tests.matrix $(VARIANT)

# The lowest versions that the package accepts; they need Python 3.11 or 3.12
$(OLDEST)/.installed: pyproject.toml constraints-oldest.txt $(NATIVE)
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt \
		--editable ".[cli,data,report]" pytest pytest-xdist hypothesis beartype import-linter
	touch $@

# The site, in site/: what is written down about the commands comes from their parsers, the gallery from the committed results
$(SITE_TOOLS): $(INSTALLED)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	touch $@

docs: $(SITE_TOOLS)
	$(BIN)/python docs/write_command_line.py
	$(BIN)/python docs/write_gallery.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# What hrnn reproduce shows, in the package, from the tables and curves of results/
results: $(INSTALLED)
	$(BIN)/python results/write_package_data.py

demo: $(INSTALLED)
	$(BIN)/hrnn demo

# Kills, faults of the disk, hostile commands, damaged files, links, hostile calls, for so long: make campaign MINUTES=30 JOBS=2
campaign: $(INSTALLED)
	$(BIN)/python -m campaigns --minutes $(MINUTES) --seed $(SEED) --jobs $(JOBS)

# Time and memory side by side with rivals: all configurations, or one: make bench CONFIG=copy
bench: $(INSTALLED)
	mkdir -p $(RESULTS)
	$(BIN)/python -m benchmarks.run $(CONFIG) --json $(RESULTS)/bench$(if $(CONFIG),-$(CONFIG)).json

# Peak memory of true and restricted gradients and of a hand-written loop, two and three levels
memory: $(INSTALLED)
	$(BIN)/python -m benchmarks.memory --json $(RESULTS)/memory.json

# Predicted bytes against measured ones
planner: $(INSTALLED)
	$(BIN)/python -m benchmarks.planner --json $(RESULTS)/planner.json

# True gradients in so many bytes, and a top level that is run twice
checkpointed: $(INSTALLED)
	$(BIN)/python -m benchmarks.checkpointed budgets --json $(RESULTS)/checkpointed.json
	$(BIN)/python -m benchmarks.checkpointed top --json $(RESULTS)/checkpointed-top.json

# What the trainer costs beside the bare engine
trainer: $(INSTALLED)
	$(BIN)/python -m benchmarks.trainer --json $(RESULTS)/trainer.json

# Time and memory against window and depth
growth: $(INSTALLED)
	$(BIN)/python -m benchmarks.growth --json $(RESULTS)/growth.json --plot docs/figures/growth.png

# One window of a million steps
million: $(INSTALLED)
	$(BIN)/python -m benchmarks.million --json $(RESULTS)/million.json

# A page of 200 runs, one of them with a million records: to write it, and what it answers in a browser
report: $(INSTALLED)
	$(BIN)/python -m benchmarks.report --json $(RESULTS)/report.json

# One input at a time, beside torch's cells, and memory over a million steps
streaming: $(INSTALLED)
	$(BIN)/python -m benchmarks.streaming --json $(RESULTS)/streaming.json

clean:
	rm -rf $(VENV) $(OLDEST) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis site
