"""The tutorial screen."""
