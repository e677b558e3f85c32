"""Reserved words in generated source, and the names that variables get instead.

Keywords, types and functions of OpenCL C 1.0 to 3.0 (The OpenCL C Specification, sections 6.1 to
6.15), C99, C11, C++ for OpenCL, Python and vendors' extensions, and macros of vendors' compilers.
Words that begin with an underscore are left out: a text's names never do.
"""

from __future__ import annotations

import re
from keyword import kwlist

_C = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while alignas alignof asm atomic bool complex false imaginary noreturn nullptr
static_assert thread_local true typeof typeof_unqual
"""
_CPP = """
and and_eq bitand bitor catch char16_t char32_t char8_t class compl concept const_cast consteval
constexpr constinit co_await co_return co_yield decltype delete dynamic_cast explicit export friend
mutable namespace new noexcept not not_eq operator or or_eq private protected public
reinterpret_cast requires static_cast template this throw try typeid typename using virtual wchar_t
xor xor_eq addrspace_cast
"""
_OPENCL = """
constant generic global kernel local pipe private read_only read_write uniform write_only
half quad uchar uint ulong ushort size_t ptrdiff_t intptr_t uintptr_t va_list
image1d_t image1d_array_t image1d_buffer_t image2d_t image2d_array_t image2d_depth_t
image2d_array_depth_t image2d_msaa_t image2d_array_msaa_t image2d_msaa_depth_t
image2d_array_msaa_depth_t image3d_t
clk_event_t clk_profiling_info event_t kernel_enqueue_flags_t ndrange_t queue_t reserve_id_t
sampler_t memory_order memory_scope workDimension
MAX_WORK_DIM NULL NAN INFINITY HUGE_VAL HUGE_VALF MAXFLOAT CHAR_BIT kernel_exec vec_step printf
"""
_VENDORS = """
linux unix i386 arm sun vax mips sparc hpux pixel vector near far huge interface small hyper
nosvm noinline forceinline texture surface shared device host managed launch_bounds
"""
_GENERATED = "instant real main np random123 scop range"
_FUNCTIONS = """
acos acosh acospi asin asinh asinpi atan atan2 atan2pi atanh atanpi cbrt ceil copysign cos cosh
cospi erf erfc exp exp10 exp2 expm1 fabs fdim floor fma fmax fmin fmod fract frexp hypot ilogb ldexp
lgamma lgamma_r log log10 log1p log2 logb mad maxmag minmag modf nan nextafter pow pown powr
remainder remquo rint rootn round rsqrt sin sincos sinh sinpi sqrt tan tanh tanpi tgamma trunc
abs abs_diff add_sat bit_reverse bitfield_extract_signed bitfield_extract_unsigned bitfield_insert
clz ctz hadd mad24 mad_hi mad_sat mul24 mul_hi popcount rhadd rotate sub_sat upsample
clamp degrees max min mix radians sign smoothstep step
cross distance dot dot_acc_sat fast_distance fast_length fast_normalize length normalize
all any bitselect isequal isfinite isgreater isgreaterequal isinf isless islessequal islessgreater
isnan isnormal isnotequal isordered isunordered select signbit shuffle shuffle2
barrier mem_fence prefetch read_mem_fence wait_group_events write_mem_fence
capture_event_profiling_info create_user_event enqueue_kernel enqueue_marker is_valid_event
is_valid_reserve_id release_event retain_event set_user_event_status to_global to_local to_private
commit_read_pipe commit_write_pipe read_pipe reserve_read_pipe reserve_write_pipe write_pipe
work_group_barrier
"""
WORDS = {*" ".join((_C, _CPP, _OPENCL, _VENDORS, _GENERATED, _FUNCTIONS)).split(), *kwlist}
# name families: macros for limits and extensions, conversions, functions with a common prefix
_FAMILY = re.compile(
    "(M|FLT|DBL|HALF|U?INT|U?LONG|[US]?CHAR|U?SHRT|FP|CLK|CL|cl|ATOMIC|__|NV|INTEL|POCL|AMD)_"
    "|(as|convert|vload|vstore|vloada|vstorea|atom|atomic|async|get|native|half|read_image"
    "|write_image|sub_group|work_group|intel|amd|arm|nv|qcom|memory_order|memory_scope|ndrange"
    "|dot_4x8packed|dot_acc_sat|intel_sub_group|image)_"
    "|(as_|convert_|vload|vstore|read_image|write_image)[a-z]*[0-9]*$"
    "|(bool|u?char|u?short|u?int|u?long|half|float|double|quad|real)([0-9]+(x[0-9]+)?)$"
)


def safe(name: str) -> str:
    """Return the name in generated source for a text's variable.

    A reserved word gets an underscore at its end. Pointers to variables end in an underscore, too;
    so a name that ends in one gets a longer end.
    """
    if name.endswith("_"):
        return name + "_own"
    is_word = not WORDS.isdisjoint((name, name.rstrip("0123456789")))  # float4 and the like
    return name + "_" if is_word or _FAMILY.match(name) else name
