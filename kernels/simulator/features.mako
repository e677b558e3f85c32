<%page args="spec"/>\
<% integers, reals = spec.integers, spec.reals %>\
// Trace features, a trace per column, updated during a run: sums and extremes in windows, and a few
// samples from each segment; a segment begins where the trace crosses the threshold.
// Row 0 of `values` has the run's sample `first`; row r begins at r * stride + column.
// spec: ${spec}
${part("solver/common/precision")}\
#pragma OPENCL FP_CONTRACT OFF

// A work-item updates window w in column j, one of `width`, by `rows` rows. The window has the samples from its
// first bound up to its second, bounds[(2 * w + 0 or 1) * width + j]. Entry (w * 4 + k) * width + j
// of `kept` is a sum for k = 0, this sum's compensation (Neumaier) for k = 1, the smallest value for k = 2 and
// the largest for k = 3.
__kernel void windows(${signature(spec, "windows")})
{
    const int j = get_global_id(0), w = get_global_id(1);
    if (j >= width) return;
    const int begin = max(bounds[(2 * w) * width + j] - first, 0);
    const int end = min(bounds[(2 * w + 1) * width + j] - first, rows);
    if (begin >= end) return;
    __global real *mine = kept + (long)w * 4 * width + j;
    real sum = mine[0], lost = mine[width], least = mine[2 * width], most = mine[3 * width];
    for (int r = begin; r < end; r++) {
        const real value = values[(long)r * stride + column + j];
        const real total = sum + value;
        lost += fabs(sum) >= fabs(value) ? (sum - total) + value : (value - total) + sum;
        sum = total;
        if (value < least) least = value;
        if (value > most) most = value;
    }
    mine[0] = sum;
    mine[width] = lost;
    mine[2 * width] = least;
    mine[3 * width] = most;
}

// A segment up to the present sample.
typedef struct {
    int ${", ".join(integers)};
    real ${", ".join(reals)};
} Segment;

// Return a segment that begins at sample `begin`: -1, NaN and infinities mean that nothing is found yet.
static Segment opened(const int kind, const int begin)
{
    Segment s;
    s.kind = kind;
    s.begin = begin;
% for name in integers[2:]:
    s.${name} = -1;
% endfor
    s.top_v = -INFINITY;
    s.before_v = s.after_v = INFINITY;
    s.any_rest_v = s.rest_v = NAN;
    return s;
}

// Store trace j's segment `number`, if there is space for it.
static void emit(const Segment s, const int number, const int room, const int width, const int j,
    __global int *list, __global real *list_v)
{
    if (number >= room) return;
% for k, name in enumerate(integers):
    list[((long)number * ${len(integers)} + ${k}) * width + j] = s.${name};
% endfor
% for k, name in enumerate(reals):
    list_v[((long)number * ${len(reals)} + ${k}) * width + j] = s.${name};
% endfor
}

// Update the segment by sample i with the value v; sample i - 1 has the value p. is_rest: neither of the next two samples
// is below v, so that the trace does not fall any more. Return how many segments are complete.
static int take(Segment *s, const int i, const real p, const real v, const bool is_rest,
    const real threshold, int number, const int room, const int width, const int j,
    __global int *list, __global real *list_v)
{
    const bool up = i > 0 && p < threshold && v > threshold;
    const bool down = i > 0 && p > threshold && v < threshold;
    if (up || down) {
        emit(*s, number++, room, width, j, list, list_v);
        *s = opened(up ? ${spec.up} : ${spec.down}, i);
    }
    if (v > s->top_v) {   // a new highest sample: the minimum after the old one now lies before the new one
        if (s->after_v < s->before_v) {
            s->before_v = s->after_v;
            s->before = s->after;
        }
        s->top_v = v;
        s->top = i;
        s->after_v = INFINITY;
        s->after = s->rest = -1;
        s->rest_v = NAN;
    }
    if (v < s->after_v) {
        s->after_v = v;
        s->after = i;
    }
    if (is_rest && s->any_rest < 0) {
        s->any_rest = i;
        s->any_rest_v = v;
    }
    if (is_rest && s->rest < 0) {
        s->rest = i;
        s->rest_v = v;
    }
    return number;
}

// A work-item reads one trace's samples. From each segment it stores the highest sample (top), the lowest ones before
// and after the top, and the first one that is_rest, in the segment and after the top. A sample is used when the next
// two are known. The arguments before, before_v, after, after_v are the state before and after the launch: the present
// segment (with the members before and after, its lowest samples), then the last three samples. `count` has two numbers: completed segments, and all segments that the trace would
// have if it ended here. list and list_v get the first `room` segments, whole numbers and reals.
__kernel void segments(${signature(spec, "segments")})
{
    const int j = get_global_id(0);
    if (j >= width) return;
    Segment s = opened(0, 0);
    real p = 0, v = 0, next = 0;   // samples n - 3, n - 2 and n - 1
    if (first > 0) {
% for k, name in enumerate(integers):
        s.${name} = before[${k} * width + j];
% endfor
% for k, name in enumerate(reals):
        s.${name} = before_v[${k} * width + j];
% endfor
        p = before_v[${len(reals)} * width + j];
        v = before_v[${len(reals) + 1} * width + j];
        next = before_v[${len(reals) + 2} * width + j];
    }
    int number = 0;
    for (int r = 0; r < rows; r++) {
        const real last = values[(long)r * stride + column + j];
        const int i = first + r - 2;
        if (i >= 0)
            number = take(&s, i, p, v, next >= v && last >= v, threshold, number, room, width, j,
                list, list_v);
        p = v;
        v = next;
        next = last;
    }
% for k, name in enumerate(integers):
    after[${k} * width + j] = s.${name};
% endfor
% for k, name in enumerate(reals):
    after_v[${k} * width + j] = s.${name};
% endfor
    after_v[${len(reals)} * width + j] = p;
    after_v[${len(reals) + 1} * width + j] = v;
    after_v[${len(reals) + 2} * width + j] = next;
    count[j] = number;
    const int n = first + rows;
    if (n > 1) number = take(&s, n - 2, p, v, false, threshold, number, room, width, j, list, list_v);
    if (n > 0) number = take(&s, n - 1, v, next, false, threshold, number, room, width, j, list, list_v);
    emit(s, number++, room, width, j, list, list_v);
    count[width + j] = number;
}
