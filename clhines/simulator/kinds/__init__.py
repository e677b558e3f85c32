"""Everything a template needs to know about the instances of one mechanism.

`spec`: facts, source, the calls that templates print, samples; `layouts`: where values lie;
`diffusing`: where those lie that diffuse along cells.
"""
