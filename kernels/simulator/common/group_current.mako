<%page args="spec, k, kind"/>\
## Current and conductance of a group, and what they add at its places: `diagonal` and `right`.
<%
    W, real = kind.width, f"real{kind.width}"
    given, constants = kind.numbers(k)
%>\
% if W > 1 or kind.uses_noise:
            __global const int *member = member_${k} + ${W} * (long)q;
% endif
            ${real} current, slope, noise = 0;
% if kind.uses_noise:
            for (int lane = 0; lane < ${W}; lane++)
                if (member[lane] >= 0)
                    ((real *)&noise)[lane] = normal(seed, (ulong)(number_${k} + member[lane]),
                        (ulong)step);
% endif
            current_${k}(now, t_mid, dt, parameters_${k}, ${constants}, ${given}, held, noise,
                &current, &slope);
% if spec.samples:
            for (int e = samples_${k}[q]; e >= 0; e = sample_list[4 * e + 3])
                if (sample_list[4 * e] == ${kind.num_states})
                    sampled[(long)(row + step - first_step) * sampled_width + sample_list[4 * e + 2]]
                        = ((const real *)&current)[sample_list[4 * e + 1]];
% endif
            const ${real} factor = ${f"factor_{k}[q]" if kind.density else "1"};
            const ${real} diagonal = factor * slope, right = -factor * current;
