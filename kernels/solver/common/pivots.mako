<%page args="spec"/>\
## Part of contraction.mako: functions that test pivots and record bad ones.
% if spec.ptx and spec.real == "double":   # PTX's reciprocal flushes subnormal numbers
#define SMALLEST DBL_MIN
#define LARGEST (1 / DBL_MIN)   // pivot with a normal inverse
% else:
${part("solver/common/pivot_bounds")}\
% endif
#define BAD (${spec.status.write(bad="1")})     // in the status: a bad pivot
#define CLEAN (${spec.status.write(clean="1")})   // no other bad pivot has caused this one
#define GOOD ${"0x7e000000u" if spec.real == "float" else "0x7fc00000u"}   // see `measure`

% if not spec.symmetric:
#define GROWTH ${spec.growth}   // largest pivot / diagonal: above it digits are lost
% endif

// Update a segment's status `bad` by the pivot at node `node`, whose diagonal was `own`.
static int note(int bad, int node, real pivot, real own)
{
    if (pivot > (real)SMALLEST && pivot < (real)LARGEST)
% if spec.symmetric:
        return bad;
% else:
        return bad || pivot <= GROWTH * fabs(own) ? bad : node;             // digits are lost
% endif
    if (isfinite(pivot)${"" if spec.derived else " || !isfinite(own)"}) return max(bad, node | BAD | CLEAN);
    return bad & BAD ? bad : node | BAD;   // another bad pivot has caused it
}

// Rate a pivot by its upper bits: below GOOD only if it is positive, normal and below LARGEST.
static uint measure(real pivot)
{
% if spec.real == "double":
    return (uint)(as_long(pivot) >> 32) - 0x00100000u;
% else:
    return as_uint(pivot) - 0x00800000u;
% endif
}

% if not spec.symmetric:
// As `measure`, but below GOOD only if the pivot is also at most about GROWTH times its diagonal: the
// upper bits differ by about as much as the exponents. `note` decides exactly.
static uint compare(real pivot, real own)
{
% if spec.real == "double":
    const uint grown = (uint)(as_long(pivot) >> 32) - ((uint)(as_long(own) >> 32) & 0x7fffffffu);
    return max(measure(pivot), grown + (GOOD - ((${spec.growth.bit_length() - 2}u) << 20)));
% else:
    const uint grown = as_uint(pivot) - (as_uint(own) & 0x7fffffffu);
    return max(measure(pivot), grown + (GOOD - ((${spec.growth.bit_length() - 2}u) << 23)));
% endif
}

% endif
${part("solver/common/reciprocal")}
