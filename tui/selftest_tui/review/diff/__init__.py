"""The diff view: layout, colours and painting."""
