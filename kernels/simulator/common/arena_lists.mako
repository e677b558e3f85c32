<%page args="spec"/>\
## Part of epoch_by_node.mako: go through the lists of nodes. A warp takes one list after another, a lane (work-item)
## one of a list's nodes; list[0] to list[4] are a row of node_lists, see epoch_title.mako. First the lane ends the step
## before (phases 6 to 9: states, thresholds, records), except if no step is left to end (`opens`). Then it begins this
## step (phases 1 to 3: events, played values, currents), except after the launch's last step (`closes`). A node's d and
## b go to W and A, arrays on the chip, or to shared_rows in global memory if several work-groups share a cell.
<%
    W, e = spec.warp, spec.arena
    kinds = spec.loop.in_lists
    old, new = spec.loop.old, spec.loop.new
    noise = {k.number: {**new, "noise": f"normal(seed, (ulong)(number_{k.number} + j), (ulong)step)"} for k in kinds}
    def section_of(kind, block): return "begin" if block == "advance" and kind.held else "states" if block in of_states else "end"
    def takes(kind, block): return kind.has(block) or (block == "advance" and kind.held)
    ends = [block for block in ("advance", "diffuse", "after_solve", "before_step") if any(takes(k, block) for k in kinds)]
    of_states = [block for block in ends if block in ("advance", "diffuse")]
    recorded = [k for k in kinds if k.lined and any(k.changed(block) for block in ends)]
    nets = [k for k in kinds if k.takes_events]
    always = [k for k in nets if k.watches or (e.grid and k.summed)]   # checked in each step
    second = bool(e.ions) and e.second_order_currents
    earlier = [k for k in kinds if k.has("before_breakpoint")]
    later = [k for k in kinds if k.has("current") and not k.held]
    apart = spec.loop.sums_apart
    now = tuple(ion for ion in e.ions if ion not in apart)
    hot, cold = spec.loop.adding(now), spec.loop.adding(apart)
    given = [(hot[k.number], b) for k in kinds for b in (*ends, "before_breakpoint", "current") if k.has(b)]
    reads_a = bool(nets or spec.nernst or second or now) or any(k.reads_node(b) for k, b in given)
    own_b = f"value[{3 * W}] - value[{2 * W}] * v" if spec.inflow else "0"
    own_row = f"const real factor = value[0], own_d = value[{W}], own_b = {own_b};"   # `crowded`: read early
    last = "step == first_step" if spec.ends_later else "closes"   # this ends the last step of a launch
    def asks(some):   # condition: the list has any of the kinds
        return " || ".join(spec.loop.present(k) for k in some)
%>\
<%def name="current(kind, indent)">\
${hot[kind.number].call("current", {**noise[kind.number], "sums": True}, indent)}\
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
<%def name="copied(kind, blocks)">\
% for name in dict.fromkeys(name for block in blocks for name in kind.changed(block)):
% if name not in kind.unread:
                    ${kind.places.state(name)} = ${kind.line(name)};
% endif
% endfor
</%def>\
<%def name="seldom(kind, block, value)">\
<% names = [name for name in kind.changed(block) if name in kind.unread] %>\
% if names:
                if (!opens${"" if kind.outputs else f" && (num_mem || {last})"}) {
                    const int j = ${spec.loop.instance(kind)};
% for name in names:
                    ${kind.places.state(name)} = ${value}_${name};
% endfor
                }
% endif
</%def>\
<%def name="held(kind)">\
% for name in kind.states:
                real s_${name}${"" if name in kind.unread else f" = {kind.line(name)}"};
% endfor
% if kind.has("advance"):
<%
    changed = [name for name in kind.changed("advance") if name not in kind.unread]
    selects = spec.selects and kind.alone
%>\
% if selects:
% for name in changed:
                const real old_${name} = s_${name};
% endfor
${kind.call("advance", old, 16)}\
% for name in changed:
                ${kind.line(name)} = s_${name} = opens ? old_${name} : s_${name};
% endfor
% else:
                if (!opens) {
${kind.call("advance", old, 20)}\
% for name in changed:
                    ${kind.line(name)} = s_${name};
% endfor
                }
% endif
${seldom(kind, "advance", "s")}\
% for name in kind.shown:
                ${kind.places.state(name)} = s_${name};
% endfor
% endif
                {
${current(kind, 20)}\
                }
</%def>\
<%def name="end_of(kind, block)">\
% if kind.held and block == "advance":
${held(kind)}\
% else:
                if (!opens) {
${kind.call(block, old, 20)}\
${seldom(kind, block, "new_state")}\
                }
