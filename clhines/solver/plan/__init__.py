"""Plans: a method applied to a forest gives schedules, layouts and costs, without a device.

Words: a *method* is a row of `METHODS`: a planning module, a template and a few options. A *plan*
is a method applied to a forest. *Natural order* is the caller's; *device order* is the plan's:
``packed[i] = natural[gather[i]]``, and -1 marks padding. A *block* is the cells of one work-group;
a *lane* is a work-item, or an element of a work-item's vector. A *template* is a list of trees that
several blocks have in common, with tables that they share; its *slots* are the cells of one block.
A *spec* is a frozen dataclass of everything that a kernel's template (in ``kernels/``) needs; it is
the cache key of the kernel.

Who owns what
    `kernel_spec`: `KernelSpec` (parameters of a kernel), `Word` (bit fields), `signature`.
    `templates`: renders a spec; the only caller of Mako. `export`: files for C programs. `plan`:
    `Limits` (properties of a device that plans use), `Part` (one kernel with its tables and
    launches) and `Plan`, and the combination of several plans. `methods`: `METHODS`, `make_plan`.
    `auto`: candidates and the cost model, fitted to `costs.json`. `layout`: gather, pack and
    unpack. `packing`: which cells share a block. `transforms`: other roots (`reroot`, for callers),
    split branches. The families, each with its schedules and layouts:

    - `by_cell`, a lane per cell: `cell`; chains side by side: `lanes`; right-hand sides: `many`
    - `by_chain`, a work-group per chain: `reduction`, which `auto` never takes
    - `by_branch`, a lane per branch: `levels`, `fine`, `fine_vector`
    - `by_segment`, a lane per segment of a branch: `contraction`, `room` (what fits) and `cut`,
      also for cells that exceed local memory

Four chains of three nodes, node j of all cells side by side; and one cell by branches:

>>> import numpy as np
>>> from clhines import Forest, make_plan
>>> chains = Forest.from_parents([np.array([-1, 0, 1])] * 4)
>>> make_plan(chains, "flat").gather.tolist()
[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
>>> make_plan(chains, "interleaved").gather.tolist()
[0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
>>> make_plan(chains, "block_interleaved", block_size=2).gather.tolist()
[0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
>>> fork = make_plan(Forest(np.array([-1, 0, 1, 1])), "fine")
>>> fork.parts[0].spec.template, fork.parts[0].statistics["levels"]
('solver/by_branch/fine', 2)

`Plan.describe` and `Plan.parts[k].statistics` show a plan's cost without a device: dependent steps,
idle lanes, padding and bytes; ``docs/layouts.py`` draws the layouts.

To add a method: a row in `methods.METHODS`, a planning module ``by_X/NAME.py`` whose function
returns a `Plan`, and ``kernels/solver/by_X/NAME.mako``. Its spec states the template's name, all
numbers and switches, and the kernel's parameters, which the template prints:
``${signature(spec)}``. To let ``auto`` choose it: a row in `auto.CANDIDATES`, and a new fit
(``bench/notes/auto.md``).
"""
