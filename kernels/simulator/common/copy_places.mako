<%page args="spec"/>\
## Part of gradients.mako: read and write a node's values in arrays in the solver's order, for row q of the copies of a
## network. A row has one copy per lane of a vector.
% if spec.stride:
// A node's index in the solver's order; from copy to copy it grows by ${spec.stride}.
#define PLACE(node, lane) (place[node] + q * ${spec.stride})
% else:
#define PLACE(node, lane) place[((node) * num_rows + q) * ${spec.width} + (lane)]
% endif
#define OF(node) place, node, q, num_rows   // arguments for this row of copies

// Read a node's values in row q of the copies.
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

// Write a node's values in row q of the copies.
static void scatter(__global real *target, __global const int *place, const int node, const int q,
                    const int num_rows, const lanes values)
{
% if spec.width > 1:
    for (int lane = 0; lane < ${spec.width}; lane++) target[PLACE(node, lane)] = ((const real *)&values)[lane];
% else:
    target[PLACE(node, 0)] = values;
% endif
}

