<%page args="spec"/>\
<%
    W, e = spec.warp, spec.extended
    kinds = spec.blocks
    pointer = "v[{}]"
    old = {"v": "v", "dt": "dt", "t begin": "old_begin", "t now": "old_end", "t end": "old_end", "pointer": pointer}
    new = {"v": "v", "dt": "dt", "t begin": "t_begin", "t now": "t_mid", "t end": "t_end", "pointer": pointer}
    noise = {k.number: {**new, "noise": f"normal(seed, (ulong)(number_{k.number} + j), (ulong)step)"} for k in kinds}
    ends = [block for block in ("advance", "after_solve", "before_step") if any(k.has(block) or (k.held and block == "advance") for k in kinds)]
    nets = [k for k in kinds if k.has_net]
%>\
<%def name="current(kind, indent)">\
${kind.call("current", noise[kind.number], indent)}\
% if kind.asks("current", "i"):
<% space = " " * indent %>\
% if kind.kind == "density":
${space}sum_i += i_i;
${space}sum_g += g_g;
% else:
${space}point_i += i_i;
${space}point_g += g_g;
% endif
% endif
</%def>\
<%def name="copied(kind, block, when)">\
% if kind.lined and kind.changed(block):
                if (${when}) {   // for what is recorded
% for name in kind.changed(block):
                    ${kind.in_memory(name)} = ${kind.kept("state", name)};
% endfor
                }
% endif
</%def>\
        // lists of nodes: the end of the step before, then events and currents; after the last step no more of these
        const bool opens = step == first_step, closes = step == first_step + num_steps;
        const double t_begin = step_begin[min(step, first_step + num_steps - 1) - first_time];
        const double t_mid = t_begin + half_dt, t_end = t_mid + half_dt;
        const double old_begin = step_begin[max(step - 1, first_step) - first_time];
        const double old_end = old_begin + half_dt + half_dt;
        for (int q = home.s2 + warp; q < home.s3; q += ${spec.lanes // W}) {
            const int place = node_places[q * ${W} + in_warp];
            if (place < 0) continue;
            __global const int *list = node_lists + q * ${spec.list_width};
            __global const real *value = node_values + (long)list[1] * ${W} + in_warp, *p;
            __global const int *member = node_members + (long)list[4] * ${W} + in_warp, *m;
            __global real *first_state = node_states + (long)(home.s4 + list[2]) * ${W} + in_warp, *state;
% if spec.local_lines:
            __local real *first_local = local_states + (unit * ${spec.local_lines} + list[3]) * ${W} + in_warp, *local_state;
% endif
            ${spec.begin_lists}
% if spec.num_scalars:
            __global const real *scalar = node_scalars + q * ${spec.num_scalars};
% endif
            const int bits = list[0], word = node_active[q * ${W} + in_warp];
            const int a = home.s5 + (word & ${hex(spec.special - 1)});   // number of the active node
            const bool is_active = word >= 0, special = is_active && (word & ${hex(spec.special)});
            const real v = V(place);
            real sum_i = 0, sum_g = 0, point_i = 0, point_g = 0;
% for ion in e.ions:
            real sum_i${ion} = 0, slope_i${ion} = 0;
% endfor
% if e.played:
            if (special && !opens)
                for (int r = ints[first_played + a]; r < ints[first_played + a + 1]; r++)
                    if (ints[played_continuous + r]) play(r, old_end, mem, clock, ints, regions);
% endif
% for block in ends:
% for kind in kinds:
% if kind.has(block) or (block == "advance" and kind.held):
${spec.opening(kind)}\
% if kind.held and block == "advance":
% for name in kind.states:
                real s_${name} = ${kind.line(name)};
% endfor
                if (!opens) {
% if kind.has("advance"):
${kind.call("advance", old, 20)}\
% endif
% for name in kind.changed("advance"):
                    ${kind.line(name)} = s_${name};
% endfor
                }
                if (!closes) {
${current(kind, 20)}\
                }
% else:
                if (!opens) {
${kind.call(block, old, 20)}\
                }
% endif
${copied(kind, block, "num_mem && !opens")}\
${spec.closing(kind)}\
% elif kind.number < len(kinds) - 1:
            ${spec.skipping(kind)}
% endif
% endfor
            ${spec.begin_lists}
% endfor
            if (special && !opens) {
                for (int r = ints[first_detector + a]; r < ints[first_detector + a + 1]; r++) {
                    const int above = v > mem[detector_threshold + r];
                    if (above && !ints[detector_above + r]) {
                        const int source = ints[detector_source + r];
                        const int count = ints[event_live + source]++;
                        clock[ring + ints[ring_first + source] + count % ints[ring_size + source]] = old_end + 1e-10;
                        const int k = atomic_inc(spike_count);
                        if (k < capacity) {
                            spike_source[k] = source;
                            spike_time[k] = old_end;
                        }
                    }
                    ints[detector_above + r] = above;
                }
            }
            if (num_mem && is_active && !opens)
                for (int r = mem_first[a]; r < mem_first[a + 1]; r++)
                    mem_rows[(long)(record_row + step - 1 - first_step) * num_mem + mem_column[r]] = mem[mem_index[r]];
            if (closes) continue;
% if nets:
            ${e.v_space} const real *own_v = &V(place);
% for kind in kinds:
% if kind.has_net:
${spec.opening(kind)}\
                events_of_${kind.number}(j, a, t_begin, t_mid, dt, capacity, own_v, spike_count, spike_source,
                         spike_time, mem, clock, ints, regions);
${spec.closing(kind)}\
% elif kind.number < len(kinds) - 1:
            ${spec.skipping(kind)}
% endif
% endfor
            ${spec.begin_lists}
% endif
% if e.played:
            if (special)
                for (int r = ints[first_played + a]; r < ints[first_played + a + 1]; r++)
                    play(r, t_mid, mem, clock, ints, regions);
% endif
% if any(kind.has("before_breakpoint") for kind in kinds):
% for kind in kinds:
% if kind.has("before_breakpoint"):
${spec.opening(kind)}\
${kind.call("before_breakpoint", {**new, "t now": "t_mid"}, 16)}\
${copied(kind, "before_breakpoint", "num_mem")}\
${spec.closing(kind)}\
% elif kind.number < len(kinds) - 1:
            ${spec.skipping(kind)}
% endif
% endfor
            ${spec.begin_lists}
% endif
% for ion in spec.nernst:
            if (is_active && ints[advances_${ion} + a]) to_nernst_${ion}(mem, regions, a);
% endfor
% if any(kind.has("current") and not kind.held for kind in kinds):
% for kind in kinds:
% if kind.has("current") and not kind.held:
${spec.opening(kind)}\
${current(kind, 16)}\
${copied(kind, "current", "num_mem")}\
${spec.closing(kind)}\
% elif kind.number < len(kinds) - 1:
            ${spec.skipping(kind)}
% endif
% endfor
% endif
% if e.ions:
            if (is_active) {
                const bool shown = num_mem || step == first_step + num_steps - 1;
% for ion in e.ions:
                ${f"" if ion in spec.currents_read else "if (shown) "}mem[ion_i${ion} + a] = sum_i${ion};
                if (shown) mem[ion_di${ion} + a] = slope_i${ion};
% endfor
            }
% endif
            const real factor = value[0], right = value[${2 * W}] * v${f" + value[{3 * W}]" if spec.inflow else ""};
            W(place) = value[${W}] + (factor * sum_g + point_g);
            A(place) = right + (factor * (sum_g * v - sum_i) + (point_g * v - point_i));
        }
