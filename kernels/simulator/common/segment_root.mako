<%page args="spec"/>\
## Part of epoch_by_instance.mako, epoch_constant.mako and epoch_by_node.mako: solve the root (the soma), set its v, and
## send a spike if v crosses the threshold upwards. With constant factors the slots of the soma's mechanisms are added
## to its row here. With `dense`, the late nodes (in the tree's last rounds) get x from the root's x. It ends
## with a barrier for all lanes in the cell; then tree_b has x for the root and the late nodes.
<% I, slots = spec.dense, spec.constant and spec.has_slots %>\
% if slots:
        GATHER();   // all slots are written
% endif

        // phase 4: solve; the root, and back
        real my_x = 0;
        if (is_root) {
            real pivot = ${"tree_inverse" if spec.constant else "tree_d[lane] - above_d[lane]"};
% if not I:
            g = tree_b[lane] - above_b[lane];
% endif
% if slots:
            for (int q = my_slots; q < end_slots; ++q) {
                pivot += slot_g[q];
                g += slot_h[q];
            }
% endif
            my_x = g * reciprocal(pivot);
            const real before = ${"root_v[unit]" if spec.constant else "old_root"};
% if spec.constant:
            const real after = ${"2 * my_x - before" if spec.secondorder else "my_x"};
% else:
            const real after = before + ${"2 * my_x" if spec.secondorder else "my_x"};
% endif
            tree_b[lane] = my_x;
% if I:
            root_x[unit] = my_x;
% endif
% if spec.constant:
            root_v[unit] = after;
% endif
% if spec.in_steps:
${part("simulator/common/detect", 12, crosses="before <= my_threshold && after > my_threshold", source="mine.s6")}\
% endif
            fault = runaway(after, fault, step);
        }
% if spec.constant:
        GATHER();
% else:
        MEET();
% endif
% if I:
        if (is_late && !is_root) {
            my_x = g + inverse_tree[root_rank[at] * ${I} + rank] * root_x[at];
            tree_b[lane] = my_x;
        }
        MEET();
% endif
