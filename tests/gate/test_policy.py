"""The first rule that matches decides; a condition that cannot be judged lets no call run; a mistake is one line."""

import dataclasses
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adkwire.errors import ConfigError
from adkwire.gate.conditions import OPERATORS
from adkwire.gate.policy import Action, Decision, Policy, Rule

HUGE = 10**400


def outcome(when: Any, **args: Any) -> str:
    """Return whether a condition holds (by an `allow` rule) or cannot be judged (by a `deny` rule)."""
    allowed = Rule("t", "allow", when=when).applies("t", args)
    denied = Rule("t", "deny", when=when).applies("t", args)
    assert denied or not allowed
    return "holds" if allowed else "unclear" if denied else "fails"


class TestConditions:
    @pytest.mark.parametrize(
        ("condition", "value", "expected"),
        [
            ("USD", "USD", "holds"),
            ("USD", "usd", "fails"),
            ("USD", "", "fails"),
            ("USD", 5, "unclear"),
            ("USD", None, "unclear"),
            ("USD", ["USD"], "unclear"),
            ("", "", "holds"),
            (5, 5, "holds"),
            (5, 5.0, "holds"),
            (5, 6, "fails"),
            (5, "5", "unclear"),
            (1, True, "unclear"),
            (0, False, "unclear"),
            (True, True, "holds"),
            (True, False, "fails"),
            (True, 1, "unclear"),
            (True, "true", "unclear"),
            ([1, "a"], [1, "a"], "holds"),
            ([1, "a"], (1, "a"), "holds"),
            ([1, "a"], [1], "fails"),
            ([1, "a"], ["a", 1], "unclear"),
            ([1], [True], "unclear"),
            ([1], [math.nan], "unclear"),
            ([], [], "holds"),
            ({"eq": {"a": {"b": 1}}}, {"a": {"b": 1.0}}, "holds"),
            ({"eq": {"a": 1}}, {"a": 2}, "fails"),
            ({"eq": {"a": 1}}, {"a": 1, "b": 1}, "fails"),
            ({"eq": {"a": True}}, {"a": 1}, "unclear"),
            ({"eq": None}, None, "holds"),
            ({"eq": None}, 0, "fails"),
            ({"ne": None}, "x", "holds"),
            ({"ne": "bob"}, "eve", "holds"),
            ({"ne": "bob"}, "bob", "fails"),
            ({"ne": "bob"}, 5, "unclear"),
            ({"ne": 1}, True, "unclear"),
        ],
    )
    def test_equality_is_of_values_of_one_type(self, condition: Any, value: Any, expected: str) -> None:
        assert outcome({"x": condition}, x=value) == expected

    @pytest.mark.parametrize(
        ("operator", "below", "same", "above"),
        [
            ("lt", "holds", "fails", "fails"),
            ("le", "holds", "holds", "fails"),
            ("gt", "fails", "fails", "holds"),
            ("ge", "fails", "holds", "holds"),
        ],
    )
    def test_numbers_are_ordered(self, operator: str, below: str, same: str, above: str) -> None:
        for value, expected in [(-HUGE, below), (9.99, below), (10, same), (10.0, same), (10.01, above), (HUGE, above)]:
            assert outcome({"x": {operator: 10}}, x=value) == expected

    @pytest.mark.parametrize("operator", ["lt", "le", "gt", "ge"])
    @pytest.mark.parametrize("value", ["5", True, None, [5], {"a": 5}, math.nan, math.inf, -math.inf, b"5", object()])
    def test_only_numbers_are_ordered(self, operator: str, value: Any) -> None:
        assert outcome({"x": {operator: 10}}, x=value) == "unclear"

    @pytest.mark.parametrize("condition", [1.5, {"ne": 1.5}, {"in": [1.5]}, {"not_in": [1.5]}])
    def test_nan_is_neither_equal_nor_unequal(self, condition: Any) -> None:
        assert outcome({"x": condition}, x=math.nan) == "unclear"

    @pytest.mark.parametrize(
        ("wanted", "value", "inside"),
        [
            (["a", "b"], "b", "holds"),
            (["a", "b"], "c", "fails"),
            (["a", "b"], "A", "fails"),
            (["a", "b"], 1, "unclear"),
            (["a", "b"], ["a"], "unclear"),
            (["a", 1], "b", "fails"),
            (["a", 1], 1.0, "holds"),
            (["a", 1], True, "unclear"),
            (["a", None], None, "holds"),
            (["a", None], 5, "unclear"),
            (("a", "b"), "a", "holds"),
        ],
    )
    def test_lists(self, wanted: Any, value: Any, inside: str) -> None:
        opposite = {"holds": "fails", "fails": "holds", "unclear": "unclear"}
        assert outcome({"x": {"in": wanted}}, x=value) == inside
        assert outcome({"x": {"not_in": wanted}}, x=value) == opposite[inside]

    @pytest.mark.parametrize(
        ("glob", "value", "expected"),
        [
            ("*@example.com", "a@example.com", "holds"),
            ("*@example.com", "a@example.com.evil.org", "fails"),
            ("*@example.com", "a@example.com\n", "fails"),
            ("*@example.com", "a@EXAMPLE.com", "fails"),
            ("/tmp/?", "/tmp/a", "holds"),
            ("/tmp/?", "/tmp/ab", "fails"),
            ("a*b", "a\n\nb", "holds"),
            ("*", 5, "unclear"),
            ("*", None, "unclear"),
            ("*", ["a"], "unclear"),
        ],
    )
    def test_globs_cover_the_whole_text(self, glob: str, value: Any, expected: str) -> None:
        assert outcome({"x": {"matches": glob}}, x=value) == expected

    def test_all_operators_and_all_arguments_must_hold(self) -> None:
        when = {"amount": {"gt": 10, "le": 20}, "currency": "USD"}
        assert outcome(when, amount=20, currency="USD") == "holds"
        assert outcome(when, amount=21, currency="USD") == "fails"
        assert outcome(when, amount=20, currency="EUR") == "fails"
        assert outcome(when, amount=20) == "unclear"

    def test_what_surely_fails_is_not_saved_by_what_is_unclear(self) -> None:
        assert outcome({"amount": {"gt": 10}, "currency": "USD"}, amount="lots", currency="EUR") == "fails"

    @pytest.mark.parametrize(
        ("args", "expected"),
        [
            ({"to": {"bank": {"country": "JP"}}}, "holds"),
            ({"to": {"bank": {"country": "US"}}}, "fails"),
            ({"to": {"bank": {}}}, "unclear"),
            ({"to": {"bank": "country"}}, "unclear"),
            ({"to": [{"bank": {"country": "JP"}}]}, "unclear"),
            ({"to": None}, "unclear"),
            ({}, "unclear"),
        ],
    )
    def test_dots_reach_into_objects(self, args: dict[str, Any], expected: str) -> None:
        assert outcome({"to.bank.country": "JP"}, **args) == expected

    def test_a_key_with_dots_does_not_stand_in_for_a_nested_argument(self) -> None:
        assert outcome({"to.limit": {"le": 10}}, **{"to.limit": 1, "to": {"limit": 1000}}) == "fails"
        assert outcome({"to.limit": {"le": 10}}, **{"to.limit": 1}) == "unclear"


