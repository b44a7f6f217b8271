"""Modal as a second witness beside mngr: sandboxes that are alive, how they ended, and what they cost."""
