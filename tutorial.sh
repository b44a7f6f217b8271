#!/usr/bin/env bash
# A tour of selftest-tui, every command of it. Each block is run as it stands by a test in tests/e2e/ that cites it,
# so what is written here works. Copy what you need; do not run the whole file.
set -euo pipefail

##################################################
# Can it work here?
##################################################

selftest-tui --version

# What there is. Each command has a --help of its own, with examples.
selftest-tui --help
selftest-tui list --help

# What is missing or misconfigured, and the command that mends it.
selftest-tui doctor

# The same for a program, to be kept or compared.
selftest-tui doctor --json > doctor.json

##################################################
# The fleet on the screen
##################################################

# The agents of this machine and of every provider of mngr, live. `?` shows the keys, `q` leaves; the agents go on.
selftest-tui

##################################################
# The fleet, once
##################################################

selftest-tui list

# One JSON document. Providers that do not answer are listed under "errors", their agents as they were last known.
selftest-tui list --json > fleet.json

# What can be seen at once, without asking mngr: the local agents, and the others as last known.
selftest-tui list --json --no-wait > at-once.json

# One line of JSON, as every command gives it with --batch.
selftest-tui list --batch

# Some of them: in the language of `/` on the screens, and in mngr's own (CEL).
selftest-tui list --json --filter 'is:waiting test:cart' > matching.json
selftest-tui list --json --cel 'state == "WAITING" && labels.selftest_test.contains("cart")' > matching-cel.json

##################################################
# Ctrl-Q and Ctrl-T in an agent's terminal
##################################################

# mngr binds them to destroy and to stop the agent, without a question. This makes both ask, on every server.
selftest-tui key-guard --on
selftest-tui key-guard --json > guarded.json

# mngr's own bindings again.
selftest-tui key-guard --off

##################################################
# Completion in the shell
##################################################

# A script that completes commands, flags, their values, files and runs. The same for zsh, fish and tcsh.
selftest-tui completion bash > completion.bash

##################################################
# Settings, four ways: here, a tmux server whose socket lies somewhere unusual
##################################################

selftest-tui list --json --no-wait --socket "$PWD/builds" > fleet.json

# Every setting has such a form; `selftest-tui --help` names them all.
selftest-tui list --json --no-wait --set sockets="$PWD/builds" > fleet.json

# For one shell.
export SELFTEST_TUI_SOCKETS="$PWD/builds"
selftest-tui list --json --no-wait > fleet.json

# For everybody who works in this folder.
echo "sockets = ['$PWD/builds']" > selftest-tui.toml
selftest-tui list --json --no-wait > fleet.json

##################################################
# A tutorial and its tests
##################################################

# Is every block of tutorial.sh cited by a test in tests/, and every citation a block? If not, this ends with 1.
selftest-tui check

# Another tutorial, other tests, as JSON.
selftest-tui check --tutorial tour.sh --tests e2e --json > check.json || test $? = 1

# The agents that would write the tests which the tutorial lacks: one for each block that no test cites, and for each test
# whose citation is no block any more. Nothing starts.
selftest-tui sync --dry-run --agent-command ./writer.sh

# Only for the block at line 4, from another commit, tutorial and folder. Agents and limits are given as for `run`.
selftest-tui sync 4 --dry-run --json --base HEAD~1 --tutorial tour.sh --tests e2e --agent claude --no-smoke --on local \
  --transfer worktree --env API_KEY --max-running 2 --launch-rate 0.5 --timeout 600 --budget-usd 5 --on-cluster pause \
  --no-verify-on-arrival > plan.json

# What they write is taken only if a happy and an unhappy test cite the block, no other test is weaker, and each of them
# passes here, and fails when the command does nothing. Then it is reviewed like every run. 1: some block could not be covered.
selftest-tui sync --batch --agent-command ./writer.sh --verify-on-arrival > sync.jsonl

##################################################
# A run: an agent for each test
##################################################

# What would start, what it may take, what would leave this machine and to whom. Nothing starts.
selftest-tui run --dry-run --agent-command ./agent.sh

# One agent with a tiny prompt goes ahead of the others and tries everything out; this leaves it out.
selftest-tui run --dry-run --json --agent claude --no-smoke > plan.json

