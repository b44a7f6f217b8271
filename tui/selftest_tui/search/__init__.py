"""The search screen: everything that agents did, over all runs."""
