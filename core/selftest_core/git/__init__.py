"""Git objects and merges without a checkout: object store, tree merges, diffs and patches."""
