<%page args="spec"/>\
<%
    M = spec.segment
    points = bool(spec.loop.apart)
    together = spec.units > 1 and spec.ptx   # cells of a work-group
    bits = spec.loop.bits
    rows = f"(volatile __global {bits} *)shared + (long)number * {4 * spec.most_lists * spec.warp}"
%>\
## Steps of whole cells, mechanisms node by node. Nodes with the same density mechanisms are in lists, a warp each
## (clhines/simulator/gpu/lists.py). A lane advances all mechanisms at its node: it ends the step before, then does
## events and currents, and stores the node's d and b in W and A. Then a lane per segment eliminates and solves. States
## are in the lists' lines, in local memory if they fit, else in global memory. A launch goes through the lists once
## more than it has steps, to end the last step. If instances send each other events within a step, first all nodes end
## the step before, then events come layer by layer, then currents. With extracellular layers, `potentials` is how many
## potentials a column has: a node inside the cell and the nodes in the layers around it.
${part("simulator/common/epoch_title")}\
// Nodes with the same density mechanisms are in lists, a warp each: a lane advances the states in all
// mechanisms at its node, and stores the node's d and b before the elimination in W and A.
${part("simulator/common/epoch_functions")}
${part("simulator/common/runaway")}\
${part("simulator/common/epoch_macros")}\
${part("simulator/common/diffusing_rows") if spec.diffusing_rounds else ""}\
// Before the next launches: make the events that have been sent visible to their targets.
__kernel void publish(${signature(spec, "publish")})
{
    for (int k = get_global_id(0); k < num_sources; k += get_global_size(0))
        ints[event_count + k] = ints[event_live + k];
}

