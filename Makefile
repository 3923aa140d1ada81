# Two commands: make demo, make test. Both set up .venv first.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := $(VENV)/.extras
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-compile -q -c constraints.txt

# Bytecode is kept, whatever the environment says: tests begin hundreds of interpreters. What nothing imports needs none.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick shown docs guards browser gpu chaos check clean

demo: $(READY)
	$(BIN)/fieldcraft run campaigns/heat.yaml

test: $(EXTRAS)
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

quick: $(READY)
	$(BIN)/fieldcraft compare studies/quick.yaml

shown: $(READY)
	$(BIN)/python tests/scenarios/shown.py

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

guards: $(READY)
	$(BIN)/python tests/mutations/mutate.py

browser: $(READY)
	@command -v /usr/bin/chromium > /dev/null || { echo "no /usr/bin/chromium: apt-get install chromium"; exit 1; }
	$(INSTALL) -e '.[test,browser]'
	$(BIN)/python -m pytest tests/browser

gpu: $(READY)
	$(BIN)/python -m pytest tests/gpu
	$(BIN)/python benchmarks/training.py

chaos: $(READY)
	FIELDCRAFT_CHAOS=long $(BIN)/python -m pytest -n 2 tests/chaos tests/contracts/test_ledger_approvals.py tests/flows/desk/test_desk_security.py

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV), once: some minutes and 2.3 GB. pip prints nothing meanwhile."
	python3 -m venv $(VENV)
	$(INSTALL) -e '.[test]'
	$(BIN)/python -m fieldcraft.flows.machinery.prepare
	touch $(READY)

$(EXTRAS): $(READY)
	$(INSTALL) -e '.[test,rivals,scip]'
	touch $(EXTRAS)

clean:
	rm -rf $(VENV) *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
