<%page args="spec"/>\
## Part of arena_between.mako: states diffuse along the cell. This ends the step before; the first pass (`opens`) has
## no step before. The functions in diffusing_rows.mako assemble all rows and eliminate leaves, eliminate the other rows
## in rounds that end with the roots, and compute the states in reverse order. Each lane does some rows in a round. All
## cells have the same number of rounds, since a work-group's lanes all wait at a barrier after each round.
<% n = spec.diffusing_rounds %>\
        // phase 7: states, in the step before
        MEET_ALL();   // states have advanced, and volumes are known
        if (!opens) {
            __global const int *rounds = ints + diffusing_rounds + mine.s6 * ${n};
            const int last_row = present ? rounds[${n}] : 0;
% if spec.diffusing_rows:
            __local DiffusingRow *cell_rows = diffusing - (present ? rounds[0] : 0);
% else:
            __global DiffusingRow *cell_rows = (__global DiffusingRow *)(mem + diffusing_numbers);
% endif
            for (int r = present ? rounds[0] + lane : 0; r < last_row; r += LANES) diffusing_row(r, dt, cell_rows, mem, ints, regions);
            MEET_ALL();
            for (int k = 1; k < ${n}; k++) {
                const int end = present ? rounds[k + 1] : 0;
                for (int r = present ? rounds[k] + lane : 0; r < end; r += LANES) diffusing_out(r, cell_rows, mem, ints, regions);
                MEET_ALL();
            }
            for (int k = ${n - 2}; k >= 0; k--) {
                const int end = present ? rounds[k + 1] : 0;
                for (int r = present ? rounds[k] + lane : 0; r < end; r += LANES) diffusing_back(r, cell_rows, mem, ints, regions);
                MEET_ALL();
            }
        }
