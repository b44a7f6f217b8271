"""Git objects and merges without a checkout: the object store, tree merges, diffs and patches."""
