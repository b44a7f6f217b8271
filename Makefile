# `make demo` and `make test` do all the set-up themselves. `make` alone lists what there is.
# Works with GNU make 3.81 (macOS) and newer. ARGS="…" reaches the program: make test ARGS="tests/core -x"

PYTHON_BIN := .venv/bin/python
ARGS :=
# Files of tests that run side by side: more than cores, as most of a test's time is spent waiting for real programs.
JOBS := 5

# Empty means that bytecode is written, whatever the caller's environment says: starts are three times slower without.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help venv demo test quick agents modal-tests ways-in chaos night proof attacks desks fuzz mutants noop selftest check check-static bench soak pictures screenshots generate format lock
.NOTPARALLEL:

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | awk -F '\t' '{ printf "  make %-14s %s\n", $$1, $$2 }'

venv: ## make .venv ready (part of every other target)
	@scripts/bootstrap

# Some of the scripted agents fail, so that there is something to look at: the demo then ends with 1, as a run does.
demo: venv ## scripted agents in a private world, live on the screen
	@.venv/bin/selftest-tui demo $(ARGS) || { status=$$?; test $$status = 1 || exit $$status; }

test: venv ## all tests
	@$(PYTHON_BIN) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

quick: venv ## tests that need no private world, so no agent and no terminal: for the inner loop
	@$(PYTHON_BIN) -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder --durations=0 --durations-min=5 \
		-m "not real and not slow and not world and not agents" $(ARGS)

agents: venv ## tests with the real Claude Code and Codex on the scripted model; npm installs both into .agents
	@scripts/agents $(ARGS)

modal-tests: venv ## tests with the real client of Modal, on a control plane of their own on 127.0.0.1; fills .venv-modal
	@scripts/modal $(ARGS)

ways-in: venv ## install and try it as an ordinary user that root makes, in a home, through a link, and below /tmp
	@$(PYTHON_BIN) scripts/ways_in.py

chaos: venv ## kill a hundred conductors of real agents and a thousand of simulated ones, over ten runs each
	@$(PYTHON_BIN) scripts/chaos.py $(ARGS)

night: venv ## one simulated night: three scheduled runs of 300 agents, a restart, a rate limit, a budget that ends
	@$(PYTHON_BIN) scripts/night.py $(ARGS)

proof: venv ## hold verification against known truths, on a thousand scripted lines, on real git and pytest, and killed
	@$(PYTHON_BIN) scripts/proof.py $(ARGS)

attacks: venv ## forge branches and try to leave the sandbox: none may be published, or pass without a mark
	@$(PYTHON_BIN) scripts/attacks.py $(ARGS)

desks: venv ## verify on desks as people have them: each environment is found, or its row says what mends it
	@$(PYTHON_BIN) scripts/desks.py $(ARGS)

fuzz: venv ## hold lines of random histories under random decisions against git's own cherry-pick, for two minutes
	@$(PYTHON_BIN) scripts/fuzz.py $(ARGS)

mutants: venv ## put faults into a copy of the source, each of which the tests of its room must find
	@$(PYTHON_BIN) -m scripts.mutants $(ARGS)
	@$(if $(ARGS),,$(PYTHON_BIN) -m scripts.noop_check)

noop: venv ## let the command of each block of tutorial.sh do nothing, which its tests must find (part of mutants)
	@$(PYTHON_BIN) -m scripts.noop_check $(ARGS)

selftest: venv ## run selftest-tui on its own end-to-end tests, with scripted agents, and check the report
	@$(PYTHON_BIN) scripts/selftest.py $(ARGS)

check: test check-static ## all tests, then everything below

check-static: venv ## format, lint, types, import contracts, structure, stale generated files and screenshots
	$(PYTHON_BIN) -m ruff format --check --no-cache .
	$(PYTHON_BIN) -m ruff check --no-cache .
	$(PYTHON_BIN) -m mypy
	.venv/bin/lint-imports --no-cache
	$(PYTHON_BIN) scripts/structure.py
	.venv/bin/selftest-tui check
	$(PYTHON_BIN) scripts/generate.py --check
	$(PYTHON_BIN) scripts/screenshots.py --check

bench: venv ## measure against the budgets; writes bench/results.json
	@$(PYTHON_BIN) -m bench $(ARGS)

soak: venv ## an hour with a thousand agents that change and a provider that flaps; writes bench/soak.json
	@$(PYTHON_BIN) -m bench.soak $(ARGS)

screenshots: pictures ## the same

pictures: venv ## draw screenshots/ anew by driving the app
	@$(PYTHON_BIN) scripts/screenshots.py $(ARGS)

generate: venv ## write the generated parts of README.md and docs/ anew
	@$(PYTHON_BIN) scripts/generate.py

format: venv ## format and sort imports
	@$(PYTHON_BIN) -m ruff check --fix -q . ; $(PYTHON_BIN) -m ruff format .

lock: ## resolve pyproject.toml anew into requirements.txt and, with modal beside it, requirements-modal.txt (needs uv)
	uv pip compile -q --upgrade pyproject.toml --group dev --extra mngr --extra claude --extra codex --universal --python-version 3.12 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-header -o requirements.txt $(ARGS)
	uv pip compile -q --upgrade pyproject.toml --group dev --extra mngr --extra claude --extra codex --extra modal --universal --python-version 3.12 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-header -c requirements.txt -o requirements-modal.txt $(ARGS)
