"""What a run changes: its start, its values on the device, files, copies.

`start` executes INITIAL blocks; `arena` names parts of one array on the device. `chunk`: what a run
has found in some steps. `decisions`: what no partition of a network may change, made once. `saved`:
files, checked against `Model.schema`; `shapes` of its arrays. `changes`: values set on the device,
`spread` to instances.
Copies: `copies` has the state of all from that of one, `tiled` repeats arrays on the device.
"""