# Only what a change concerns, and what stands behind -- goes to pytest. As one line of JSON.
selftest-tui run --dry-run --batch --affected-by HEAD~1 --agent-command ./agent.sh -- -k tax > plan.json

# From another commit than HEAD, with a tutorial that has another name.
selftest-tui run --dry-run --json --base HEAD~1 --tutorial tour.sh --agent-command ./agent.sh > plan.json

# Limits: launches per second, seconds for one agent, dollars for all of them; and a pause where many fail with one cause.
selftest-tui run --dry-run --json --agent claude --launch-rate 0.5 --timeout 600 --budget-usd 5 --on-cluster pause > plan.json

# On another provider, or here in worktrees of this repository. --env names variables that agents get, never their values.
selftest-tui run --dry-run --json --on local --transfer worktree --env API_KEY --agent-command ./agent.sh > plan.json

# An agent for this one test, without a screen: lines of JSON, words on stderr, the summary last. Ends with 1 where
# something is left for a person. Without --batch a screen shows the plan, asks, and watches.
selftest-tui run --batch tests/test_tax.py --agent-command ./agent.sh > run.jsonl

# The same on the screen: the plan, a yes, then every test, live. `q` leaves and the run goes on; a plain
# `selftest-tui` in this repository is back at it.
selftest-tui run --max-running 1 --agent-command ./agent.sh

# A claim is verified when it arrives, in a sandbox here: this agent says that its test passes, and it does not.
selftest-tui run --batch tests/test_tax.py --agent-command ./liar.sh --verify-on-arrival > liar.jsonl || test $? = 1

# Every night, from cron or CI: no run starts while a pull request of an earlier one is open (gh is asked), or while
# another scheduled run goes on. It is skipped then: a summary with `skipped`, and 0. docs/every-day.md has the recipes.
selftest-tui run --batch --scheduled tests/test_tax.py --agent-command ./agent.sh > night.jsonl

# Tests that their last three agents found green and left alone rest for the next five runs, unless something that affects
# them changes. They are listed apart, with the reason; --no-rest gives them an agent all the same.
selftest-tui run --dry-run --json --set rest_after=3 --set rest_for=5 --no-rest --agent-command ./agent.sh > plan.json

# Agents on this machine are verified anyway, those elsewhere only where it is set; this leaves it out.
selftest-tui run --dry-run --json --agent-command ./agent.sh --no-verify-on-arrival > plan.json

##################################################
# Filling in the tutorial: an agent for each heading
##################################################

# What would start. An agent may change nothing but the blocks beneath its heading.
selftest-tui draft --dry-run --agent-command ./drafter.sh

# For one heading, of which a part is enough, from another commit and another file; with limits, as for a run.
selftest-tui draft add --dry-run --json --base HEAD~1 --tutorial tour.sh --agent claude --no-smoke --timeout 600 --budget-usd 5 > plan.json

# Where and how many at once, as for a run too.
selftest-tui draft --dry-run --json --on local --transfer worktree --env API_KEY --max-running 1 --launch-rate 0.5 --on-cluster pause --agent-command ./drafter.sh > plan.json

# Without a screen: lines of JSON, the proposed blocks last. Nobody has decided about them, so it ends with 1.
selftest-tui draft --batch adding --agent-command ./drafter.sh > draft.jsonl || test $? = 1

# Decide about the newest draft by a file, and publish what is kept: one commit on a branch that is checked out nowhere.
selftest-tui draft --batch --run --decisions decisions.json --onto tour > decided.jsonl

##################################################
# Runs
##################################################

# The runs of this repository and of others, with what is open in each; and as JSON.
selftest-tui runs
selftest-tui runs --json > runs.json

# One of them on the screen, also when it has ended. `q` leaves it and says the way back.
selftest-tui runs 20261120

# Two runs compared, the earlier one first: tests that are newly red, newly flaky, mended, slower, dearer, new or gone. It
# ends with 1 where a test is worse. Without names: the newest run and the one before it; and as JSON.
selftest-tui runs --compare 20261119 20261120
selftest-tui runs --compare --json > compared.json

# The outcomes in a folder, also those that another program left.
selftest-tui runs outcomes

# Go on where a run stopped, after a crash too. One that has ended stays as it is.
selftest-tui resume --batch > resumed.jsonl

