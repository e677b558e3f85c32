"""What a run changes: its start, its values on the device, files, copies.

`start` executes INITIAL blocks; `arena` names parts of one array on the device. `chunk`: what a run
has found in some steps. `decisions`: what no partition of a network may change, made once. `saved`:
files, checked against `Model.schema`; `shapes` of its arrays. `changes`: values set on the device,
`spread` to instances.
Copies: `copies` of a state, `arena_copies` starts them once, `tiled` repeats them.
"""
