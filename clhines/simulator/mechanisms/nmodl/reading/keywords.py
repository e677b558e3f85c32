"""Words that NEURON reserves: keywords, which are no names, and functions."""

KEYWORDS = frozenset(
    """
    AFTER ARTIFICIAL_CELL ASSIGNED BBCOREPOINTER BEFORE BREAKPOINT BY CHARGE COMMENT COMPARTMENT
    CONDUCTANCE CONSERVE CONSTANT CONSTRUCTOR DEFINE DEL DEL2 DEPEND DERIVATIVE DESTRUCTOR
    DISCRETE ELECTRODE_CURRENT ELSE EQUATION EXTERNAL FOR_NETCONS FROM FUNCTION
    FUNCTION_TABLE GLOBAL IF INCLUDE INDEPENDENT INITIAL INT KINETIC LAG LINEAR LOCAL
    LONGITUDINAL_DIFFUSION METHOD MUTEXLOCK MUTEXUNLOCK NET_RECEIVE NEURON NONLINEAR
    NONSPECIFIC_CURRENT PARAMETER POINTER POINT_PROCESS PROCEDURE PROTECT RANDOM RANGE READ
    REPRESENTS SOLVE SOLVEFOR START STATE STEADYSTATE STEP SUFFIX SWEEP TABLE THREADSAFE
    TITLE TO UNITS UNITSOFF UNITSON USEION VALENCE VERBATIM VS WATCH WHILE WITH WRITE
    after_cvode cnexp cvode_t cvode_t_v derivimplicit else euler if newton runge simeq sparse while
    """.split()
)
BLOCKS = frozenset(  # words that begin a block in a file, and no statement
    """
    AFTER ASSIGNED BEFORE BREAKPOINT CONSTANT CONSTRUCTOR DERIVATIVE DESTRUCTOR FUNCTION
    FUNCTION_TABLE INDEPENDENT KINETIC LINEAR NET_RECEIVE NEURON NONLINEAR PARAMETER PROCEDURE STATE
    UNITS
    """.split()
)
FUNCTIONS_OF_NEURON = frozenset(  # only LOCALs and arguments may have these names
    """
    acos asin at_time atan atan2 b_flux boundary ceil cos cosh deflate derivs erf error exp expfit
    exprand f_flux fabs factorial first_time floor fmod force gauss harmonic hyperbol invert
    legendre log log10 net_event net_move net_send normrand nrn_ghk nrn_pointing nrn_random_play
    perpulse perstep poisrand poisson pow printf prterr pulse ramp random_dpick random_ipick
    random_negexp random_normal random_setids random_setseq random_uniform revhyperbol revsawtooth
    revsigmoid romberg sawtooth schedule scop_random set_seed setseed sigmoid sin sinh spline sqrt
    squarewave state_discontinuity step stepforce tan tanh threshold
    """.split()
)
