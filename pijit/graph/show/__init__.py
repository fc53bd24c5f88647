"""A graph for people: as Python, as a picture, and as a page for notebooks."""
