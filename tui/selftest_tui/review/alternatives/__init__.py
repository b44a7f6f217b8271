"""The texts of one row: changes that say the same, side by side."""
