"""The right half of the fleet screen."""
