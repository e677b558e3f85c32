"""Draw the results of `peers.py`."""


def draw(result, path):
    raise ImportError("todo")