def _without_parameters() -> bool:
    return True


NOT_JUDGING: list[Any] = [
    _without_parameters,
    *list[Callable[[dict[str, Any]], Any]](
        [
            lambda args: args["missing"],
            lambda args: 1 / 0,
            lambda args: None,
            lambda args: 1,
            lambda args: "no",
            lambda args: [args],
        ]
    ),
]


class TestFunctions:
    def test_a_function_judges(self) -> None:
        def large(args: Mapping[str, Any]) -> bool:
            return args["amount"] > 100

        assert outcome(large, amount=101) == "holds"
        assert outcome(large, amount=100) == "fails"

    @pytest.mark.parametrize("function", NOT_JUDGING)
    def test_what_raises_or_is_no_bool_is_unclear(self, function: Any) -> None:
        assert outcome(function, amount=1) == "unclear"

    def test_a_function_cannot_change_the_call(self) -> None:
        def greedy(args: dict[str, Any]) -> bool:
            args["to"]["name"] = "eve"
            return args.pop("amount") == 1

        args = {"amount": 1, "to": {"name": "bob"}}
        assert Policy([Rule("t", "ask", when=greedy)]).decide("t", args, asks=False).action == "ask"
        assert args == {"amount": 1, "to": {"name": "bob"}}

    def test_an_async_function_is_refused(self) -> None:
        async def late(args: Mapping[str, Any]) -> bool:
            return False

        with pytest.raises(ConfigError, match=r"^when is an async function; expected a plain one$"):
            Rule("t", "allow", when=late)  # pyright: ignore[reportArgumentType]


