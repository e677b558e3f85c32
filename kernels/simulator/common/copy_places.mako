<%page args="spec"/>\
## Values of a node in copies of a network, out of arrays in the order of a solver, and back.
% if spec.stride:
// Where a copy has a node: places in all copies are ${spec.stride} apart.
#define PLACE(node, lane) (place[node] + q * ${spec.stride})
% else:
#define PLACE(node, lane) place[((node) * num_rows + q) * ${spec.width} + (lane)]
% endif
#define OF(node) place, node, q, num_rows   // of this row of copies

static lanes gather(__global const real *source, __global const int *place, const int node, const int q,
                    const int num_rows)
{
% if spec.width > 1:
    lanes values;
    for (int lane = 0; lane < ${spec.width}; lane++) ((real *)&values)[lane] = source[PLACE(node, lane)];
    return values;
% else:
    return source[PLACE(node, 0)];
% endif
}

static void scatter(__global real *target, __global const int *place, const int node, const int q,
                    const int num_rows, const lanes values)
{
% if spec.width > 1:
    for (int lane = 0; lane < ${spec.width}; lane++) target[PLACE(node, lane)] = ((const real *)&values)[lane];
% else:
    target[PLACE(node, 0)] = values;
% endif
}