__kernel${spec.required_size}
void advance(${signature(spec, "advance")})
{
% if spec.in_steps and not spec.samples:
#define num_mem 0   // instances record nothing: no instructions for it
% endif
${part("simulator/common/epoch_lane")}\
    const bool used = lane < (${spec.lane_counts.read("lanes", "mine.s3")});
    // numbers for a lane's segment, packed while mechanisms need the registers
    int counts = mine.s3, family = lane < (${spec.lane_counts.read("inner_lanes", "mine.s3")}) ? children[mine.s2 + lane] : 0;
    int2 me = used ? vload2(mine.s2 + lane, links) : (int2)(${spec.link.write(parent="NONE")}, ${spec.at_elimination.write(round="NONE")});

${part("simulator/common/rate_constants")}\
    const int warp = lane / ${spec.warp}, in_warp = lane - warp * ${spec.warp};
${part("simulator/common/epoch_local")}\
    // index of the last node in the parent segment, minus the parent
    const int over = ${spec.link.read("parent", "me.x", "NONE")};
    const int top_row = over == NONE ? 0 : rows_here[(${spec.link.read("length", "links[2 * (mine.s2 + over)]")}) - 1];
% for j in range(0 if spec.potentials else M):
    real a${j} = 0, w${j} = 0, e${j} = 0;
% endfor
    const int8 home = present ? vload8(number, homes) : (int8)(0);
% if spec.potentials:
    // each column's row of factors
    __local int all_rows_of[UNITS * ${spec.chip.num_columns}];
    __local int *row_here = all_rows_of + at * ${spec.chip.num_columns};
    for (int k = lane; k < mine.s1 / ${spec.potentials}; k += LANES) row_here[k] = row_of_column[home.s0 + k];
% else:
    __global const real *restrict tie_of = all_tie + home.s0;
% endif
% if spec.local_lines:
    __local real local_states[UNITS * ${spec.local_lines * spec.warp}];
% endif
% if not spec.potentials:
    const real my_tie = used ? all_up[home.s1 + lane] : (real)0;   // u between the segment and its parent
% endif
% if spec.in_steps:
    const bool has_root = lane < (${spec.lane_counts.read("inner_lanes", "counts")}) && (${spec.at_elimination.read("round", "me.y", "NONE")}) == NONE;
    const real my_threshold = has_root ? mem[detector_threshold + soma_detector[mine.s6]] : (real)0;
% endif
${part("simulator/common/epoch_records_begin")}\
    int fault = 0;
% if points and spec.loop.waiting:
<% count = len(spec.loop.waiting) %>\
    // how many instances of each kind wait for their events
    __local int all_waiting[UNITS * ${count}];
    __local int *waiting = all_waiting + at * ${count};
    if (lane < ${count}) waiting[lane] = 0;
% endif
% for k, text in enumerate(spec.once):
    if (lid / ${spec.warp} == ${k % (spec.work_group // spec.warp)}) {
${text}\
    }
% endfor
% if spec.ends_later and spec.arena.second_order_currents:
    // the change of v, which ends the step before
    for (int k = lane; pending && present && k < mine.s1; k += LANES)
        A(k) = seen_v[2 * num_places + mine.s0 + k];
% endif
    barrier(CLK_LOCAL_MEM_FENCE);

    // states in the cell's instances, from mem
#define MOVE(held, kept) held = kept
${part("simulator/common/arena_states")}\
#undef MOVE

% if points:
    // instances in the cell with a lane each
% for kind in spec.loop.apart:
% if spec.parts > 1:
    const int first_of_${kind.number} = ints[first_${kind.number} + home.s5], last_of_${kind.number} = ints[first_${kind.number} + home.s6];
    const int each_${kind.number} = (last_of_${kind.number} - first_of_${kind.number} + ${spec.parts - 1}) / ${spec.parts};
    const int begin_${kind.number} = min(first_of_${kind.number} + part * each_${kind.number}, last_of_${kind.number});
    const int end_${kind.number} = min(begin_${kind.number} + each_${kind.number}, last_of_${kind.number});
% else:
    const int begin_${kind.number} = present ? ints[first_${kind.number} + home.s5] : 0;
    const int end_${kind.number} = present ? ints[first_${kind.number} + home.s6] : 0;
% endif
% endfor
% endif
% if spec.parts > 1:
    // Readers wait until a number's last bit is their step's `phase` (see below). It is 0 in the first two
    // steps, so numbers begin with a 1.
    for (int q = home.s2 + ${spec.loop.first_list}; q < home.s3; q += ${spec.lanes // spec.warp * spec.parts})
        for (int k = 0; k < 4; k++) (${rows})[(k * ${spec.most_lists} + q - home.s2) * ${spec.warp} + in_warp] = 1;
% for k in [kind.number for kind in spec.loop.apart if kind.has("current")]:
    for (int j = begin_${k} + lane; j < end_${k}; j += LANES)
        for (int k = 0; k < 2; k++) ${spec.loop.turned("mem", f"slot_i_{k} + k * count_{k} + j")} = ${spec.loop.turned("mem", f"slot_g_{k} + k * count_{k} + j")} = 1;
% endfor
${part("simulator/common/epoch_meeting", 4)}\
% endif
% for kind in spec.leading:
    if (present && lane == 0 && mine.s6 == last_cell_${kind.number}) {
        const int j = last_${kind.number};
% for name in kind.last:
        ${kind.places.turn(name, f"({spec.loop.opens}) % {spec.turns}")} = ${kind.places.state(name)};
% endfor
    }
% endfor
    int step = first_step;
    // steps of the launch begin here
    do {
% if together:
        // A group's cells stay together, here and below: the instruction cache only holds a small part of a step,
        // and so a warp finds there what another warp has fetched.
        GATHER();
% endif
% if points:
${part("simulator/common/arena_points_end")}\
% endif
% if spec.parts > 1:
        // Steps alternate between two sets of d and b, as no work-group is two steps ahead. A number's last bit is
        // the phase, which flips each time a set is written: readers wait for it, as a fence would wait for all writes.
        const int turn = step - first_step;
        const ${bits} phase = turn / 2 % 2;
        volatile __global ${bits} *shared_rows = ${rows} + turn % 2 * ${2 * spec.most_lists * spec.warp};
% endif
${part("simulator/common/arena_lists")}\
        if (step == first_step + num_steps) break;
% if together:
        GATHER();
% endif
% if points:
${part("simulator/common/arena_points")}\
% endif
% if together:
        GATHER();
% endif
% if spec.parts > 1:
        // each work-group has done a part of the cell's lists; it reads all parts' rows, and solves the whole cell
        MEET();
<% rounds = range(-(-spec.most_lists * spec.warp // spec.lanes)) %>\
% for r in rounds:
        const int row_${r} = lane + ${r} * LANES, place_${r} = home.s2 * ${spec.warp} + row_${r} < home.s3 * ${spec.warp} ? node_places[home.s2 * ${spec.warp} + row_${r}] : -1;
        ${bits} w_${r} = phase, a_${r} = phase;
% endfor
        bool waits;
        do {
% for r in rounds:   # all reads are in flight together
            if (place_${r} >= 0) {
                w_${r} = shared_rows[row_${r}];
                a_${r} = shared_rows[${spec.most_lists * spec.warp} + row_${r}];
            }
% endfor
            waits = ${" || ".join(f"w_{r} % 2 != phase || a_{r} % 2 != phase" for r in rounds)};
        } while (waits);
% for r in rounds:
        if (place_${r} >= 0) {
            W(place_${r}) = as_${spec.real}(w_${r} - phase);
            A(place_${r}) = as_${spec.real}(a_${r} - phase);
        }
% endfor
% if points:
${part("simulator/common/arena_slots")}\
% endif
% endif
        MEET();
% if spec.ptx:   # else the compiler would unpack these earlier, and keep them in registers or spill them
        __asm__ volatile("" : "+r"(me.x), "+r"(me.y), "+r"(family), "+r"(counts));
% endif
${part("simulator/common/segment_lane", 8)}\
        const int column = is_inner ? lane : lane - inner;
        __local const int *row = rows_here + (is_inner ? 0 : ${M});
% if spec.potentials:
${part("simulator/common/columns")}\
% else:
        // the node with an edge to the parent segment's last node
        const int tied_place = used ? column + row[is_leaf ? length - 1 : 0] : CAPACITY - 1;
        const int top_place = parent == NONE ? tied_place : parent + top_row;
${part("simulator/common/segment_places", 8)}\
${part("simulator/common/segment_sweep")}\
${part("simulator/common/segment_rounds")}\
${part("simulator/common/segment_root")}\
${part("simulator/common/segment_back")}\
% endif
${part("simulator/common/epoch_records")}\
        MEET();
${part("simulator/common/epoch_whole_rows", meet="MEET()")}\
% if spec.points:
        // Pointers read the array for step % 2: voltages as this step begins, which are also those at the end of
        // the step before. The other array is written here. No cell reads it before the next barrier or launch.
        for (int k = lane; present && k < mine.s1; k += LANES) {
            seen_v[((step + 1) % 2) * num_places + mine.s0 + k] = V(k);
% if spec.ends_later and spec.arena.second_order_currents:
            seen_v[2 * num_places + mine.s0 + k] = A(k);
% endif
        }
## PoCL 3.0 crashes if the step loop ends without a barrier
        MEET();
% if spec.joins == 1:
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);   // the only work-group has all cells
% elif spec.joins:
        // barrier for all work-groups
${part("simulator/common/epoch_meeting", 8)}\
% endif
% endif
    } while (++step <${"" if spec.ends_later else "="} first_step + num_steps);

    for (int k = lane; ${"part == 0" if spec.parts > 1 else "present"} && k < mine.s1; k += LANES) all_v[mine.s0 + k] = V(k);
    if (${"part == 0 && " if spec.parts > 1 else ""}(fault > 0 ? failed[mine.s6] <= 0 : fault && !failed[mine.s6]))
        failed[mine.s6] = fault;
#define MOVE(held, kept) kept = held
${part("simulator/common/arena_states")}\
#undef MOVE
}
