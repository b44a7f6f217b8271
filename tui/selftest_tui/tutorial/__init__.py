"""The tutorial's screen."""
