#!/bin/sh
# Runs an actor as its child, so that the agent keeps a process of this name, and leaves the actor's exit status
# where the fleet looks for it: mngr itself records none, and would call a crash and a success both DONE.
out=.selftest/out
mkdir -p "$out" && echo '*' > .selftest/.gitignore
rm -f "$out/exit_status"
"$@"
status=$?
echo "$status" > "$out/exit_status.part" && mv "$out/exit_status.part" "$out/exit_status"
exit "$status"
