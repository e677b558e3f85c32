"""Contraction of a cell: the round in which each segment of its branches is eliminated."""

import numpy as np

import clhines
from clhines import draw
from clhines.plan.by_segment.schedule import Contraction, contract, segments

cable = clhines.discretise(clhines.sample_cells()[3], max_length=20)
forest = clhines.Forest(cable.parent)
trees = forest.trees
cut = segments(trees, most=4)
rounds = contract(cut.parent)
number = rounds.round.astype(float)
number[rounds.round == Contraction.LEAF] = 0  # leaves go first
number[rounds.round >= 0] += 1
kept = rounds.round == Contraction.KEPT
number[kept] = number[~kept].max() + 1  # what is left at the root

values = np.empty(cable.num_nodes)
values[trees.order] = np.repeat(number, cut.length)
height, most = forest.heights[0], int(number.max())
title = f"{cable.num_nodes} nodes, {len(cut.length)} segments: height {height}, {most} rounds"
draw.plot_morphology(cable, values, "round", [title], path="contraction_rounds.png")
