<%page args="spec"/>\
<%
    sym = spec.symmetric
    to_parent = "my_up" if sym else "my_low"
%>\
    // The inner segments of a chain, one a lane of the warp, from the root outwards: parallel cyclic reduction.
    // After a step with s each lane is tied to those s lanes before and after it alone; lanes that are none stay alone.
    const int up_lane = (uint)(lane - 1) % WORK_GROUP, down_lane = (lane + 1) % WORK_GROUP;
    const real loses_d = from_lane(sum_d, down_lane), loses_b = from_lane(sum_b, down_lane);
    my_d = is_inner ? my_d - loses_d : (real)1;
    my_b = is_inner ? my_b - loses_b : (real)0;
    my_up = is_inner ? my_up : (real)0;
% if not sym:
    my_low = is_inner ? my_low : (real)0;
% endif
    real before = ${to_parent}, after = from_lane(my_up, down_lane);   // entries of the lane's row
    if (lane + 1 >= inner) after = 0;
#pragma unroll
    for (int s = 1; s < WORK_GROUP; s *= 2) {
        const int a = (uint)(lane - s) % WORK_GROUP, c = (uint)(lane + s) % WORK_GROUP;
        const real inverse = reciprocal(my_d);
        if (is_inner && (uint)lane % (2 * s) == s && measure(my_d) >= GOOD) bad = note(bad, length, my_d, own);
        const real f1 = before * from_lane(inverse, a), f2 = after * from_lane(inverse, c);
        const real b1 = from_lane(my_b, a), b2 = from_lane(my_b, c);
        const real far1 = from_lane(before, a), far2 = from_lane(after, c);
% if sym:
        my_d -= f1 * before + f2 * after;
% else:
        const real back1 = from_lane(after, a), back2 = from_lane(before, c);
        my_d -= f1 * back1 + f2 * back2;
% endif
        my_b -= f1 * b1 + f2 * b2;
        before = -f1 * far1;
        after = -f2 * far2;
    }
    if (lane == 0) bad = note(bad, length, my_d, own);
    real my_x = my_b / my_d;
    const real its_x = from_lane(my_x, up_lane), top = parent == NONE ? (real)0 : its_x;