class TestDecide:
    @pytest.mark.parametrize("policy", [Policy(), Policy([Rule("other", "deny")]), Policy(deny=["GET_*"])])
    def test_without_a_match_the_tool_decides(self, policy: Policy) -> None:
        assert policy.decide("get_x", {}, asks=False) == Decision("allow", rule="default")
        assert policy.decide("get_x", {}, asks=True) == Decision("ask", rule="default")

    def test_a_rule_wins_over_the_tool(self) -> None:
        policy = Policy([Rule("a", "allow"), Rule("b", "ask")])
        assert policy.decide("a", {}, asks=True).action == "allow"
        assert policy.decide("b", {}, asks=False).action == "ask"

    def test_the_first_match_wins_and_is_named(self) -> None:
        policy = Policy([Rule("pay_*", "allow", when={"amount": {"lt": 10}}), Rule("pay_*", "ask"), Rule("*", "deny")])
        assert policy.decide("pay_bill", {"amount": 9}, asks=True) == Decision("allow", rule="rule 1: pay_*")
        assert policy.decide("pay_bill", {"amount": 10}, asks=True) == Decision("ask", rule="rule 2: pay_*")
        assert policy.decide("pay_bill", {"amount": "9"}, asks=True) == Decision("ask", rule="rule 2: pay_*")
        assert policy.decide("Pay_bill", {"amount": 9}, asks=True) == Decision("deny", rule="rule 3: *")

    def test_everything_a_rule_says_is_in_the_decision(self) -> None:
        message: dict[str, Any] = {"grant": "never", "timeout": 60, "hint": "h", "reason": "r", "retry": True}
        decision = Policy([Rule("t", "ask", **message)]).decide("t", {}, asks=False)
        assert decision == Decision("ask", **message, rule="rule 1: t")

    def test_lists_come_after_the_rules_and_the_strictest_first(self) -> None:
        policy = Policy([Rule("a", "allow")], auto_approve=["*"], require_approval=["a", "b", "c"], deny=("a", "b"))
        decisions = {tool: policy.decide(tool, {}, asks=True) for tool in "abcd"}
        assert {tool: (each.action, each.rule) for tool, each in decisions.items()} == {
            "a": ("allow", "rule 1: a"),
            "b": ("deny", "deny: b"),
            "c": ("ask", "require_approval: c"),
            "d": ("allow", "auto_approve: *"),
        }

    def test_nothing_changes_a_policy_later(self) -> None:
        currencies, rules = ["USD"], list[Rule]()
        when = {"currency": {"in": currencies}}
        rules.append(Rule("pay", "allow", when=when))
        policy = Policy(rules, deny=["*"])
        currencies.append("EUR")
        when.clear()
        rules.clear()
        assert policy.decide("pay", {"currency": "USD"}, asks=False).action == "allow"
        assert policy.decide("pay", {"currency": "EUR"}, asks=False).action == "deny"
        with pytest.raises(dataclasses.FrozenInstanceError):
            policy.rules = ()  # pyright: ignore[reportAttributeAccessIssue]

    def test_rules_can_be_compared_and_replaced(self) -> None:
        rule = Rule("pay", "ask", when={"amount": {"gt": 5}, "currency": "USD"})
        assert dataclasses.replace(rule, action="deny") == Rule("pay", "deny", when=rule.when)
        assert Policy([rule]) != Policy([dataclasses.replace(rule, action="deny")])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
