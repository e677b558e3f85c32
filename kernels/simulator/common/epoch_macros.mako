<%page args="spec"/>\
## Part of the epoch_*.mako templates: work-group sizes; arrays by node in a cell (`held`, CAPACITY values each),
## in which a node's place is its index; barriers for all lanes in a cell (MEET) or in the work-group (GATHER).
#define WORK_GROUP ${spec.work_group}
#define LANES ${spec.lanes}             // lanes in a cell
#define UNITS ${spec.units}             // cells in a work-group
#define CAPACITY ${spec.capacity}       // values in the largest cell
#define NONE ${hex(spec.link.most("parent"))}       // no lane
% for i, name in enumerate(spec.chip.held):
#define ${name.upper()}(place) held[${i} * CAPACITY + (place)]
% endfor

// Barrier for all lanes in a cell.
% if spec.chip.in_warp:
#define MEET() __asm__ volatile("bar.warp.sync ${hex((1 << spec.warp) - 1)};" ::: "memory")
% elif spec.ptx and spec.units == 1:   # a variable number would reserve all barriers of a group
#define MEET() ${"" if spec.chip.alone else "if (unit < UNITS) "}__asm__ volatile("bar.sync 1, ${spec.lanes};" ::: "memory")
% elif spec.ptx:
#define MEET() if (unit < UNITS) __asm__ volatile("bar.sync %0, ${spec.lanes};" :: "r"(unit + 1) : "memory")
% else:
#define MEET() barrier(CLK_LOCAL_MEM_FENCE${" | CLK_GLOBAL_MEM_FENCE" if spec.far else ""})
% endif

% if spec.by_node:
// Barrier for all lanes in a cell, which then see each other's writes to global memory.
% if spec.ptx:
#define MEET_ALL() MEET()
% else:
#define MEET_ALL() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
% endif

% endif
// Barrier for all lanes in the work-group.
% if spec.ptx:
#define GATHER() __asm__ volatile("bar.sync 0;" ::: "memory")
% else:
#define GATHER() barrier(CLK_LOCAL_MEM_FENCE)
% endif

${part("solver/common/reciprocal")}
