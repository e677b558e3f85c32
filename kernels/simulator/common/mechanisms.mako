<%page args="spec"/>\
## Part of arena_functions.mako and epoch_functions.mako: mechanisms' functions; then macros for offsets of
## regions in the arenas mem, clock and ints. The macros are last, as mechanisms may have variables with the same names.
<% e = spec.arena %>\
typedef ${e.instant} instant;   // ms
% if e.calls:
static __attribute__((noinline)) real called_exp(const real x) { return exp(x); }
#undef exp  // a macro in some compilers' headers
#define exp called_exp

% endif
% if e.noise:
${e.noise}
% endif
% for kind in e.kinds:
// ---- mechanism ${kind.number}: ${kind.name}

${e.functions(kind)}
% endfor
// regions' offsets in the arenas, and counts
% if e.by_cell:
typedef struct { int ${", ".join(e.regions)}; } regions_;
% endif
% for number, name in enumerate(e.regions):
#define ${name} ${f"regions.{name}" if e.by_cell else f"at[{number}]"}
% endfor