# The same, and watch it on the screen.
selftest-tui resume

# Answer an agent that is blocked: it goes on in a new attempt, from its commits so far. Neither it nor its run need be
# running; `--batch` waits until the run has ended again.
selftest-tui answer --batch "Round half up." tests/test_tax.py::test_tax > answered.jsonl

# One answer, here from a file, to all agents that ask the same. They are named first, and each goes on.
selftest-tui answer --alike --yes --run 2026 - tests/test_tax.py::test_tax < answer.md

# End a run: its agents are emptied and stopped, the rest is not started.
selftest-tui stop

##################################################
# From many branches to one
##################################################

# Two branches on the screen, as one line: `y` keeps, `x` reverts, `z` undoes, `P` publishes; `q` leaves it as it is.
selftest-tui review --base main ada bob

# What was decided there, done again without a screen: on another machine, or in CI.
selftest-tui review --batch --base main ada bob --decisions .selftest/runs/review-*/decisions.json --publish kept

# What would the branches of two agents be as one line? 1 says that something is undecided or held.
selftest-tui review --batch --base main ada bob > review.jsonl || test $? = 1

# Decide: keep everything, and publish it as one new branch.
echo '{"default": "keep"}' > decisions.json
selftest-tui review --batch --base main ada bob --decisions decisions.json --publish fixes

# In CI: tests are kept by their kind, but never one that weakens a test. 1 says that the fixes are still undecided.
echo '{"kinds": {"test": "keep", "docs": "keep", "build": "keep"}}' > decisions.json
selftest-tui review --batch --base main ada bob --decisions decisions.json --publish tests || test $? = 1

# Shape the commits: split a file off one change, squash two others into one commit, and write a message anew.
printf '{"default": "keep", "splits": {"%s": [{"files": ["docs/use.md"]}]}, "squash": [["%s", "%s"]], "messages": {"%s": "Tidy up"}}' $(git rev-parse zoe ada bob zoe) > decisions.json
selftest-tui review --batch --base main ada bob zoe --decisions decisions.json --publish shaped

# The same on the screen: `*` selects a hunk, `%` splits, `space` marks and `(` squashes, `^w` opens the message in
# the editor; `z` undoes each.
selftest-tui review main..zoe

# A branch on its own keeps its order; one commit of it is left out here.
echo "{\"default\": \"keep\", \"items\": {\"$(git rev-parse ada)\": \"revert\"}}" > decisions.json
selftest-tui review --batch main..ada --decisions decisions.json --publish less

# Let agents resolve the conflicts. Each gets both sides, their intents and tests; its answer is used where it keeps both
# sides and their tests pass with it. The settings of runs say which agents; 1 says that changes are undecided.
selftest-tui review --batch --integrate --base main ada eve --set agent=command --set agent_command=./integrator.sh > review.jsonl || test $? = 1

# One text instead of many that say the same: agents write it, and it joins their row, where you choose it or not.
selftest-tui review --batch --integrate --texts --base main ada bob eve --set agent=command --set agent_command=./integrator.sh > review.jsonl || test $? = 1

# What the newest run of this repository brought back, as one line.
selftest-tui review --batch > review.jsonl || test $? = 1

# Agents that are there, whoever started them: their branches are fetched from wherever they work.
selftest-tui review --batch --agents ada bob > review.jsonl || test $? = 1

# Where does a published commit come from? Its trailers name the run, the agents, their tests, and the verdict.
selftest-tui review --batch main..ada --decisions decisions.json --publish fixes > review.jsonl
git log -1 --format='%(trailers:key=Selftest-Agent,key=Selftest-Verified)' fixes

# Published without these trailers.
selftest-tui review --batch main..ada --decisions decisions.json --publish plain --set publish_trailers=false

# Publish what is kept, and open a pull request of it with gh.
selftest-tui review --batch main..ada --decisions decisions.json --publish fixes --pr

# Onto a newer main, and with the whole test suite run again before the branch is written, in two processes.
selftest-tui review --batch main..ada --onto newer --decisions decisions.json --publish checked --verify --all --jobs 2

# Which claims hold? The tests of both branches, run again on what would come of them: in a sandbox, on no branch of
# yours. 1 says that something is red, flaky or unknown; what was run once for a tree is not run again.
selftest-tui verify --base main ada bob

