"""State of a run: its values on the device, files, copies.

`arena` names parts of one array on the device. `chunk`: what a run has found in some steps.
`decisions`: what no partition of a network may change, made once. `saved`: files, checked against
`Model.schema`. `changes`: values set on the
device. `variables`: everything that changes in the reference, for copies, too; `host_grid`: its
sums of events in whole steps. `sources`: tables of events to instances, and bins of a step.
`plays`: values that are played between
events. `ranges`: the largest number of a precision.
"""
