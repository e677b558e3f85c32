<%page args="spec, sweep, i, count"/>\
## Part of cell.mako: a sweep over `count` nodes from `i` on, which are read together. With `reads_next`
## they have been read before, and the next ones are read here.
<%
    back = sweep == "eliminate"
    names = spec.read_by[sweep]
    sign, outside = ("-", "at < 0") if back else ("+", "at >= longest")
    number = "AHEAD" if count == spec.nodes_ahead else count
    def read(at, end, number): return part("solver/common/cell_read", names=names, at=at, count=number, end=end, outside=outside)
%>\
${part("solver/common/cell_room", names=names, end="read")}\
% if spec.reads_next:
        __attribute__((opencl_unroll_hint))
        for (int k = 0; k < AHEAD; ++k) {
% for n in ([] if spec.chains else ["codes"]) + names:
% if n in "bx":
            for (int r = 0; r < RHS; ++r) ${n}_read[k][r] = ${n}_next[k][r];
% else:
            ${n}_read[k] = ${n}_next[k];
% endif
% endfor
        }
% if i == "i":
${read(f"i {sign} AHEAD {sign} k", "next", "AHEAD")}\
% endif
% else:
${read(f"{i} {sign} k", "read", number)}\
% endif
        __attribute__((opencl_unroll_hint))
        for (int k = 0; k < ${number}; ++k) {
            const int lane = 0, at = ${i} ${sign} k;
% if not spec.rows:
            if (${outside}) continue;
% endif
            const int place = start + at * stride;
% if not spec.chains:
% if back:
            const int code = codes_read[k];
% else:
            const int parent = ${spec.step.read("parent", "codes_read[k]")};
% endif
% endif
% if not back:
            const value f = f_read[k];
% endif
${part("solver/common/cell_eliminate" if back else "solver/common/cell_substitute")}\
        }
