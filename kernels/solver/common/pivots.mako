<%page args="spec"/>\
## Tests of pivots, and notes of bad ones.
% if spec.ptx and spec.real == "double":   # whose reciprocal knows no subnormal numbers
#define SMALLEST DBL_MIN
#define LARGEST (1 / DBL_MIN)   // pivot with a normal inverse
% else:
${part("solver/common/pivot_bounds")}\
% endif
#define BAD (${spec.status.write(bad="1")})     // see STATUS in kernel_spec.py
#define CLEAN (${spec.status.write(clean="1")})   // the pivot was bad by itself
#define GOOD ${"0x7e000000u" if spec.real == "float" else "0x7fc00000u"}   // see `measure`

% if not spec.symmetric:
#define GROWTH ${spec.growth}   // of a diagonal by the elimination: above it digits are lost
% endif

// What is known of the bad pivots of a segment after its node `node`, whose diagonal was `own`.
static int note(int bad, int node, real pivot, real own)
{
    if (pivot > (real)SMALLEST && pivot < (real)LARGEST)
% if spec.symmetric:
        return bad;
% else:
        return bad || pivot <= GROWTH * fabs(own) ? bad : node;             // or its digits are lost
% endif
    if (isfinite(pivot)${"" if spec.derived else " || !isfinite(own)"}) return max(bad, node | BAD | CLEAN);   // by itself
    return bad & BAD ? bad : node | BAD;                                    // made so by another
}

// Below `GOOD` only where the pivot is positive, normal and below LARGEST: its upper bits.
static uint measure(real pivot)
{
% if spec.real == "double":
    return (uint)(as_long(pivot) >> 32) - 0x00100000u;
% else:
    return as_uint(pivot) - 0x00800000u;
% endif
}

% if not spec.symmetric:
// Below `GOOD` only where `measure` is, and the pivot is not more than `GROWTH` times its diagonal: a
// difference of upper bits is about that of exponents. It warns early; `note` decides.
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
