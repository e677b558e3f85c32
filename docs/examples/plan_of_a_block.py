"""The schedule of a block: which lane works on which branch when, and where all wait."""

import clhines

cables = [clhines.discretise(cell) for cell in clhines.sample_cells()]
forest = clhines.Forest.repeat([cable.parent for cable in cables], 6000)
plan = clhines.make_plan(forest, "fine")
print(plan.describe())
plan.plot("plan_of_a_block.png")
