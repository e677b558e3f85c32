<%page args="spec"/>\
## Part of arena_points.mako, or of epoch_by_node.mako if several work-groups share a cell: a node's lane adds the
## currents and conductances that its instances have left in slots to W and A. Each work-group does so for all nodes in
## the cell.
<%
    W = spec.warp
    def slot(name, k): return spec.loop.turned("mem", f"{name}_{k} + {spec.loop.slot(k)}j")
%>\
        for (int q = home.s2 + warp; q < home.s3; q += ${spec.lanes // W}) {
            const int place = node_places[q * ${W} + in_warp], word = node_active[q * ${W} + in_warp];
            if (place < 0 || word < 0) continue;
            const int a = home.s5 + (word & ${hex(spec.special - 1)});
            real all_i = 0, all_g = 0;
% for k in [kind.number for kind in spec.loop.apart if kind.has('current') and not kind.sole]:
            for (int j = ints[first_${k} + a]; j < ints[first_${k} + a + 1]; j++) {
% if spec.parts > 1:
                ${spec.loop.bits} slot_i, slot_g;
                do {
                    slot_i = ${slot("slot_i", k)};
                    slot_g = ${slot("slot_g", k)};
                } while (slot_i % 2 != phase || slot_g % 2 != phase);
                all_i += as_${spec.real}(slot_i - phase);
                all_g += as_${spec.real}(slot_g - phase);
% else:
                all_i += mem[slot_i_${k} + j];
                all_g += mem[slot_g_${k} + j];
% endif
            }
% endfor
            W(place) += all_g;
            A(place) -= all_i;
        }
