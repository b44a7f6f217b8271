"""The changes of a review: collected from branches, classified, and ranked."""
