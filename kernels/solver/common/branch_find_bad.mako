<%page args="spec, word"/>\
## Part of fine_vector.mako: find the bad nodes in vector v by eliminating its branches again, lane by
## lane. child_d, child_change: the children's contributions; wrong, small: lanes with bad pivots, and
## lanes without lost digits; top: where the nodes nearest the root are.
        // rare: find each lane's bad node
        real sums[W]${"" if spec.symmetric else ", changes[W]"};
        ${word} flags[W]${"" if spec.symmetric else ", keeps[W]"};
        *(loose_value *)sums = child_d;
% if not spec.symmetric:
        *(loose_value *)changes = child_change;
% endif
        *(loose_mask *)flags = wrong;
% if not spec.symmetric:
        *(loose_mask *)keeps = small;
% endif
        for (int k = 0; k < W; ++k) {
            const int length = lane_length[v * W + k];
            if (${"!flags[k]" if spec.symmetric else "(!flags[k] && keeps[k])"} || length == 0) continue;
            real sum = sums[k];
            int bad = 0;
% if not spec.symmetric:
            real change = changes[k];
            int grown = 0;
% endif
            for (int j = length - 1; j >= 0 && bad == 0; --j) {
                const int at = ${"gather[top + k - j * W]" if spec.natural else "top + k - j * W"};
                const real pivot = d[at] - sum;
                if (!(pivot > (real)SMALLEST && pivot < (real)LARGEST)) bad = j + 1;
% if not spec.symmetric:
                const real most = GROWTH * fabs(d[at]);
                if (!(change < most && pivot < most)) grown = j + 1;
% endif
                sum = u[at] * (${"u" if spec.symmetric else "l"}[at] * ((real)1 / pivot));
% if not spec.symmetric:
                change = fabs(sum);
% endif
            }
% if not spec.symmetric:
            if (!bad && !flags[k] && !grown) continue;
% endif
            // report the node nearest the root if none is bad here: vectors may round divisions differently
            atomic_max(status + cell_number[block_cells[block] + lane_slot[v * W + k]],
% if spec.symmetric:
                       BAD | (lane_rank[v * W + k] + max(bad, 1)));
% else:
                       bad || flags[k] ? BAD | (lane_rank[v * W + k] + max(bad, 1))
                                       : lane_rank[v * W + k] + grown);
% endif
        }
