<%page args="spec"/>\
## The lane of a node adds up the slots of the instances there; work-groups of a cell add up those of all.
<%
    W = spec.warp
    mem = "((volatile __global const real *)mem)" if spec.parts > 1 else "mem"
%>\
        for (int q = home.s2 + warp; q < home.s3; q += ${spec.lanes // W}) {
            const int place = node_places[q * ${W} + in_warp], word = node_active[q * ${W} + in_warp];
            if (place < 0 || word < 0) continue;
            const int a = home.s5 + (word & ${hex(spec.special - 1)});
            real all_i = 0, all_g = 0;
% for k in [kind.number for kind in spec.loop.apart if kind.has('current')]:
            for (int j = ints[first_${k} + a]; j < ints[first_${k} + a + 1]; j++) {
                all_i += ${mem}[slot_i_${k} + ${spec.loop.slot(k)}j];
                all_g += ${mem}[slot_g_${k} + ${spec.loop.slot(k)}j];
            }
% endfor
            W(place) += all_g;
            A(place) -= all_i;
        }
