"""Texts of mechanisms for several tests."""

REALS = {"float64": "double", "float32": "float"}
WORDS = "density few\n" + "".join(
    f"parameter {word} = 2\n"
    for word in "lambda half kernel float4 M_PI NAN E I S N x0 e1 np range real in as i g".split()
)
WORDS += "state part = lambda\ndpart/dt = -part/half\ncurrent a = part*in + NAN*M_PI - g*float4*4"


def minimal(body, kind="density"):
    """A mechanism of few lines; the first line of `body` is line 2 of the text."""
    return f"{kind} few\n{body}\n"
