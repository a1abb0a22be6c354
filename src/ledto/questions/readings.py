"""Say how attributes are read in SQL: one rule for ``--where``, ``ledto sql``, subscriptions and conditions over HTTP.

- An attribute has the type of its values in the history (`ledto.history.attribute_types`).
- In a comparison, what it is compared with decides. With a number, it is read as a number, whatever its type; with true or
  false, as a boolean; with text in quotes, as text. What cannot be read so is null.
- Functions and operators of numbers read numbers, those of texts read texts. Others take it in its own type.
- Two attributes of an event are compared as numbers if both values are numbers, and as texts otherwise.
- Whole numbers are compared exactly, also those that no floating-point number can hold.

Expressions are trees of `ledto.questions.syntax`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from dataclasses import dataclass

from ledto.history.attribute_types import BOOLEAN, INTEGER, NULL, NUMBER, NUMERIC, TEXT
from ledto.history.errors import BadCondition
from ledto.questions.names import Attribute
from ledto.questions.operands import (
    ATTRIBUTE,
    PASS_ON,
    TAKE_NUMBERS,
    TAKE_TEXTS,
    UNKNOWN,
    nature_of_function,
    nature_of_kind,
)
from ledto.questions.syntax import Node, cast_type, children_of, constant_kind, constant_text, nodes_of

OWN, EXACT, FOR_CAST = "own", "exact", "for cast"
"""Ways to read an attribute, besides `NUMBER`, `BOOLEAN` and `TEXT`: in its own type, as a number of any length, and as
something that is cast to a number."""

COMPARISONS = frozenset({"COMPARISON", "BETWEEN"})
MEMBERSHIP = frozenset({"COMPARE_IN", "COMPARE_NOT_IN"})
ORDERED = ("COMPARE_LESS", "COMPARE_GREATER", "COMPARE_BETWEEN")
FIRST_INEXACT = 1 << 53
"""The first whole number whose successor no floating-point number can hold."""


@dataclass(frozen=True, slots=True)
class Referent:
    """What a name stands for, and the SQL that reads it."""

    type: str | None
    own: str
    """The SQL of its value in its own type."""
    attribute: Attribute | None = None
    """None for a stored column."""
    json: str | None = None
    """The SQL of the column that has the attributes as JSON; None if it cannot be read there, as after a grouping."""

    def text(self) -> str:
        """Make the SQL of the attribute's text, as JSON has it."""
        if self.type == NUMBER and self.attribute is not None and self.json is not None:
            return self.attribute.text(self.json)
        return f"CAST({self.own} AS VARCHAR)" if self.type in (INTEGER, NUMBER, BOOLEAN) else self.own

    def is_number(self) -> str | None:
        """Make the SQL that tells whether the attribute's value is a number; None if that cannot be told."""
        return None if self.attribute is None or self.json is None else self.attribute.is_number(self.json)

    def read(self, way: str) -> str:
        """Make the SQL that reads the attribute in one of the ways."""
        if way == OWN or (way == NUMBER and self.type in NUMERIC) or way == self.type:
            return self.own
        if way == BOOLEAN:
            return f"TRY_CAST({self.text()} AS BOOLEAN)"
        if way == FOR_CAST:
            text = self.text()
            whole = self.type in (INTEGER, BOOLEAN)
            return self.own if whole else f"CASE {text} WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE {text} END"
        if way == NUMBER:
            number = f"TRY_CAST({self.text()} AS DOUBLE)"
            return f"CASE WHEN isfinite({number}) THEN {number} END"
        return exact(self.own if self.type == INTEGER else self.text()) if way == EXACT else self.text()


def exact(value: str) -> str:
    """Make the SQL of something that compares as the number does; null if it is none. Both sides have to be so made."""
    number = f"TRY_CAST({value} AS DOUBLE)"
    whole = f"CASE WHEN abs({number}) >= {FIRST_INEXACT} THEN TRY_CAST({value} AS HUGEINT) END"
    return f"CASE WHEN isfinite({number}) THEN {{'rounded': {number}, 'whole': {whole}}} END"