FINITE = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner | st.none(), max_size=3),
    max_leaves=4,
)
GLOBS = st.text("ab*?[]!-^\\&|~.", min_size=1, max_size=6)
NUMBERS = st.integers(-3, 3) | st.floats(-3, 3)
OPERANDS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(["eq", "ne"], FINITE),
    **dict.fromkeys(["lt", "le", "gt", "ge"], NUMBERS),
    **dict.fromkeys(["in", "not_in"], st.lists(FINITE, min_size=1, max_size=3)),
    "matches": GLOBS,
}
CONDITIONS = st.dictionaries(
    st.sampled_from(["a", "b", "a.b", "b.a.c"]),
    st.sampled_from(sorted(OPERANDS)).flatmap(lambda name: st.fixed_dictionaries({name: OPERANDS[name]})),
    min_size=1,
    max_size=2,
)
RULES = st.builds(
    Rule,
    GLOBS | st.just("*"),
    st.sampled_from(get_args(Action)),
    when=st.none() | CONDITIONS,
)
ARGS = st.dictionaries(st.sampled_from("abc"), JSON | NUMBERS, max_size=3)
TOOLS = st.text("ab[]", max_size=3)


class TestProperties:
    def test_every_operator_is_tried(self) -> None:
        assert OPERANDS.keys() == OPERATORS.keys()

    @settings(max_examples=300, deadline=None)
    @given(st.lists(RULES, max_size=4), TOOLS, ARGS, st.booleans())
    def test_there_is_always_a_decision_and_it_is_that_of_the_first_match(
        self, rules: list[Rule], tool: str, args: dict[str, Any], asks: bool
    ) -> None:
        decision = Policy(rules).decide(tool, args, asks=asks)
        matching = [rule for rule in rules if Policy([rule]).decide(tool, args, asks=asks).rule != "default"]
        default: Action = "ask" if asks else "allow"
        assert decision.action == (matching[0].action if matching else default)

    @settings(max_examples=300, deadline=None)
    @given(CONDITIONS, ARGS)
    def test_asking_and_denying_are_never_narrower_than_allowing(
        self, when: dict[str, Any], args: dict[str, Any]
    ) -> None:
        applies = {action: Rule("t", action, when=when).applies("t", args) for action in ("allow", "ask", "deny")}
        assert applies["ask"] == applies["deny"] >= applies["allow"]

    @settings(max_examples=300, deadline=None)
    @given(NUMBERS, NUMBERS, st.sampled_from([("lt", "ge"), ("gt", "le"), ("eq", "ne")]))
    def test_opposites_of_numbers_are_opposite(self, value: float, limit: float, pair: tuple[str, str]) -> None:
        one, other = (outcome({"x": {operator: limit}}, x=value) for operator in pair)
        assert {one, other} == {"holds", "fails"}

    @settings(max_examples=200, deadline=None)
    @given(st.lists(GLOBS, max_size=3), st.lists(GLOBS, max_size=3), st.lists(GLOBS, max_size=3), TOOLS, st.booleans())
    def test_lists_are_the_rules_they_stand_for(
        self, allow: list[str], ask: list[str], deny: list[str], tool: str, asks: bool
    ) -> None:
        expected = ["deny"] * any(fnmatchcase(tool, glob) for glob in deny)
        expected += ["ask"] * any(fnmatchcase(tool, glob) for glob in ask)
        expected += ["allow"] * any(fnmatchcase(tool, glob) for glob in allow)
        policy = Policy(auto_approve=allow, require_approval=ask, deny=deny)
        assert policy.decide(tool, {}, asks=asks).action == [*expected, "ask" if asks else "allow"][0]

    def test_deep_arguments_are_no_trouble(self) -> None:
        def has_x(args: dict[str, Any]) -> bool:
            return "x" in args

        deep: Any = []
        for _ in range(100_000):
            deep = [deep]
        assert outcome({"x": [[["a"]]]}, x=deep) == "unclear"
        assert outcome(has_x, x=deep) == "unclear"


