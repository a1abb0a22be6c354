"""Lines of JSON that two readers may easily read in two ways, for tests that hold quick readers to the exact ones."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

NUMBERS = (
    *("0", "-0", "7", "-7", "1.0", "1.50", "1e5", "2E-3", "1e400", "-1e400", "1e-400", "0.1", "1700000000.123456789"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
    *("18446744073709551615", "18446744073709551616", "1" * 5_000, "9300000000000000000.5", "NaN", "01", "+1", "1."),
)
TEXTS = (
    *(
        '""',
        '"a"',
        '"b:c"',
        '"é"',
        '"\\u00e9"',
        '"\\u003a"',
        '"\\u003A:"',
        '"\\\\u003a"',
        '"\\u0000"',
        '"a\\nb"',
        '"\\/"',
    ),
    *('"\\ud800"', '"\\ud83d\\ude00"', '"\\udc00\\ud800"', '"\\x"', '"\t"', '"\x7f\u2028"', '"a', '"\\"', '"%s {}"'),
    *('"12"', '"-5"', '"1.25"', '"9223372036854775808"', '"18446744073709551616"', '"true"'),
    *(
        '"2024-05-01T12:00:00Z"',
        '"2024-05-01 12:00:00,5"',
        '"2024-05-01T12:00:00.123456789z"',
        '"2024-05-01T12:00:60Z"',
    ),
    *('"2024-05-01T12:00:00.1234567891Z"', '"2024-02-30T00:00:00Z"', '"2024-05-01T12:00:00+02:00"', '"2024-05-01"'),
    *('"9999-05-01T12:00:00Z"', '"2262-04-11T23:47:16.9Z"', '"2024-05-01T12:00:00.Z"', '"٢٠٢٤-05-01T12:00:00Z"'),
)
NESTED = (
    *("[]", "{}", "[1, 2]", '["a","b"]', '["a",null]', '{"x":1}', '{"x":1,"x":1}', '[{"x": {"y":1, "y":2}}]', "[1,]"),
    *(
        "[18446744073709551616]",
        '{"x":1e400}',
        '["\\ud800"]',
        '{"\\u0078":1}',
        "[" * 63 + "]" * 63,
        "[" * 64 + "]" * 64,
    ),
    *("[" * 3_000 + "]" * 3_000, "[1,2", '{"x"}', '{"kind":"out", "id":"k"}', '{"kind":"in","id":5}', '{"a":1, "b":2}'),
)
VALUES = (*NUMBERS, *TEXTS, *NESTED, "true", "false", "null", "nul", "")
ODD_KEYS = ('"k"', '"k:"', '""', '"\\u006b"', '"\\n"', '"\\u000a"', '"é"', '"\\u0000"', '"\\ud800"', "k")
ODD_LINES = (
    b"",
    b" ",
    b"\r",
    b"\x0c",
    b"\x00",
    b"\xef\xbb\xbf",
    b"{}",
    b"[]",
    b"null",
    b"no record",
    b'{"k":"\xff"}',
    b"{} {}",
)


def hard_lines(keys: Sequence[str], usual: Sequence[str]) -> st.SearchStrategy[bytes]:
    """Lines of objects of which some members have these keys; `usual` values are as frequent as all others together."""
    key = st.one_of(st.sampled_from([f'"{each}"' for each in keys]), st.sampled_from(ODD_KEYS))
    value = st.one_of(st.sampled_from(usual), st.sampled_from(VALUES))
    members = st.lists(st.tuples(key, st.sampled_from([":", ": ", " :\t"]), value).map("".join), max_size=6)
    complete = st.tuples(*(st.sampled_from(usual).map(f'"{each}":{{}}'.format) for each in keys)).map(list)
    objects = st.builds(
        lambda parts, comma, before, end: (before + "{" + comma.join(parts) + "}" + end).encode(),
        st.one_of(members, st.builds(list.__add__, complete, members)),
        st.sampled_from([",", ", ", " ,"]),
        st.sampled_from(["", "", " ", "\ufeff"]),
        st.sampled_from(["", "", "\r", " ", "x"]),
    )
    return st.one_of(objects, objects, objects, st.sampled_from(ODD_LINES))


def hard_files(keys: Sequence[str], usual: Sequence[str]) -> st.SearchStrategy[bytes]:
    """Some hard lines together."""
    return st.lists(hard_lines(keys, usual), max_size=8).map(b"\n".join)