class Readings(ABC):
    """Replaces the names of attributes in a tree by names of readings; `sql` has the SQL of each of these."""

    mark = "reading "
    """What names of readings begin with."""

    def __init__(self) -> None:
        self.sql: dict[str, str] = {}
        self.changes = 0
        """How often something was replaced that DuckDB would have read otherwise."""
        self._names: dict[str, str] = {}
        self._parameters: list[str] = []
        """The parameters of the lambdas around the expression, which hide attributes of the same names."""

    @abstractmethod
    def find(self, parts: list[str]) -> Referent | None:
        """Find what a name stands for; None if it is neither a column nor an attribute."""

    @abstractmethod
    def replace_own(self, node: Node, referent: Referent) -> None:
        """Replace the name of a column, or of an attribute that is read in its own type."""

    @abstractmethod
    def visit_subquery(self, node: Node) -> None:
        """Replace names in a query inside an expression."""

    def replace(self, node: Node, sql: str) -> None:
        """Put the name of a reading in the place of an expression."""
        name = self._names.setdefault(sql, f"{self.mark}{len(self._names)}")
        self.sql[name] = sql
        self.changes += 1
        alias = node.get("alias", "")
        node.clear()
        node.update({"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": alias, "column_names": [name]})

    def visit(self, node: Node, way: str = OWN) -> None:
        """Replace every name inside an expression that is itself read in this way."""
        kind, form = node.get("class"), node.get("type")
        function = str(node.get("function_name")).lower()
        if kind == "COLUMN_REF":
            self._visit_name(node, way)
        elif kind == "SUBQUERY":
            if node.get("child"):
                self.visit(node["child"])
            self.visit_subquery(node["subquery"])
        elif kind in COMPARISONS or form in MEMBERSHIP:
            self._compare(node)
        elif kind == "CONJUNCTION" or form == "OPERATOR_NOT":
            self._visit_parts(node, BOOLEAN)
        elif kind == "CASE":
            for check in node["case_checks"]:
                self.visit(check["when_expr"], BOOLEAN)
                self.visit(check["then_expr"], way)
            self.visit(node["else_expr"], way)
        elif kind == "LAMBDA":
            self._visit_lambda(node)
        elif function == "//":
            self._divide(node)
        elif function in PASS_ON or form == "OPERATOR_COALESCE":
            self._visit_function(node, way)
        elif kind == "CAST":
            self._visit_cast(node)
        elif function in TAKE_TEXTS:
            self._visit_function(node, TEXT)
        else:
            self._visit_function(node, NUMBER if function in TAKE_NUMBERS else OWN)

    def _visit_function(self, node: Node, way: str) -> None:
        """Replace names in the arguments of a function, read in this way, and in what else it may have."""
        for name, part in list(node.items()):
            if name in ("filter", "filter_expr") and part:
                self.visit(part, BOOLEAN)
            else:
                self._visit_parts({name: part}, way if name in ("arguments", "children") else OWN)

    def _visit_cast(self, node: Node) -> None:
        target = nature_of_kind(cast_type(node))
        referent = self._find(node["child"])
        if referent is not None and referent.attribute is not None and not node.get("try_cast"):
            # What cannot be read is null, here as well.
            node["try_cast"] = True
            self.changes += 1
        self.visit(node["child"], {NUMBER: FOR_CAST, UNKNOWN: OWN}.get(target, target))

    def _visit_parts(self, node: Node, way: str) -> None:
        for part in list(children_of(node)):
            self.visit(part, way)

    def _visit_lambda(self, node: Node) -> None:
        hidden = [name for part in nodes_of(node["lhs"]) for name in part.get("column_names", ())[:1]]
        self._parameters += hidden
        self.visit(node["expr"])
        del self._parameters[len(self._parameters) - len(hidden) :]

    def _visit_name(self, node: Node, way: str) -> None:
        referent = self._find(node)
        if referent is None:
            return
        if referent.attribute is None or referent.read(way) == referent.own:
            self.replace_own(node, referent)
        else:
            self.replace(node, referent.read(way))

    def _find(self, node: Node) -> Referent | None:
        parts = node.get("column_names", ())
        if node.get("class") != "COLUMN_REF" or parts[0] in self._parameters:
            return None
        return self.find(list(parts))

    def _divide(self, node: Node) -> None:
        """Divide whole numbers as whole numbers, whatever the type of the attribute: DuckDB's // of others does not."""
        whole = all(
            referent.type == INTEGER or referent.attribute is None
            for part in children_of(node)
            if (referent := self._find(part)) is not None
        )
        self._visit_function(node, NUMBER)
        if not whole:
            divided = deepcopy(node)
            _rename(divided, "/")
            _rename(node, "trunc")
            node["is_operator"] = False
            arguments = "arguments" if "arguments" in node else "children"
            node[arguments] = [{"name": "", "expression": divided}] if arguments == "arguments" else [divided]

    def _compare(self, node: Node) -> None:
        """Replace the names in a comparison: what an attribute is compared with decides how it is read."""
        operands = list(children_of(node))
        natures = [self._nature(operand) for operand in operands]
        if node["type"] in MEMBERSHIP and {NUMBER, TEXT} <= {*natures[1:]} and natures[0] == ATTRIBUTE:
            self._split(node, natures)
            return
        way = next((nature for nature in (NUMBER, BOOLEAN, TEXT) if nature in natures), OWN)
        if way == OWN and natures and {*natures} == {ATTRIBUTE}:
            self._compare_attributes(node, operands)
            return
        if way == TEXT and node["type"].startswith(ORDERED):
            self._refuse_quoted_numbers(operands)
        if way == NUMBER and self._needs_exact(operands):
            for operand in operands:
                self._make_exact(operand)
            return
        for operand in operands:
            self.visit(operand, way)

    def _split(self, node: Node, natures: list[str]) -> None:
        """Ask a list of numbers and texts as two lists."""
        first, *rest = node["children"]
        halves = []
        for wanted in (True, False):
            chosen = [part for part, nature in zip(rest, natures[1:], strict=True) if (nature == NUMBER) is wanted]
            halves.append({**node, "alias": "", "children": [deepcopy(first), *chosen]})
        joined = "CONJUNCTION_OR" if node["type"] == "COMPARE_IN" else "CONJUNCTION_AND"
        node["class"], node["type"], node["children"] = "CONJUNCTION", joined, halves
        for half in halves:
            self._compare(half)

    def _compare_attributes(self, node: Node, operands: list[Node]) -> None:
        referents = [referent for operand in operands if (referent := self._find(operand)) is not None]
        types = {referent.type for referent in referents}
        if len(referents) < len(operands) or types <= NUMERIC or types == {BOOLEAN}:
            way = OWN
        elif len({referent.json for referent in referents}) > 1 or referents[0].json is None:
            # Of two events, as in a join, or of no single one: DuckDB needs plain comparisons to be quick.
            way = OWN if len(types) == 1 else TEXT
        elif node["class"] == "COMPARISON":
            self._compare_values(node, referents)
            return
        else:
            self._expand(node, operands)
            return
        for operand in operands:
            self.visit(operand, way)

    def _expand(self, node: Node, operands: list[Node]) -> None:
        """Write BETWEEN and IN as comparisons of two."""
        first, *rest = operands
        between = node["class"] == "BETWEEN"
        negative = node["type"] == "COMPARE_NOT_IN"
        forms = (
            ("COMPARE_GREATERTHANOREQUALTO", "COMPARE_LESSTHANOREQUALTO") if between else ("COMPARE_EQUAL",) * len(rest)
        )
        comparisons = [
            {
                "class": "COMPARISON",
                "type": "COMPARE_NOTEQUAL" if negative else form,
                "alias": "",
                "left": deepcopy(first),
                "right": second,
            }
            for form, second in zip(forms, rest, strict=True)
        ]
        node.clear()
        joined = "CONJUNCTION_AND" if between or negative else "CONJUNCTION_OR"
        node.update({"class": "CONJUNCTION", "type": joined, "alias": "", "children": comparisons})
        for comparison in comparisons:
            self._compare(comparison)

    def _compare_values(self, node: Node, referents: list[Referent]) -> None:
        """Compare two attributes of an event: as numbers if both values are, and otherwise as texts."""
        numbers, texts = deepcopy(node), deepcopy(node)
        for side, referent in zip(("left", "right"), referents, strict=True):
            self.replace(numbers[side], referent.read(EXACT))
            self.replace(texts[side], referent.read(TEXT))
        both: Node = {}
        self.replace(both, " AND ".join(filter(None, (referent.is_number() for referent in referents))))
        node.clear()
        check = {"when_expr": both, "then_expr": numbers}
        node.update({"class": "CASE", "type": "CASE_EXPR", "alias": "", "case_checks": [check], "else_expr": texts})

    def _refuse_quoted_numbers(self, operands: list[Node]) -> None:
        """Raise `BadCondition` if a number is to be ordered among texts, where 1000 comes before 500."""
        numeric = [found for operand in operands if (found := self._find(operand)) and found.type in NUMERIC]
        for name in (found.attribute.name for found in numeric if found.attribute):
            for operand in operands:
                text = constant_text(operand) if operand.get("class") == "CONSTANT" else ""
                if _is_number(text):
                    raise BadCondition(f"{name} is a number: compare it with {text.strip()}, without quotes")

    def _needs_exact(self, operands: list[Node]) -> bool:
        """Tell whether numbers are compared that a floating-point number may not hold."""
        referents = [self._find(operand) for operand in operands]
        simple = all(
            found or operand.get("class") == "CONSTANT" for found, operand in zip(referents, operands, strict=True)
        )
        rounded = any(found and found.attribute and found.type != INTEGER for found in referents)
        return (
            simple
            and rounded
            and any(
                found.type == INTEGER if found else _is_long(constant_text(operand))
                for found, operand in zip(referents, operands, strict=True)
            )
        )

    def _make_exact(self, operand: Node) -> None:
        referent = self._find(operand)
        if referent is None:
            self.replace(operand, exact(constant_text(operand) or "NULL"))
        elif referent.attribute is None:
            self.replace(operand, exact(referent.own))
        else:
            self.replace(operand, referent.read(EXACT))

    def _nature(self, node: Node) -> str:
        """Say what an operand is: a number, a boolean, a text, null, an attribute, or unknown."""
        kind, form = node.get("class"), str(node.get("type"))
        function = str(node.get("function_name")).lower()
        if kind == "COLUMN_REF":
            referent = self._find(node)
            if referent is None:
                return UNKNOWN
            return ATTRIBUTE if referent.attribute else NUMBER if referent.type in NUMERIC else referent.type or TEXT
        if kind == "CONSTANT":
            return nature_of_kind(constant_kind(node))
        if kind == "CAST":
            return nature_of_kind(cast_type(node))
        if (
            kind in ("COMPARISON", "CONJUNCTION", "BETWEEN")
            or form in MEMBERSHIP
            or form.startswith(("OPERATOR_NOT", "OPERATOR_IS"))
        ):
            return BOOLEAN
        if kind == "CASE":
            parts = [check["then_expr"] for check in node["case_checks"]] + [node["else_expr"]]
        elif form == "OPERATOR_COALESCE" or function in PASS_ON:
            parts = list(children_of({name: part for name, part in node.items() if name != "filter"}))
        else:
            return nature_of_function(function)
        natures = {self._nature(part) for part in parts}
        return next((nature for nature in (NUMBER, BOOLEAN, TEXT, ATTRIBUTE, UNKNOWN) if nature in natures), NULL)


def _rename(node: Node, function: str) -> None:
    node["function_name"] = function
    if "qualified_name" in node:
        node["qualified_name"] = {"path": [function]}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_long(text: str) -> bool:
    try:
        return abs(int(text)) >= FIRST_INEXACT
    except ValueError:
        return False
