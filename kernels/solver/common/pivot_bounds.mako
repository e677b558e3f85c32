## Part of bad_pivots.mako and pivots.mako: bounds of good pivots.
#define SMALLEST (1 / ${"DBL_MAX" if spec.real == "double" else "FLT_MAX"})   // pivot with a finite inverse
#define LARGEST (1 / ${"DBL_MIN" if spec.real == "double" else "FLT_MIN"})   // pivot with a normal inverse
