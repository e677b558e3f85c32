<%page args="spec"/>\
## Part of contraction.mako: copy a block's values in device order into local memory, in chunks of 16
## bytes. num_chunks: chunks per array.
<%
    V = spec.chunk
    copies = -(-spec.capacity // V // spec.work_group)
    batch = 4   # chunks in flight
%>\
% if spec.ptx and not spec.natural and not spec.copies_bulk:
    {   // without registers, all copies in flight
        __local chunk *to = (__local chunk *)node + lane;
% for a in spec.local_arrays:
        __global const chunk *from_${a} = (__global const chunk *)(${a} + block.s0) + lane;
% endfor
% for k in range(copies):
        if (lane + ${k} * WORK_GROUP < num_chunks) {
% for i, a in enumerate(spec.local_arrays):
            copy_chunk(to + ${k} * WORK_GROUP + ${i} * CAPACITY / ${V}, from_${a} + ${k} * WORK_GROUP);
% endfor
        }
% endfor
    }
% elif not spec.natural and not spec.copies_bulk:
% for start in range(0, copies, batch):
    {   // all loads first, so that they are in flight together
<%  steps = range(start, min(copies, start + batch)) %>\
% for a in spec.local_arrays:
        __global const chunk *from_${a} = (__global const chunk *)(${a} + block.s0) + lane;
% endfor
% for k in steps:
        chunk ${", ".join(f"{a}{k}" for a in spec.local_arrays)};
        if (lane + ${k} * WORK_GROUP < num_chunks) {
% for a in spec.local_arrays:
            ${a}${k} = from_${a}[${k} * WORK_GROUP];
% endfor
        }
% endfor
% for k in steps:
        if (lane + ${k} * WORK_GROUP < num_chunks) {
% for a in spec.local_arrays:
            ((__local chunk *)&${a.upper()}(0))[lane + ${k} * WORK_GROUP] = ${a}${k};
% endfor
        }
% endfor
    }
% endfor
% endif
