"""Methods with one work-item per segment: successive nodes of a branch, 31 at most.

A segment without child segments is a *leaf*, any other an *inner* one. A cell above local memory is
cut into connected *pieces*. Eliminating a piece leaves its *kept* nodes: those on which other
pieces depend. The kept nodes of all pieces form the *reduced system* (a Schur complement), whose
solution gives all other values.
"""