class TestMistakesInPython:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"tool": ""}, 'tool is ""; expected one tool\'s name or a glob, without spaces'),
            ({"tool": "a, b"}, 'tool is "a, b"; expected one tool\'s name or a glob, without spaces'),
            ({"tool": None}, "tool is null; expected one tool's name or a glob, without spaces"),
            ({"action": "alow"}, 'action is "alow"; expected one of allow, ask, deny'),
            ({"action": ["allow"]}, "action is a list; expected one of allow, ask, deny"),
            ({"grant": "once"}, 'grant is "once"; expected one of tool, same-arguments, never'),
            ({"hint": 5}, "hint is 5; expected a text"),
            ({"reason": " "}, 'reason is " "; expected a text'),
            ({"retry": "yes"}, 'retry is "yes"; expected true or false'),
            ({"retry": 1}, "retry is 1; expected true or false"),
            ({"when": {}}, "when is empty; expected conditions, or a function"),
            ({"when": "amount > 5"}, 'when is "amount > 5"; expected conditions, or a function'),
            ({"when": {"a": None}}, 'when "a": is null; expected a value, or operators such as eq'),
            ({"when": {"a": {}}}, 'when "a": is empty; expected a value, or operators such as eq'),
            ({"when": {"a": {"lt": "5"}}}, 'when "a": lt is "5"; expected a number'),
            ({"when": {"a": {"ge": True}}}, 'when "a": ge is true; expected a number'),
            ({"when": {"a": {"gt": math.nan}}}, 'when "a": gt is NaN; expected a number'),
            ({"when": {"a": {"in": "ab"}}}, 'when "a": in is "ab"; expected a list with at least one value'),
            (
                {"when": {"a": {"not_in": []}}},
                'when "a": not_in is an empty list; expected a list with at least one value',
            ),
            (
                {"when": {"a": {"matches": 5}}},
                'when "a": matches is 5; expected a text, with * and ? for what may vary',
            ),
        ],
    )
    def test_a_rule_says_what_is_wrong(self, given: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError) as error:
            Rule(**dict[str, Any]({"tool": "t", "action": "ask"}) | given)
        assert str(error.value) == message

    @pytest.mark.parametrize("timeout", [0, -1, -0.0, math.nan, math.inf, True, "60", 10**12, HUGE])
    def test_timeouts_are_positive_and_at_most_ten_years(self, timeout: Any) -> None:
        with pytest.raises(ConfigError, match=r"^timeout is .*; expected seconds, more than 0 and at most 315360000"):
            Rule("t", "ask", timeout=timeout)

    @pytest.mark.parametrize("timeout", [None, 1, 0.5, 315_360_000])
    def test_other_timeouts_are_taken(self, timeout: float | None) -> None:
        assert Rule("t", "ask", timeout=timeout).timeout == timeout

    @pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", 5, None])
    def test_arguments_have_names(self, name: Any) -> None:
        with pytest.raises(ConfigError, match="expected an argument's name"):
            Rule("t", "ask", when={name: 5})

    @pytest.mark.parametrize("value", [math.nan, math.inf, b"x", {1, 2}, [object()], [[math.nan]]])
    @pytest.mark.parametrize("operator", ["eq", "ne"])
    def test_values_are_what_json_can_say(self, operator: str, value: Any) -> None:
        with pytest.raises(ConfigError, match=f'^when "a": {operator}: value is .*; expected a text, a finite number'):
            Rule("t", "ask", when={"a": {operator: value}})

    def test_the_error_of_an_unknown_operator_shows_a_nested_argument(self) -> None:
        with pytest.raises(ConfigError) as error:
            Rule("t", "ask", when={"to": {"city": "Oslo"}})
        assert str(error.value) == (
            'when "to": unknown operator "city"; expected one of eq, ne, lt, le, gt, ge, in, not_in, matches '
            '(a nested argument is written "to.city")'
        )

    @pytest.mark.parametrize("name", ["rules", "auto_approve", "require_approval", "deny"])
    @pytest.mark.parametrize("value", ["get_*", b"x", {"a": 1}, None, 5, Rule("t", "ask")])
    def test_lists_are_lists(self, name: str, value: Any) -> None:
        with pytest.raises(ConfigError, match=rf"^{name} is .*; expected a list$"):
            Policy(**{name: value})

    def test_lists_hold_what_they_should(self) -> None:
        with pytest.raises(ConfigError, match=r"^rules is an object; expected Rule objects only$"):
            Policy([{"tool": "t", "action": "ask"}])  # pyright: ignore[reportArgumentType]
        with pytest.raises(ConfigError, match=r"^deny: tool is 5; expected one tool's name"):
            Policy(deny=["a", 5])  # pyright: ignore[reportArgumentType]


