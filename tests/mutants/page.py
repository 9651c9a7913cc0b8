"""Mutants of the page: only a browser notices what breaks when one of its rules is broken.

No other test runs the page: the npm tests are about `web/client`, and types say nothing about behaviour.
"""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "the token stays in the address",
        "web/app/src/transport/token.ts",
        '    history.replaceState(null, "", location.pathname + location.search + (rest && `#${rest}`));\n',
        "    void rest;\n",
        "e2e/test_page.py::test_token[token_in_the_address_is_taken_and_hidden]",
    ),
    Mutant(
        "the token of one tab is everybody's",
        "web/app/src/transport/token.ts",
        "  read: (): string | null => sessionStorage.getItem(KEY),\n"
        "  write: (value: string): void => sessionStorage.setItem(KEY, value),\n",
        "  read: (): string | null => localStorage.getItem(KEY),\n"
        "  write: (value: string): void => localStorage.setItem(KEY, value),\n",
        "e2e/test_page.py::test_token[token_of_one_tab_is_not_anothers]",
    ),
    Mutant(
        "a card does not show the hint of the policy",
        "web/app/src/calls/approval-card.tsx",
        '      {details.hint && <p className="words">{details.hint}</p>}\n',
        "",
        "e2e/test_page.py::test_policy[question_with_a_hint_expires]",
    ),
]
