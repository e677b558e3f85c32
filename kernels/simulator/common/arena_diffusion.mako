<%page args="spec"/>\
## What diffuses along the cell, in the step before: rows of a level side by side, from the last level to the
## roots, and back. Levels are as many in all cells, since all lanes of a work-group meet after each.
        // phase 7: states, of the step before
        MEET_ALL();   // states have advanced, and volumes are there
        if (!opens) {
            const int levels = mine.s6 * ${spec.levels};
            const int first_row = present ? ints[diffusing_levels + levels] : 0;
            const int end_row = present ? ints[diffusing_levels + levels + ${spec.levels}] : 0;
            for (int r = first_row + lane; r < end_row; r += LANES) diffusing_row(r, dt, mem, ints, regions);
            MEET_ALL();
            for (int level = ${spec.levels - 1}; level >= 0; level--) {
                const int end = present ? ints[diffusing_levels + levels + level + 1] : 0;
                for (int r = present ? ints[diffusing_levels + levels + level] + lane : 0; r < end; r += LANES)
                    diffusing_out(r, mem, ints, regions);
                MEET_ALL();
            }
            for (int level = 0; level < ${spec.levels}; level++) {
                const int end = present ? ints[diffusing_levels + levels + level + 1] : 0;
                for (int r = present ? ints[diffusing_levels + levels + level] + lane : 0; r < end; r += LANES)
                    diffusing_back(r, mem, ints, regions);
                MEET_ALL();
            }
        }