# The whole test suite, on what is kept; as lines of JSON, one for each run of a test and each verdict.
selftest-tui verify --batch --base main ada bob --decisions decisions.json --all > verified.jsonl

# As one JSON document, of agents that are there, onto a newer main.
selftest-tui verify --json --agents ada bob --onto newer --jobs 1 > verified.json || test $? = 1

# Changes that say the same are one row, and one of its texts is applied. This runs the tests on the other texts too; the
# best verdict chooses, where nobody did, when the review is opened again.
selftest-tui verify --json --texts --base main ada eve > texts.json || test $? = 1

# Another language: any runner that writes JUnit XML to {junit}, in an environment that a command of the project makes, in
# the sandbox too, and anew only when a lock or a manifest changes.
selftest-tui verify --base main ada --set setup_command="sh install.sh" --set verify_command="./check.sh {junit}"

# Verified, and published only if the tests of exactly what is published pass. 4 says that they do not, and that no
# branch was written; 1 that something else is undecided or red.
selftest-tui review --batch --base main ada bob eve --decisions decisions.json --publish good --require-verified > review.jsonl

# The same on another machine that mngr knows, or on modal: trees go there, results come back, and nothing stays there.
selftest-tui verify --base main ada bob --on box.pool

##################################################
# Recordings
##################################################

# Record a tmux session, of an agent or any, into build.cast until it ends or Ctrl-C. Runs record theirs anyway.
selftest-tui record build

# The same for several, without a word, into a folder that is there; what was made is the answer.
selftest-tui record --batch build watch --to recordings > recorded.json

# What was made, as one JSON document.
selftest-tui record --json build > recorded.json

# Play a recording, of a file or of an agent by its name: space plays, ← → wind, / searches, ] is the next mark.
selftest-tui replay build.cast

# One moment of it, as it was on the screen: as text, and as a picture of its end.
selftest-tui replay build.cast --at 0:02 --format text > then.txt
selftest-tui replay build.cast --format svg > end.svg

##################################################
# The report
##################################################

# The newest run of this repository as one folder of pages, which opens offline in any browser. A run writes it anyway.
selftest-tui report --open

# The report of branches, by decisions that were made elsewhere, onto a newer main; and all of it as one JSON document.
selftest-tui report --base main ada bob --onto newer --decisions decisions.json --json > report.json

# The report of agents that are there.
selftest-tui report --batch --agents ada bob > report.jsonl

##################################################
# Search
##################################################

# Search everything that agents did, over all runs of this repository: words, or the beginnings of words. Each hit
# comes with the command that opens its place.
selftest-tui search coupon

# A path or a test id as it is written, only what was on terminals; 1 where nothing is found, as grep.
selftest-tui search 'test_login.py::redirect' --kind terminal > places.txt || test $? = 1

# A regular expression over every line of one run, at most five hits, as JSON.
selftest-tui search --regex 'port 4[0-9]+' --run 20261121 --limit 5 --json > hits.json

##################################################
# For programs
##################################################

# JSON Schema of everything that --json and --batch print.
selftest-tui schema > selftest-tui.schema.json

##################################################
# The demo
##################################################

# Scripted agents in a world of their own, on the screen: no model, no key, no network. `q` ends all of it.
selftest-tui demo

# Their run as lines of JSON, until all have ended. Its status is 1, since work for a person is left by design.
selftest-tui demo --batch > run.jsonl || test $? = 1

# The same with the real Claude Code, on a scripted model of this machine: no key, no network. It must be installed.
selftest-tui demo --agent claude --batch > run.jsonl || test $? = 1

# Leave the demo's world, to look at it with tmux, mngr and git.
selftest-tui demo --batch --agents 1 --keep > run.jsonl || test $? = 1

# What such a demo, or one that was killed, left behind. Looking alone ends with 1 where there is something.
selftest-tui sweep || test $? = 1

# The same for a program: every name of it.
selftest-tui sweep --json > leftovers.json || test $? = 1

# Remove it without being asked.
selftest-tui sweep --yes

# Remove what one run left; then what all ended runs and reviews of this repository left. Other repositories and demos
# are not touched.
selftest-tui sweep --yes 20261120
selftest-tui sweep --yes --here