% endif
</%def>\
<%def name="for_each(some, text_of, known=0)">\
% for kind in spec.blocks:
% if kind in some:
% if not known or kind.kind != "density" or spec.loop.is_in(known, kind):
${spec.loop.opening(kind, known)}\
${text_of(kind)}\
${spec.loop.closing(kind)}\
% endif
% elif kind in kinds and kind.number < len(spec.blocks) - 1:
            ${spec.loop.skipping(kind)}
% endif
% endfor
</%def>\
<%def name="of_net(kind)">\
% if e.grid and kind.summed:
                take_sum_${kind.number}(j, a, t_mid, v, dt, incoming + (long)(step % slots) * num_targets,
                           scale_of_events, own_v, mem, clock, ints, regions);
% endif
% if kind.has_net and not kind.watches:
                instant due = clock[next_due + target_${kind.number} + j];
                if ((opens && looks) || due <= ${e.soon}) {   // as an epoch begins check all
% endif
% if kind.has_net:
                events_of_${kind.number}(j, a, t_begin, t_mid, dt, capacity, own_v, spike_count, spike_source,
                         spike_time, mem, clock, ints, regions);
% endif
% if kind.has_net and not kind.watches:
                    due = clock[next_due + target_${kind.number} + j];
                }
                node_is_due = fmin(node_is_due, due);
% endif
</%def>\
<%def name="of_breakpoint(kind)">\
${kind.call("before_breakpoint", new, 16)}\
% if kind.lined and kind.changed("before_breakpoint"):
                if (num_mem) {   // for records
${copied(kind, ["before_breakpoint"])}\
                }
% endif
</%def>\
<%def name="of_current(kind)">\
${current(kind, 16)}\
% if kind.lined and kind.changed("current"):
                if (num_mem) {   // for records
${copied(kind, ["current"])}\
                }
% endif
</%def>\
<%def name="of_sums(kind)">\
% for name in kind.in_lines:
                const real s_${name} = ${kind.line(name)};
% endfor
${cold[kind.number].call("current", noise[kind.number], 16)}\
</%def>\
<%def name="of_record(kind)">\
${copied(kind, ends)}\
</%def>\
        // node lists: end the step before, then begin this step; after the last step only end it
        const bool opens = step == ${spec.loop.opens}, closes = step == first_step + num_steps;
% if spec.turns:
        // GLOBAL variables' indices (the last instance sets them for all) in this step and in the step before
        const int turn_now = step % ${spec.turns}, turn_before = (step + ${spec.turns - 1}) % ${spec.turns};
