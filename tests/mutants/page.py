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
    Mutant(
        "an approval leaves out the payload that the person filled in",
        "web/app/src/calls/approval-card.tsx",
        "...(answer !== undefined ? { payload: answer } : {})",
        "...(answer === null ? { payload: answer } : {})",
        "e2e/test_page.py::test_form[payload_is_chosen_by_the_person]",
    ),
    Mutant(
        "what a person typed is rounded",
        "web/app/src/calls/form-fields.ts",
        "return NUMBER.test(text) ? { json: text }",
        "return NUMBER.test(text) ? { json: String(Number(text)) }",
        "e2e/test_page.py::test_form[payload_is_chosen_by_the_person]",
    ),
    Mutant(
        "a link of the model leaves without a question",
        "web/app/src/message/external-link.tsx",
        "    event.preventDefault();\n    ask(address);\n",
        "    ask(address);\n",
        "e2e/test_page.py::test_markdown[links_ask_before_they_leave]",
    ),
    Mutant(
        "a link of the model may run something",
        "web/app/src/message/external-link.tsx",
        "address && PROTOCOLS.includes(address.protocol) ? address : null",
        "PROTOCOLS.length > 0 ? address : null",
        "e2e/test_page.py::test_markdown[hostile_markdown_runs_and_loads_nothing]",
    ),
    Mutant(
        "an image of the model is loaded",
        "web/app/src/message/markdown/markdown.tsx",
        "  if (EMBEDDED_IMAGE.test(image.href)) return",
        "  if (EMBEDDED_IMAGE.test(image.href) || image.href) return",
        "e2e/test_page.py::test_markdown[hostile_markdown_runs_and_loads_nothing]",
    ),
    Mutant(
        "all blocks of an answer are made anew with every piece",
        "web/app/src/message/markdown/markdown.tsx",
        "<BlockView key={offset} token={token}",
        "<BlockView key={offset + parsed.blocks.length / 1e6} token={token}",
        "e2e/test_page.py::test_markdown[long_answer_streams_without_rendering_the_others]",
    ),
    Mutant(
        "messages above the last one are rendered again",
        "web/app/src/message/message-view.tsx",
        "  before.message === after.message && before.running",
        "  before.message === after.message && after.current && before.running",
        "e2e/test_page.py::test_markdown[long_answer_streams_without_rendering_the_others]",
    ),
    Mutant(
        "typing over a chat that is live elsewhere stops it first",
        "web/app/src/sync/chat-session.ts",
        "    try {\n      await this.#transport.sendAhead(",
        "    try {\n      await stopRun(chat);\n      await this.#transport.sendAhead(",
        "e2e/test_page.py::test_live[typing_over_a_live_answer_of_another_window_asks_first]",
    ),
    Mutant(
        "another mode is chosen while the live conversation goes on",
        "web/app/src/sync/chat-session.ts",
        "    this.#transport.live()?.hangUp();\n",
        "",
        "e2e/test_page.py::test_live[question_is_answered_in_another_mode]",
    ),
    Mutant(
        "an edit is a new message",
        "web/app/src/chat/chat-view.tsx",
        "files: message.parts.filter(isFileUIPart), messageId: message.id })",
        "files: message.parts.filter(isFileUIPart) })",
        "e2e/test_messages.py::test_messages[edited_message_replaces_what_came_after_it]",
    ),
    Mutant(
        "an answer that ended in a chat that is not shown counts as seen",
        "web/app/src/list/unread.ts",
        "now !== null && id !== current && !active && updatedAt >",
        "now !== null && id === current && !active && updatedAt >",
        "e2e/test_messages.py::test_list[answers_that_were_not_seen_are_marked]",
    ),
    Mutant(
        "a long chat is laid out from its beginning",
        "web/app/src/message/message.css",
        "content-visibility: auto; ",
        "",
        "e2e/test_messages.py::test_messages[messages_far_from_the_screen_are_not_laid_out]",
    ),
]
