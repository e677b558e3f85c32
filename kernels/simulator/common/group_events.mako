<%page args="spec, k, kind"/>\
## Sums as reals: PoCL 3 cannot compile convert_float8 of a long8 for processors with AVX-512.
<%def name="as_real(sums, width)">\
% if spec.real == "float" and width > 4:
(${spec.real}${width})(${as_real(f"({sums}).lo", width // 2)}, ${as_real(f"({sums}).hi", width // 2)})\
% else:
convert_${spec.real}${width}(${sums})\
% endif
</%def>\
## The events of a group: mostly none, and then one look at the sums of all its instances.
<%
    W, long = kind.width, f"__global loose_long{kind.width} *"
    given, constants = kind.numbers(k)
%>\
% if W > 1:
            const int aside = aside_${k}[q];
            ${long}sums = (${long})(incoming + due + target_${k} + aside);   // mostly all 0
% endif
% if kind.takes_events_at_once:
            if (aside >= 0 && SOME(*sums != 0)) {
                events_${k}(${as_real('*sums', W)} * scale_of_events, parameters_${k}, ${constants},
                    ${given}, held);
                *sums = 0;
            }
            const bool some = aside < 0;
% else:
            const bool some = ${"true" if W == 1 else "aside < 0 || SOME(*sums != 0)"};
% endif
            for (int lane = 0; some && lane < ${W}; lane++) {
                const int j = member_${k}[${W} * (long)q + lane];
                if (j < 0) continue;
                __global long *weight = incoming + due + target_${k} + j;
                if (*weight == 0) continue;
                event_${k}((real)*weight * scale_of_events, lane, parameters_${k},
                    (__global const real *)(${given}), (__global real *)held);
                *weight = 0;
            }