% endif
% for sections in spec.loop.passes:
${part("simulator/common/arena_between", sections=sections)}\
        for (int q = home.s2 + ${spec.loop.first_list}; q < home.s3; q += ${spec.lanes // W * spec.parts}) {
            const int place = node_places[q * ${W} + in_warp];
            if (place < 0) continue;
            __global const int *list = node_lists + q * ${spec.loop.list_width};
            __global const real *value = node_values + (long)list[1] * ${W} + in_warp, *p;
            __global const int *member = node_members + (long)list[4] * ${W} + in_warp, *m;
            __global real *first_state = node_states + (long)(home.s4 + list[2]) * ${W} + in_warp, *state;
% if spec.local_lines:
            __local real *first_local = local_states + (unit * ${spec.local_lines} + list[3]) * ${W} + in_warp, *local_state;
% endif
            ${spec.loop.begin}
% if spec.num_scalars:
            __global const real *scalar = node_scalars + q * ${spec.num_scalars};
% endif
            const int bits = list[0] & ${hex(spec.mechanisms)};
% if spec.mixed:
            const int own = node_bits[q * ${W} + in_warp];   // mechanisms at the lane's node
% endif
% if e.ions:
            const bool shown = num_mem || step == first_step + num_steps - 1;   // ion currents may be read
% endif
% if reads_a:
            const int word = node_active[q * ${W} + in_warp];
% else:
            const int word = list[0] < 0 || ${"shown" if e.ions else "num_mem"} ? node_active[q * ${W} + in_warp] : -1;
% endif
            const int a = home.s5 + (word & ${hex(spec.special - 1)});   // index among active nodes (which have mechanisms)
            const bool is_active = word >= 0, special = is_active && (word & ${hex(spec.special)});
            const real v = V(place);
            ${own_row if spec.crowded else ""}
            real sum_i = 0, sum_g = 0, point_i = 0, point_g = 0;
% for ion in now:
            real sum_i${ion} = 0, slope_i${ion} = 0;
% endfor
% if "states" in sections:
            // phase 6: continuously played values, in the step before
% if e.played:
            if (special && !opens) {
                ${spec.loop.times("old", "mid", "end")}
                for (int r = ints[first_played + a]; r < ints[first_played + a + 1]; r++)
                    if (ints[played_continuous + r]) play(r, old_mid, old_end, mem, clock, ints, regions);
            }
% endif
% if second:   # currents of ions at the middle of the step
            if (is_active && !opens) {
% for ion in e.ions:
                ${"" if ion in spec.currents_read else "if (num_mem || closes) "}mem[ion_i${ion} + a] += mem[ion_di${ion} + a] * A(place);
% endfor
            }
% endif
            // phase 7: states, in the step before
% endif
% for block in ends:
<% some = [kind for kind in kinds if takes(kind, block) and section_of(kind, block) in sections] %>\
% if some:
% for number, known in enumerate(spec.classes if block == "advance" else ()):
            ${"else " if number else ""}if (bits == ${hex(known)}) {
${for_each(some, lambda kind: end_of(kind, block), known)}\
            }
% endfor
% if spec.classes and block == "advance":
            else {
% endif
${for_each(some, lambda kind: end_of(kind, block))}\
% if spec.classes and block == "advance":
            }
% endif
            ${spec.loop.begin}
% endif
% endfor
% if "end" in sections:
% if not spec.in_steps:
            if (special && !opens) {
                ${spec.loop.times("old", "end")}
                for (int r = ints[first_detector + a]; r < ints[first_detector + a + 1]; r++) {
${part("simulator/common/detect", 20, v="v", number="r", sent="event_live", end="old_end", step="step - 1")}\
                }
            }
% endif
            // phase 9: records
            if (num_mem && is_active && !opens) {
% if recorded:
                // copy states to where records read them
${for_each(recorded, of_record)}\
                ${spec.loop.begin}
% endif
                for (int r = mem_first[a]; r < mem_first[a + 1]; r++)
                    mem_rows[(long)(record_row + step - 1 - first_step) * num_mem + mem_column[r]] = mem[mem_index[r]];
            }
            if (closes) continue;
% endif
% if "begin" in sections:
            // phase 1: events
% if nets and not spec.layers:
            if (${asks(nets)}) {
                ${spec.loop.times("t", "mid")}
                if (is_active && ((opens && looks) || clock[node_due + a] <= ${e.soon}${" || " + asks(always) if always else ""})) {
                    ${e.v_type}own_v = ${"&V(place)" if e.one_v else spec.loop.seen};
                    instant node_is_due = INFINITY;
${for_each(nets, of_net)}\
                    ${spec.loop.begin}
                    clock[node_due + a] = node_is_due;
                }
            }
% endif
            // phase 2: played values
% if e.played:
            if (special) {
                ${spec.loop.times("t", "mid")}
                for (int r = ints[first_played + a]; r < ints[first_played + a + 1]; r++)
                    play(r, t_mid, t_mid, mem, clock, ints, regions);
            }
% endif
            // phase 3: currents
% if earlier:
            if (${asks(earlier)}) {
${for_each(earlier, of_breakpoint)}\
                ${spec.loop.begin}
            }
% endif
% for ion in spec.nernst:
            if (is_active && ints[advances_${ion} + a]) to_nernst_${ion}(mem, regions, a);
% endfor
% if later:
            if (${asks(later)}) {
${for_each(later, of_current)}\
            }
% endif
% if apart:
            if (shown && is_active) {
% for ion in apart:
                real sum_i${ion} = 0, slope_i${ion} = 0;
% endfor
                ${spec.loop.begin}
${for_each(spec.loop.with_ions(apart), of_sums)}\
% for ion in apart:
                mem[ion_i${ion} + a] = sum_i${ion};
                mem[ion_di${ion} + a] = slope_i${ion};
% endfor
            }
% endif
% if now:
            if (is_active) {
% for ion in now:
                ${f"" if ion in spec.currents_read else "if (shown) "}mem[ion_i${ion} + a] = sum_i${ion};
                ${"" if second and ion in spec.currents_read else "if (shown) "}mem[ion_di${ion} + a] = slope_i${ion};
% endfor
            }
% endif
            ${"" if spec.crowded else own_row}
            const real row_d = own_d + (factor * sum_g + point_g);
            const real row_b = own_b - (factor * sum_i + point_i);
% if spec.parts > 1:
            shared_rows[(q - home.s2) * ${W} + in_warp] = ${spec.loop.of_turn("row_d")};
            shared_rows[(${spec.most_lists} + q - home.s2) * ${W} + in_warp] = ${spec.loop.of_turn("row_b")};
% else:
            W(place) = row_d;
            A(place) = row_b;
% endif
% endif
        }
% endfor
