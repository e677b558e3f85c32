"""Batches of cells."""

from bench import systems


def test_all_different_means_all():
    assert systems.batch(50, 64, 9, 50).trees.num_trees == 50
    assert systems.batch(50, 64, 9, 1).trees.num_trees == 1
