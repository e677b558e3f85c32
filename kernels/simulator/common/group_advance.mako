<%page args="spec, k, kind, now, step"/>\
## The states of a group over a step; with samples into their rows.
<% given, constants = kind.numbers(k) %>\
            advance_${k}(${now}, (real)${step} * dt, dt, parameters_${k}, ${constants}, ${given}, held);
% if spec.samples:
            for (int e = samples_${k}[q]; e >= 0; e = sample_list[4 * e + 3]) {
                const int what = sample_list[4 * e];
                if (what < ${kind.num_states})
                    sampled[(long)(row + ${step} - first_step) * sampled_width + sample_list[4 * e + 2]]
                        = ((__global const real *)held)[what * ${kind.width} + sample_list[4 * e + 1]];
            }
% endif
