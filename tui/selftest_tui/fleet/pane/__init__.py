"""The right half of the fleet's screen."""
