"""What a run changes: its start, its values on the device, files, copies.

`state`: voltages, states and events on the device; `arena` names parts of one array. `start`
executes INITIAL blocks. `decisions`: what no partition of a network may change, made once.
`saved`: files, checked against `Model.schema`; `shapes` of its arrays. `changes`: values set on
the device, `spread` to instances.
Copies: `copies` of a state, `exact_copies` starts them once, `tiled` repeats them.
"""