TOML = """
deny = ["drop_*"]
auto_approve = ["get_*"]

[[rule]]
tool = "pay"
action = "allow"
when = { amount = { gt = 0, le = 10 }, currency = "USD", "to.country" = { in = ["JP", "US"] } }

[[rule]]
tool = "pay"
action = "ask"
grant = "same-arguments"
timeout = 60
hint = "Costs money."
reason = "r"
retry = true
"""
YAML = """
deny: [drop_*]
auto_approve:
  - get_*
rule:
  - tool: pay
    action: allow
    when:
      amount: {gt: 0, le: 10}
      currency: USD
      to.country: {in: [JP, US]}
  - {tool: pay, action: ask, grant: same-arguments, timeout: 60, hint: Costs money., reason: r, retry: true}
"""
MEANT = Policy(
    [
        Rule(
            "pay",
            "allow",
            when={"amount": {"gt": 0, "le": 10}, "currency": "USD", "to.country": {"in": ["JP", "US"]}},
        ),
        Rule(
            "pay",
            "ask",
            grant="same-arguments",
            timeout=60,
            hint="Costs money.",
            reason="r",
            retry=True,
        ),
    ],
    deny=["drop_*"],
    auto_approve=["get_*"],
)


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def complaint(path: Path) -> str:
    """Return the error about a file, without its name."""
    with pytest.raises(ConfigError) as error:
        Policy.load(path)
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    assert len(text.splitlines()) == 1
    return text.removeprefix(f"{path}: ")


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("p.toml", TOML),
            ("p.TOML", TOML),
            ("p.yaml", YAML),
            ("p.yml", YAML),
            ("p.toml", "\ufeff" + TOML),
            ("p.yaml", "\ufeff" + YAML),
            ("p.toml", TOML.replace("\n", "\r\n")),
        ],
    )
    def test_all_forms_say_the_same(self, name: str, text: str, tmp_path: Path) -> None:
        path = written(tmp_path, name, text)
        assert Policy.load(path) == Policy.load(str(path)) == MEANT

    @pytest.mark.parametrize("name", ["p.toml", "p.yaml"])
    def test_an_empty_file_is_an_empty_policy(self, name: str, tmp_path: Path) -> None:
        assert Policy.load(written(tmp_path, name, "# nothing yet\n")) == Policy()

    def test_yaml_may_repeat_itself_by_anchors(self, tmp_path: Path) -> None:
        text = "rule:\n- &a {tool: a, action: ask, hint: h}\n- {<<: *a, tool: b}\n"
        assert Policy.load(written(tmp_path, "p.yaml", text)).rules[1] == Rule("b", "ask", hint="h")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('rules = ["x"]', 'unknown key "rules"; expected one of rule, deny, require_approval, auto_approve'),
            ('deny = "x"', 'deny is "x"; expected a list'),
            ("deny = [5]", "deny: tool is 5; expected one tool's name or a glob, without spaces"),
            ('[rule]\ntool = "x"', "rule is an object; expected a list of rules ([[rule]] in TOML)"),
            ("rule = [5]", "rule 1: is 5; expected keys with values"),
            (
                '[[rule]]\ntool = "x"\naction = "ask"\n[[rule]]\ntool = "x"\nacton = "ask"',
                'rule 2: unknown key "acton"; expected one of tool, action, when, grant, timeout, hint, reason, retry',
            ),
            ('[[rule]]\ntool = "x"', 'rule 1: the key "action" is missing'),
            ('[[rule]]\naction = "ask"', 'rule 1: the key "tool" is missing'),
            ('[[rule]]\ntool = "x"\naction = "Ask"', 'rule 1: action is "Ask"; expected one of allow, ask, deny'),
            (
                '[[rule]]\ntool = "x"\naction = "ask"\nwhen.since = 2025-01-01',
                'rule 1: when "since": eq: value is of type date; '
                "expected a text, a finite number, true, false, null, or a list or object of these",
            ),
            (
                '[[rule]]\ntool = "x"\naction = "ask"\nwhen.a.gt = inf',
                'rule 1: when "a": gt is Infinity; expected a number',
            ),
            (
                '[[rule]]\ntool = "x"\naction = "ask"\nwhen = true',
                "rule 1: when is true; expected conditions, or a function",
            ),
            ("deny = [", None),
            ("deny = []\ndeny = []", None),
            (f"deny = {'[' * 5000}", None),
            (f"[[rule]]\ntimeout = 0x{'f' * 9000}\ntool = 'x'\naction = 'ask'", None),
        ],
    )
    def test_mistakes_in_toml(self, text: str, message: str | None, tmp_path: Path) -> None:
        decisions = complaint(written(tmp_path, "p.toml", text))
        assert message is None or decisions == message

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("- tool: x", "is a list; expected keys with values"),
            ("hello", 'is "hello"; expected keys with values'),
            ("5: x", "unknown key 5; expected one of rule, deny, require_approval, auto_approve"),
            ("deny:", "deny has no value; leave the key out or give it one"),
            (
                "rule:\n- {tool: x, action: allow, when: }",
                "rule 1: when has no value; leave the key out or give it one",
            ),
            ("rule: {tool: x, action: allow}", "rule is an object; expected a list of rules ([[rule]] in TOML)"),
            (
                "rule:\n- {tool: x, action: allow, when: {country: }}",
                'rule 1: when "country": is null; expected a value, or operators such as eq',
            ),
            ("deny: [a]\nrule: []\ndeny: [b]", 'cannot be understood: line 3: the key "deny" is there twice'),
            ("rule:\n- tool: a\n  tool: b", 'cannot be understood: line 3: the key "tool" is there twice'),
            ("rule: [", "cannot be understood: line 1: expected the node content, but found '<stream end>'"),
            ("deny: []\n---\ndeny: []", "cannot be understood: line 2: but found another document"),
            ("deny: !!python/object/apply:os.getcwd []", None),
            ("deny: !!timestamp x", None),
            ("deny: !!bool x", None),
            ("deny: 2025-99-99", None),
            ("? [a]\n: b", None),
            ("deny: \x00", None),
            (f"deny: {'[' * 5000}", "is nested too deeply"),
            ("rule:\n- {tool: x, action: ask, when: {a: {eq: &a [*a]}}}", "is nested too deeply"),
        ],
    )
    def test_mistakes_in_yaml(self, text: str, message: str | None, tmp_path: Path) -> None:
        decisions = complaint(written(tmp_path, "p.yaml", text))
        assert message is None or decisions == message

    def test_yaml_runs_nothing(self, tmp_path: Path) -> None:
        mark = tmp_path / "mark"
        text = f"deny: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path [{mark}]]"
        assert complaint(written(tmp_path, "p.yaml", text)).startswith(
            "cannot be understood: line 1: could not determine"
        )
        assert not mark.exists()

    @pytest.mark.parametrize("name", ["p.toml", "p.yaml"])
    def test_a_file_must_be_utf_8(self, name: str, tmp_path: Path) -> None:
        assert complaint(written(tmp_path, name, "# café".encode("latin-1"))) == "is not UTF-8 text"

    def test_a_file_must_be_there(self, tmp_path: Path) -> None:
        (tmp_path / "folder.toml").mkdir()
        assert complaint(tmp_path / "none.toml") == "cannot be read: No such file or directory"
        assert complaint(tmp_path / "folder.toml") == "cannot be read: Is a directory"

    @pytest.mark.parametrize("name", ["policy", "policy.json", ".toml"])
    def test_the_name_says_the_form(self, name: str, tmp_path: Path) -> None:
        decisions = complaint(written(tmp_path, name, TOML))
        assert decisions == "expected a file whose name ends in .toml, .yaml, .yml"


def test_a_policy_needs_neither_adk_nor_an_event_loop() -> None:
    code = "import sys, adkwire.gate.policy; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "yaml" in loaded
    assert loaded & {"google", "asyncio", "logging", "starlette"} == set()
