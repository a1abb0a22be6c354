"""Say what functions and constants of SQL are: which take numbers or texts, and which give them."""

from __future__ import annotations

from ledto.history.attribute_types import BOOLEAN, NULL, NUMBER, TEXT

ATTRIBUTE, UNKNOWN = "attribute", "unknown"
"""What an operand may be, besides `NUMBER`, `BOOLEAN`, `TEXT` and `NULL`."""

NUMBER_KINDS = frozenset(
    {
        *("INTEGER", "NUMERIC", "BIGINT", "HUGEINT", "DECIMAL", "DOUBLE", "FLOAT", "SMALLINT", "TINYINT", "UBIGINT"),
        *("INT", "INT1", "INT2", "INT4", "INT8", "LONG", "SHORT", "REAL", "FLOAT4", "FLOAT8", "DEC", "UINTEGER"),
    }
)
OTHER_KINDS = {
    **dict.fromkeys(("BOOLEAN", "BOOL", "LOGICAL"), BOOLEAN),
    **dict.fromkeys(("STRING", "VARCHAR", "TEXT", "CHAR", "BPCHAR"), TEXT),
    **dict.fromkeys(("NULL_LITERAL", "NULL"), NULL),
}
TAKE_NUMBERS = frozenset(
    {
        *(
            "+",
            "-",
            "*",
            "/",
            "//",
            "%",
            "**",
            "^",
            "abs",
            "round",
            "floor",
            "ceil",
            "sqrt",
            "ln",
            "log",
            "trunc",
            "sign",
        ),
        *("sum", "avg", "mean", "median", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"),
        *("quantile", "quantile_cont", "quantile_disc", "approx_quantile", "product", "fsum", "favg"),
    }
)
ASK_TEXTS = frozenset(
    {
        *("~~", "!~~", "~~*", "!~~*", "~~~", "like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape"),
        *("regexp_matches", "regexp_full_match", "contains", "starts_with", "ends_with", "prefix", "suffix", "^@"),
    }
)
"""Functions of texts whose results are true or false."""
MEASURE_TEXTS = frozenset({"length", "len", "strlen", "strpos", "instr", "position"})
TAKE_TEXTS = (
    ASK_TEXTS
    | MEASURE_TEXTS
    | {
        *(
            "||",
            "lower",
            "upper",
            "trim",
            "ltrim",
            "rtrim",
            "substr",
            "substring",
            "left",
            "right",
            "replace",
            "concat",
        ),
        *("regexp_replace", "regexp_extract", "split_part", "string_split", "string_agg", "lcase", "ucase", "reverse"),
    }
)
PASS_ON = frozenset({"ifnull", "nullif", "greatest", "least", "min", "max", "first", "last", "any_value", "mode"})
"""Functions whose result is one of their arguments: what it is compared with decides how these are read."""
_RESULTS = (
    (TAKE_NUMBERS | MEASURE_TEXTS | {"count", "count_star"}, NUMBER),
    (ASK_TEXTS, BOOLEAN),
    (TAKE_TEXTS, TEXT),
)


def nature_of_function(name: str) -> str:
    """Say what a function gives."""
    return next((nature for functions, nature in _RESULTS if name in functions), UNKNOWN)


def nature_of_kind(kind: str) -> str:
    """Say what constants of this kind are, or values of this type."""
    return NUMBER if kind in NUMBER_KINDS else OTHER_KINDS.get(kind, UNKNOWN)
