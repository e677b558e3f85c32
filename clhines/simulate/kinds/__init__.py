"""Everything a template needs to know about the instances of one mechanism.

`spec`: facts and source; `calls`: the calls that templates print; `layouts`: where values lie.
"""
